"""The views above the page Triage: those that everyone has, and those that people saved."""

from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse

from poisonadmin.core.domain.access import Principal
from poisonadmin.saved_views.queries import SavedViewRow, list_saved_views
from poisonadmin.web.pages.views import href, pairs

_OF_EVERYONE = (
    ("Undecided", "state=NDLV"),
    ("Given up", "state=FAIL"),
    ("All messages", ""),
)
_PAGES = (("Failure groups", "groups"), ("Crashed", "blacklist"))


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
    here = href("", [pair for pair in pairs(request) if pair[0] != "cursor"]).lstrip("?")
    on_triage = request.path == triage
    views = [
        ShownView(name, triage + (f"?{query}" if query else ""), on_triage and query == here)
        for name, query in _OF_EVERYONE
    ]
    views[1:1] = [ShownView(name, reverse(route), request.path == reverse(route)) for name, route in _PAGES]
    views += [
        ShownView(row.name, f"{triage}?{row.query}", on_triage and row.query == here, row)
        for row in list_saved_views(principal=principal)
    ]
    return views
