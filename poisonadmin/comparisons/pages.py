"""Pages of comparisons: what messages have in common, and one click to the messages, or to a rule."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from urllib.parse import parse_qs

from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRefresh

from poisonadmin.comparisons.commands import requests
from poisonadmin.comparisons.domain.conditions import (
    FieldCondition,
    condition_from,
    rule_match,
    search_parameter,
    search_word,
)
from poisonadmin.comparisons.domain.findings import percent
from poisonadmin.comparisons.queries.comparisons import ComparisonRow, FindingRow, get_comparison
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.runs.commands.requests import RunEnded
from poisonadmin.search.domain.filters import narrowing, parse_filter, parse_search
from poisonadmin.search.queries.archived import can_answer
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.web.pages.views import Pairs, href, page


@dataclass(frozen=True)
class ShownFinding:
    """A finding as the page shows it: its conditions as text, and where its buttons lead; None for no button."""

    conditions: Sequence[FieldCondition]
    also: Sequence[FieldCondition]
    share: float
    share_of_others: float
    percent: str
    percent_of_others: str
    lift: float
    p_value: float
    messages: str | None
    rule: str | None
    alert: str | None


@require_POST
@page(topic="use/comparisons")
def ask(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Ask what messages have in common: ticked ones (`id`, or `value` of the sets that share `parameter`), or else a
    `selection`, what failed again of an `operation`, or what `query`, the filter of a list, finds now."""
    if ids := request.POST.getlist("id"):
        made = requests.compare_ids([_number(one) for one in ids], principal=principal)
    elif selection := request.POST.get("selection"):
        made = requests.request_comparison(selection_id=_number(selection), principal=principal)
    elif operation := request.POST.get("operation"):
        made = requests.compare_failures_of(_number(operation), principal=principal)
    else:
        given = parse_qs(request.POST.get("query", "").lstrip("?"), max_num_fields=200)
        if ticked := request.POST.getlist("value"):
            given[request.POST.get("parameter", "")] = ticked
        made = requests.request_comparison(message_filter=narrowing(given), principal=principal)
    return HttpResponseRedirect(reverse("comparisons-one", args=[made]))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise NotFound(f"There is no {text[:40]!r}.")
    return int(text)


@page(filters=(), topic="use/comparisons")
def one(request: HttpRequest, principal: Principal, comparison_id: int) -> HttpResponseBase:
    """Show a comparison; it refreshes by itself until it is over."""
    row = get_comparison(comparison_id, principal=principal)
    result = row.result
    context = {
        "comparison": row,
        "chosen_by": " ".join(
            text if name == "q" else f"{name}:{text}"
            for name, texts in _chosen_by(row, principal).items()
            for text in texts
        ),
        "findings": [_shown(finding, row, principal) for finding in result.findings] if result else [],
        "others_link": None if row.against is None else _triage(row.against),
        "leaves_archive_out": row.against is not None and not can_answer(parse_filter(row.against)),
        "is_part": result is not None
        and (result.failing_count > (result.failing or 0) or result.others_count > (result.others or 0)),
    }
    is_live = request.htmx  # type: ignore[attr-defined]
    if is_live and row.is_over:
        return HttpResponseClientRefresh()
    return render(request, "comparisons/_live.html" if is_live else "comparisons/comparison.html", context)


@require_POST
@page(topic="use/comparisons")
def cancel(_: HttpRequest, principal: Principal, comparison_id: int) -> HttpResponseBase:
    """Cancel a comparison, and show it; one that is over by now is shown, too."""
    with suppress(RunEnded):
        requests.cancel_comparison(comparison_id, principal=principal)
    return HttpResponseRedirect(reverse("comparisons-one", args=[comparison_id]))


def _shown(finding: FindingRow, row: ComparisonRow, principal: Principal) -> ShownFinding:
    conditions, also = ([condition_from(vars(one)) for one in some] for some in (finding.conditions, finding.also))
    may_configure = principal.may(Permission.CONFIGURE)
    return ShownFinding(
        conditions,
        also,
        finding.share,
        finding.share_of_others,
        percent(finding.share),
        percent(finding.share_of_others),
        finding.lift,
        finding.p_value,
        _messages_link(conditions, row, principal),
        _rule_link(conditions, row, principal) if may_configure else None,
        _alert_link(conditions, row, principal) if may_configure else None,
    )


def _messages_link(conditions: Sequence[FieldCondition], row: ComparisonRow, principal: Principal) -> str | None:
    """Return the list that the selection was made of, narrowed to the finding; None where a search cannot say it."""
    narrowed = [search_parameter(each) for each in conditions]
    if not all(narrowed):
        return None
    found = {name: list(texts) for name, texts in _chosen_by(row, principal).items()}
    for parameter in narrowed:
        name, text = parameter or ("", "")
        if name == "q":
            found["q"] = [" ".join([*found.get("q", []), text])]
        else:
            found[name] = [text]
    words = [text for name, text in filter(None, narrowed) if name == "q"]
    return _triage(found) if _are_understood(words, found) else None


def _chosen_by(row: ComparisonRow, principal: Principal) -> Mapping[str, Sequence[str]]:
    """Return the filter that the selection was made of; empty where there is none."""
    try:
        return get_selection(row.selection_id, principal=principal).filter or {}
    except NotFound:
        return {}


def _are_understood(words: Sequence[str], parameters: Mapping[str, Sequence[str]]) -> bool:
    """Return whether each word is one for the search; one that names no field would be looked for as a text."""
    try:
        parse_filter(parameters)
        return all([term.field for term in parse_search(word)] not in ([], ["text"]) for word in words)
    except InvalidFilter:
        return False


def _alert_link(conditions: Sequence[FieldCondition], row: ComparisonRow, principal: Principal) -> str | None:
    """Return the form of an alert on undecided messages that the finding is about; None where a search cannot say it.

    It is about the addresses where the failing messages are, as far as they are known, or those that the caller sees.
    """
    words = [word for one in conditions if (word := search_word(one))]
    if len(words) < len(conditions) or not _are_understood(words, {"q": words}):
        return None
    scope = [pattern for some in principal.patterns for pattern in some]
    addresses = _addresses(row, principal) or scope
    return href(reverse("alerts-new"), [("search", " ".join(words)), *(("address", one) for one in addresses)])


def _triage(parameters: Mapping[str, Sequence[str]]) -> str:
    pairs: Pairs = [(name, text) for name, texts in parameters.items() for text in texts]
    return href(reverse("triage"), pairs)


def _addresses(row: ComparisonRow, principal: Principal) -> Sequence[str]:
    """Return the addresses that the selection was narrowed to, or those beside which it was compared."""
    beside = (row.against or {}).get("address", []) if row.is_against_delivered else []
    return _chosen_by(row, principal).get("address") or beside


def _covering(addresses: Sequence[str]) -> str | None:
    """Return a pattern that covers the addresses, None where they do not even begin alike: it would cover all.

    >>> _covering(["orders.eu"]), _covering(["orders.eu.x", "orders.eu.y"]), _covering(["orders.eu", "bills.eu"])
    ('orders.eu', 'orders.eu.#', None)
    >>> _covering(["*.eu", "*.us"])
    """
    if len(addresses) == 1:
        return addresses[0]
    alike = list(
        takewhile(lambda words: len(set(words)) == 1, zip(*(one.split(".") for one in addresses), strict=False))
    )
    return ".".join([*(words[0] for words in alike), "#"]) if alike and alike[0][0] not in ("*", "#") else None


def _rule_link(conditions: Sequence[FieldCondition], row: ComparisonRow, principal: Principal) -> str | None:
    match, addresses = rule_match(conditions), _addresses(row, principal)
    if match is not None and (pattern := _covering(addresses)):
        match.setdefault("address", pattern)
    return None if match is None else href(reverse("rules-new"), [("match", json.dumps(match, ensure_ascii=False))])


urlpatterns = [
    path("comparisons/", ask, name="comparisons-ask"),
    path("comparisons/<int:comparison_id>/", one, name="comparisons-one"),
    path("comparisons/<int:comparison_id>/cancel/", cancel, name="comparisons-cancel"),
]
