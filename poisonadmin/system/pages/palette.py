"""The palette that Ctrl-K opens: pages, views, messages, addresses and failures by a few letters of their name."""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse

from poisonadmin.addresses.queries import names_holding
from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.filter_values import checked_text
from poisonadmin.core.queries.rows import QueryTooExpensive
from poisonadmin.groups.queries.groups import list_groups
from poisonadmin.messages.queries.message_rows import messages_by_id
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.views.queries import list_saved_views
from poisonadmin.system.pages.shell import sections_for
from poisonadmin.web.pages.views import href, page

OF_A_KIND = 6
MAX_DIGITS = 18


@dataclass(frozen=True)
class PalettePlace:
    """Where one can go; `kind` says what is there."""

    kind: str
    name: str
    link: str


@page(filters=("q",))
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the places that the text in `q` can mean, for htmx."""
    text = checked_text("q", request.GET.get("q", "").strip())
    places = _pages(text, principal)
    if text:
        places = [*_messages(text, principal), *places, *_addresses(text, principal), *_failures(text, principal)]
    return render(request, "system/palette.html", {"places": places, "text": text})


def _pages(text: str, principal: Principal) -> list[PalettePlace]:
    entries = [entry for _, entries in sections_for(principal) for entry in entries]
    pages = [PalettePlace("Page", entry.name, reverse(entry.route)) for entry in entries]
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
