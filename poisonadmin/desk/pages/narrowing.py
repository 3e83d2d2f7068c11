"""Narrowing a list of messages: the facets above it, and completions of the last word in the search box."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import path, reverse

from poisonadmin.addresses.queries import names_holding
from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.filter_values import checked_text
from poisonadmin.desk.pages.crashed import CRASHES
from poisonadmin.search.domain.filters import narrowing, parse_filter
from poisonadmin.search.domain.words import ADDRESS, BYTES, JSON_VALUE, KEY, WORDS, word_of_box
from poisonadmin.search.queries.facets import FacetValue, facets, recent_facets
from poisonadmin.search.queries.owners import NOBODY, completions_of
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
def show_facets(request: HttpRequest, principal: Principal) -> HttpResponseBase:
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


MOST_OPTIONS = 12
_NAMES = sorted(
    word.name for word in WORDS if word.in_box and not word.is_named and word.kind not in (BYTES, JSON_VALUE)
)


@page(filters=("q",))
def completions(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the texts that the search box can be completed to, for its list of options."""
    before, space, word = checked_text("q", request.GET.get("q", "")).rpartition(" ")
    negated = "!" if word.startswith("!") else ""
    options = [f"{before}{space}{negated}{one}" for one in _completed(word.removeprefix("!"), principal)[:MOST_OPTIONS]]
    return render(request, "messages/_completions.html", {"options": options})


def _completed(word: str, principal: Principal) -> list[str]:
    field, colon, start = word.partition(":")
    if not colon:
        return [f"{name}:" for name in _NAMES if word and name.startswith(word)]
    asked = word_of_box(field)
    if asked is not None and asked.kind is ADDRESS:
        return [
            f"{field}:{name}"
            for name in names_holding(start, principal=principal, limit=MOST_OPTIONS)
            if " " not in name
        ]
    if field in ("owner", "tag"):
        nobody = [NOBODY] if field == "owner" and NOBODY.startswith(start) else []
        found = completions_of(field, start, principal=principal, limit=MOST_OPTIONS)
        return [f"{field}:{one}" for one in (*nobody, *found) if " " not in one]
    examples = asked.kind.examples if asked else ()
    return [f"{field}:{value}" for value in examples if value.lower().startswith(start.lower())]


urlpatterns = [
    path("triage/facets/", show_facets, name="triage-facets"),
    path("triage/completions/", completions, name="triage-completions"),
]
