"""Triage: messages that a filter finds, as a list, as sets of what they share, or as their failures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.queries.filter_values import InvalidFilter
from poisonadmin.messages.pages.opened_from import list_parameter
from poisonadmin.messages.pages.views_bar import views_bar
from poisonadmin.messages.queries.counts import counts
from poisonadmin.messages.queries.failures import FailureFilter, list_failures
from poisonadmin.messages.queries.filters import MessageFilter, narrowing, parse_filter
from poisonadmin.messages.queries.grouping import GroupBy, Grouping, MessageSet, SetOrder, group_messages
from poisonadmin.messages.queries.lists import count_messages, list_messages
from poisonadmin.messages.queries.report import MAX_ROWS, report
from poisonadmin.operations.domain.actions import ACTIONS
from poisonadmin.web.pages.streams import streamed
from poisonadmin.web.pages.views import Pairs, href, page, pager, pairs, tidied
from poisonadmin.web.pages.words import CONFIRMATIONS, REASONS, STATES, reason_words, state_words

PAGE_ROWS = 50
NEWER_CAP = 100
CHIP_NAMES = {
    "q": "search",
    "state": "state",
    "reason": "reason",
    "group": "failure group",
    "original_address": "original address",
    "confirmation": "consumer confirmation",
    "conversation_id": "conversation",
    "message_id": "message id",
    "received_after": "received after",
    "received_before": "received before",
    "failed_after": "failed after",
    "failed_before": "failed before",
}
# What is shown of the messages that the filter finds: the messages, their failures, or sets of them.
FAILURES = "failures"
SHOWN_AS = {
    "": "Messages",
    GroupBy.FAILURE: "By failure",
    GroupBy.ADDRESS: "By address",
    GroupBy.ORIGINAL_ADDRESS: "By original address",
    GroupBy.DESTINATION: "By destination",
    GroupBy.REASON: "By reason",
    FAILURES: "Failures",
}
SET_ORDERS = {
    SetOrder.UNDECIDED: "most undecided",
    SetOrder.SIZE: "most messages",
    SetOrder.TREND: "most in the last day",
    SetOrder.LAST: "latest failure",
    SetOrder.FIRST: "newest",
}


@dataclass(frozen=True)
class Chip:
    """One filter in force, and the list without it."""

    name: str
    value: str
    without: str


@dataclass(frozen=True)
class ShownSet:
    """A set as the page names it. `link`: the list narrowed to it, None where no filter can say so."""

    row: MessageSet
    name: str
    link: str | None


@page()
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the page: what the filter finds, as `group_by` says."""
    if tidy := tidied(request):
        return tidy
    by = request.GET.get("group_by", "")
    content, template, problem = {}, "messages/_listed.html", None
    message_filter = MessageFilter()
    try:
        message_filter = parse_filter(_given(request))
        if by == FAILURES:
            content, template = _failures(request, principal, message_filter), "messages/_failures.html"
        elif by:
            content, template = _sets(request, principal, message_filter, by), "messages/_sets.html"
        else:
            content = _messages(request, principal, message_filter)
    except PoisonAdminError as error:
        problem = error
    empty = None if content.get("rows") or problem else _why_empty(message_filter, principal)
    context = _frame(request, principal, by) | content | {"problem": problem, "empty": empty, "template": template}
    return render(request, "messages/triage.html", context, status=problem.status if problem else 200)


def _frame(request: HttpRequest, principal: Principal, by: str) -> dict[str, Any]:
    kept = _kept(request)
    shown_as = [(href(request.path, _grouped(kept, one)), words, one == by) for one, words in SHOWN_AS.items()]
    return {
        "views": views_bar(request, principal),
        "chips": _chips(request),
        "values": {name: values[-1] for name, values in request.GET.lists()},
        "states": [(code, words, code in request.GET.getlist("state")) for code, words in STATES.items()],
        "reasons": REASONS,
        "confirmations": CONFIRMATIONS,
        "kept": kept,
        "shown_as": shown_as,
        "by": by,
        "by_other": by if by not in SHOWN_AS else "",
        "query": href("", kept),
        "here": href("", pairs(request)),
        "no_filter": href(request.path, _grouped([], by)),
        "search_text": request.GET.get("q", ""),
        "actions": [action for action in ACTIONS.values() if action.on_lists],
        "max_rows": MAX_ROWS,
    }


def _messages(request: HttpRequest, principal: Principal, message_filter: MessageFilter) -> dict[str, Any]:
    ordering = request.GET.get("ordering", "-id")
    cursor = request.GET.get("cursor")
    found = list_messages(message_filter, principal=principal, cursor=cursor, limit=PAGE_ROWS, ordering=ordering)
    is_newest = found.results and ordering == "-id" and cursor is None
    return {
        "rows": found.results,
        "pager": pager(request, found),
        "ordering": ordering,
        "oldest_first": href(request.path, [*_kept(request), ("ordering", "id")]),
        "newest_first": href(request.path, _kept(request)),
        "newest_id": found.results[0].id if is_newest else None,
        "in_list": list_parameter(request.GET.urlencode()),
    }


def _failures(request: HttpRequest, principal: Principal, message_filter: MessageFilter) -> dict[str, Any]:
    found = list_failures(FailureFilter(), within=message_filter, principal=principal, cursor=request.GET.get("cursor"))
    return {"rows": found.results, "pager": pager(request, found)}


def _sets(request: HttpRequest, principal: Principal, message_filter: MessageFilter, by: str) -> dict[str, Any]:
    order = request.GET.get("sort", SetOrder.UNDECIDED)
    grouping = group_messages(message_filter, by, principal=principal, order=order)
    kept = _kept(request)
    return {
        "rows": [_shown(row, grouping, by, kept, request.path) for row in grouping.sets],
        "grouping": grouping,
        "shared_by": SHOWN_AS.get(by, by).removeprefix("By ").capitalize(),
        "peak": max((hour for row in grouping.sets for hour in row.trend), default=0),
        "orders": [
            (href(request.path, [*_grouped(kept, by), ("sort", one)]), words, one == order)
            for one, words in SET_ORDERS.items()
        ],
    }


def _shown(row: MessageSet, grouping: Grouping, by: str, kept: Pairs, path: str) -> ShownSet:
    if row.value is None:
        return ShownSet(row, _none_of(by), None)
    name = reason_words(row.value) if by == GroupBy.REASON else row.label or row.value
    others = [pair for pair in kept if pair[0] != grouping.parameter]
    return ShownSet(row, name, href(path, [*others, (grouping.parameter, row.value)]))


def _none_of(by: str) -> str:
    """Return what messages are called that have no value of this kind."""
    known: dict[str, str] = {
        GroupBy.FAILURE: "No failure yet",
        GroupBy.ORIGINAL_ADDRESS: "Not moved",
        GroupBy.DESTINATION: "No destination",
        GroupBy.REASON: "No reason",
    }
    return known.get(by, f"No {by}")


@page()
def newer(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the banner that says how many came since the list was made; empty when none did."""
    since = request.GET.get("since", "")
    if not (since.isascii() and since.isdigit() and len(since) <= 18):
        raise InvalidFilter("since", "since is the id of a message.")
    count = count_messages(parse_filter(_given(request)), principal=principal, since=int(since), cap=NEWER_CAP)
    return render(request, "web/_newer.html", {"count": count, "link": href(reverse("triage"), _kept(request))})


@page(Permission.EXPORT)
def as_csv(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Stream the list as CSV, and write into the audit who took it out."""
    message_filter = parse_filter(_given(request))
    count = count_messages(message_filter, principal=principal, cap=MAX_ROWS)
    details = {"filter": [list(pair) for pair in message_filter.params], "rows": count.n, "cut": count.capped}
    audit.record(principal.name, "report.exported", "messages", "csv", details=details)
    chunks = report(message_filter, principal=principal, mark=request.GET.get("mark") == "1")
    return streamed(request, chunks, content_type="text/csv; charset=utf-8; header=present", filename="messages.csv")


def _given(request: HttpRequest) -> Mapping[str, Sequence[str]]:
    return narrowing(dict(request.GET.lists()))


def _kept(request: HttpRequest) -> Pairs:
    return [(name, text) for name, texts in _given(request).items() for text in texts]


def _grouped(kept: Pairs, by: str) -> Pairs:
    return [*kept, ("group_by", by)] if by else kept


def _chips(request: HttpRequest) -> list[Chip]:
    kept = pairs(request)
    chips = []
    for position, (name, value) in enumerate(kept):
        if not narrowing({name: [value]}):
            continue
        rest = [pair for at, pair in enumerate(kept) if at != position and pair[0] != "cursor"]
        chips.append(Chip(CHIP_NAMES.get(name, name), _chip_value(name, value), href(request.path, rest)))
    return chips


def _chip_value(name: str, value: str) -> str:
    return {"state": state_words, "reason": reason_words}.get(name, str)(value)


def _why_empty(message_filter: MessageFilter, principal: Principal) -> str:
    if message_filter.params == (("state", "NDLV"),):
        return "all_clear"
    if message_filter.params:
        return "nothing_matches"
    if not any(counts(principal).by_state.values()) and not principal.sees_everything:
        return "nothing_in_scope"
    return "nothing_yet"
