"""The facets above a list of messages: what it can be narrowed to, and how many messages that would leave."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import path, reverse

from poisonadmin.core.domain.access import Principal
from poisonadmin.desk.pages.crashed import CRASHES
from poisonadmin.search.domain.filters import narrowing, parse_filter
from poisonadmin.search.domain.words import KEY
from poisonadmin.search.queries.facets import FacetValue, facets
from poisonadmin.search.queries.recent_facets import recent_facets
from poisonadmin.web.pages.views import Pairs, href, page, pairs
from poisonadmin.web.pages.words import reason_words, state_words

SHOWN_VALUES = 12
_WORDS = {"state": state_words, "reason": reason_words}


@dataclass(frozen=True)
class FacetLink:
    """A value that the list can be narrowed to; where it is already, `link` leads to the list without it."""

    words: str
    count: int
    is_on: bool
    link: str


@dataclass(frozen=True)
class ShownFacet:
    """The values of a field. `more`: how many messages have none of these."""

    title: str
    links: list[FacetLink]
    more: int

    @property
    def is_on(self) -> bool:
        """True where the list is narrowed by this value."""
        return any(link.is_on for link in self.links)


@page()
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the facets of the list that the query names, for htmx."""
    given = pairs(request)
    message_filter = parse_filter(narrowing(dict(request.GET.lists())))
    found = facets(message_filter, principal=principal, limit=SHOWN_VALUES)
    recent = recent_facets(message_filter, principal=principal)
    shown = [
        ShownFacet(title, _links(given, field, facet.values), facet.others)
        for field, title, facet in (
            ("state", "State", found.state),
            ("group", "Failure", found.group),
            ("address", "Address", found.address),
            ("original_address", "Original address", found.original_address),
            ("reason", "Reason", found.reason),
        )
    ]
    if request.GET.get("group_by") == CRASHES:
        shown = [facet for facet in shown if facet.title not in ("State", "Reason")]
    shown.append(ShownFacet("Failed", _spans(given, recent.failed), 0))
    shown += [ShownFacet(name, _links(given, KEY + name, values), 0) for name, values in recent.keys.items()]
    total = found.total
    return render(request, "messages/_facets.html", {"facets": [one for one in shown if one.links], "total": total})


def _links(given: Pairs, field: str, values: Iterable[FacetValue]) -> list[FacetLink]:
    words = _WORDS.get(field, str)
    return [
        FacetLink(words(one.label), one.count, (field, one.value) in given, _toggled(given, (field, one.value)))
        for one in values
        if one.count or (field, one.value) in given
    ]


def _spans(given: Pairs, values: Iterable[FacetValue]) -> list[FacetLink]:
    """Return the links to the last hour, day and week, as words of the search box."""
    return [
        FacetLink(f"in the last {one.label}", one.count, pair in given, _toggled(given, pair))
        for one in values
        if (pair := ("q", f"failed:{one.value}")) and (one.count or pair in given)
    ]


def _toggled(given: Pairs, pair: tuple[str, str]) -> str:
    kept = [one for one in given if one not in (pair, ("cursor", dict(given).get("cursor")))]
    return href(reverse("triage"), kept if pair in given else [*kept, pair])


urlpatterns = [
    path("triage/facets/", show, name="triage-facets"),
]
