"""The views above the page Triage: those that everyone has, and those that people saved."""

from dataclasses import dataclass
from urllib.parse import parse_qsl

from django.http import HttpRequest
from django.urls import reverse

from poisonadmin.core.domain.access import Principal
from poisonadmin.search.views.queries import SavedViewRow, list_saved_views
from poisonadmin.web.pages.views import href, pairs

_OF_EVERYONE = (
    ("Undecided", "state=NDLV"),
    ("Failure groups", "snoozed=false&group_by=failure"),
    ("Crashed", "state=NDLV&reason=blacklisted&group_by=crashes"),
    ("Given up", "state=FAIL"),
    ("All messages", ""),
)
# Where in a list one is, and in which order, makes no other view of it.
_OF_THE_LIST = ("cursor", "sort", "ordering")


@dataclass(frozen=True)
class ShownView:
    """`row`: None for a view that everyone has."""

    name: str
    link: str
    is_on: bool
    row: SavedViewRow | None = None


def views_bar(request: HttpRequest, principal: Principal) -> list[ShownView]:
    """Return the views that the principal can open, the one that is shown marked."""
    triage = reverse("triage")
    here = [pair for pair in pairs(request) if pair[0] not in _OF_THE_LIST]
    views = [
        ShownView(name, triage + (f"?{query}" if query else ""), sorted(here) == sorted(parse_qsl(query)))
        for name, query in _OF_EVERYONE
    ]
    whole = href("", [pair for pair in pairs(request) if pair[0] != "cursor"]).lstrip("?")
    views += [
        ShownView(row.name, f"{triage}?{row.query}", row.query == whole, row)
        for row in list_saved_views(principal=principal)
    ]
    return views
