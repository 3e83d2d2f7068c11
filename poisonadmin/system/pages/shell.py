"""The side bar and badges around every page, and the palette that Ctrl-K opens.

The palette finds pages, views, messages, addresses, failures and help by a few letters of their name.
"""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import path, reverse

from poisonadmin.addresses.queries import names_holding
from poisonadmin.alerts.queries.alerts import failing_rules
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.filter_values import checked_text
from poisonadmin.core.queries.read_only import read_only_mode
from poisonadmin.core.queries.rows import QueryTooExpensive
from poisonadmin.decisions.sign_offs.queries import waiting_count
from poisonadmin.groups.queries.groups import list_groups
from poisonadmin.messages.queries.message_rows import messages_by_id
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.views.queries import list_saved_views
from poisonadmin.system.queries.overview import undecided_count
from poisonadmin.web.pages.documentation import headings_holding, help_path
from poisonadmin.web.pages.errors import request_id
from poisonadmin.web.pages.views import SidebarEntry, href, page, sections


def sections_for(principal: Principal) -> list[tuple[str, list[SidebarEntry]]]:
    """Return the sections with the entries that the principal may open, without those that hold none."""
    allowed = [
        (title, [entry for entry in entries if principal.may(entry.permission)]) for title, entries in sections()
    ]
    return [(title, entries) for title, entries in allowed if entries]


def shell(request: HttpRequest) -> dict[str, Any]:
    """Return the environment's name and, for a page behind the gate, who reads it and where they may go."""
    shown: dict[str, Any] = {"environment_name": settings.ENVIRONMENT_NAME, "request_id": request_id()}
    shown |= {"sign_on": settings.SIGN_ON and settings.SIGN_ON.label, "local_login": settings.LOCAL_LOGIN}
    match, principal = request.resolver_match, getattr(request, "principal", None)
    shown |= {"help": help_path(topic_of(match.func, match.url_name or "") if match else "")}
    if principal is None:
        return shown
    current, offered = _entry_of((match and match.url_name) or ""), sections_for(principal)
    return shown | {
        "principal": principal,
        "sections": offered,
        "current": current,
        "tabs": next((entries for title, entries in offered if current and title == current.section), ()),
        "is_entry": current is not None and match.url_name == current.route,  # type: ignore[union-attr]
        "read_only": None if getattr(request, "htmx", False) else read_only_mode(),
        "may_decide": principal.may(Permission.DECIDE),
        "may_ingest": principal.may(Permission.INGEST),
        "may_pause": principal.may(Permission.PAUSE),
        "may_configure": principal.may(Permission.CONFIGURE),
        "may_export": principal.may(Permission.EXPORT),
        # A badge is not worth a page that fails: fragments do not draw it.
        "failing_alerts": None if getattr(request, "htmx", False) else failing_rules(principal),
        "undecided": None if getattr(request, "htmx", False) else undecided_count(principal),
        "sign_offs_waiting": None if getattr(request, "htmx", False) else waiting_count(principal),
    }


def topic_of(view: Any, route: str) -> str:
    """Return the document that is a page's help, and the heading: what its view names, or else that of its entry."""
    entry = _entry_of(route)
    return getattr(view, "topic", "") or (entry.topic if entry else "")


def _entry_of(route: str) -> SidebarEntry | None:
    """Return the entry that the page of a route belongs to."""
    first = route.partition("-")[0]
    entries = (entry for _, entries in sections() for entry in entries)
    return next((entry for entry in entries if first in (entry.route, *entry.also)), None)


OF_A_KIND = 6
MAX_DIGITS = 18


@dataclass(frozen=True)
class PalettePlace:
    """A target of the palette; `kind` says what it is."""

    kind: str
    name: str
    link: str


@page(filters=("q",), topic="use/dashboard#keyboard")
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the places that the text in `q` can mean, for htmx."""
    text = checked_text("q", request.GET.get("q", "").strip())
    places = _pages(text, principal)
    if text:
        places = [*_messages(text, principal), *places, *_addresses(text, principal), *_failures(text, principal)]
        places += [PalettePlace("Help", name, one.path) for name, one in headings_holding(text, limit=OF_A_KIND)]
    return render(request, "system/palette.html", {"places": places, "text": text})


def _pages(text: str, principal: Principal) -> list[PalettePlace]:
    entries = [entry for _, entries in sections_for(principal) for entry in entries]
    pages = [PalettePlace("Page", entry.name, entry.link) for entry in entries]
    views = [
        PalettePlace("View", row.name, f"{reverse('triage')}?{row.query}")
        for row in list_saved_views(principal=principal)
    ]
    return [place for place in (*pages, *views) if text.lower() in place.name.lower()]


def _messages(text: str, principal: Principal) -> list[PalettePlace]:
    digits = text.removeprefix("#")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS):
        return []
    rows = messages_by_id([int(digits)], principal=principal)
    return [
        PalettePlace("Message", f"#{row.id}, {row.state}, {row.address}", reverse("messages-one", args=[row.id]))
        for row in rows
    ]


def _addresses(text: str, principal: Principal) -> list[PalettePlace]:
    names = names_holding(text, principal=principal, limit=OF_A_KIND)
    return [PalettePlace("Address", name, href(reverse("addresses-one"), [("name", name)])) for name in names]


def _failures(text: str, principal: Principal) -> list[PalettePlace]:
    try:
        named = parse_filter({"failure": [text], "snoozed": ["false"]})
        groups = list_groups(named, principal=principal, limit=OF_A_KIND).results
    except QueryTooExpensive:
        return []
    return [PalettePlace("Failure", group.title, reverse("groups-one", args=[group.id])) for group in groups]


urlpatterns = [
    path("palette/", show, name="palette"),
]
