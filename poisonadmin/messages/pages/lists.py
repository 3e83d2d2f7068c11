"""The list of messages: filters in the URL, keyset pages, rows to tick, and the report of the same list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.queries.filter_values import InvalidFilter
from poisonadmin.core.queries.paging import Page
from poisonadmin.messages.queries.counts import counts
from poisonadmin.messages.queries.filters import MessageFilter, parse_filter
from poisonadmin.messages.queries.lists import count_messages, list_messages
from poisonadmin.messages.queries.report import MAX_ROWS, report
from poisonadmin.operations.domain.actions import ACTIONS
from poisonadmin.web.pages.streams import streamed
from poisonadmin.web.pages.views import Pairs, href, page, pager, pairs, tidied
from poisonadmin.web.pages.words import CONFIRMATIONS, REASONS, STATES, reason_words, state_words

PAGE_ROWS = 50
NEWER_CAP = 100
OWN = {"cursor", "ordering", "since", "mark"}
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


@dataclass(frozen=True)
class Chip:
    """One filter in force, and the list without it."""

    name: str
    value: str
    without: str


@page()
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the list."""
    if tidy := tidied(request):
        return tidy
    ordering = request.GET.get("ordering", "-id")
    found: Page = Page([], None, None)  # type: ignore[type-arg]
    message_filter, problem = MessageFilter(), None
    try:
        message_filter = parse_filter(_given(request))
        found = list_messages(
            message_filter,
            principal=principal,
            cursor=request.GET.get("cursor"),
            limit=PAGE_ROWS,
            ordering=ordering,
        )
    except PoisonAdminError as error:
        problem = error
    context = {
        "rows": found.results,
        "pager": pager(request, found),
        "problem": problem,
        "chips": _chips(request),
        "values": {name: values[-1] for name, values in request.GET.lists()},
        "states": [(code, words, code in request.GET.getlist("state")) for code, words in STATES.items()],
        "reasons": REASONS,
        "confirmations": CONFIRMATIONS,
        "ordering": ordering,
        "oldest_first": href(request.path, [*_kept(request), ("ordering", "id")]),
        "newest_first": href(request.path, _kept(request)),
        "newest_id": found.results[0].id
        if found.results and ordering == "-id" and "cursor" not in request.GET
        else None,
        "query": href("", _kept(request)),
        "search_text": request.GET.get("q", ""),
        "actions": [action for action in ACTIONS.values() if action.on_lists],
        "empty": None if found.results or problem else _why_empty(message_filter, principal),
        "title": _title(request),
        "max_rows": MAX_ROWS,
    }
    return render(request, "messages/messages.html", context, status=problem.status if problem else 200)


@page()
def newer(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the banner that says how many came since the list was made; empty when none did."""
    since = request.GET.get("since", "")
    if not (since.isascii() and since.isdigit() and len(since) <= 18):
        raise InvalidFilter("since", "since is the id of a message.")
    count = count_messages(parse_filter(_given(request)), principal=principal, since=int(since), cap=NEWER_CAP)
    return render(request, "web/_newer.html", {"count": count, "link": href("/messages/", _kept(request))})


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
    return {name: [str(value) for value in values] for name, values in request.GET.lists() if name not in OWN}


def _kept(request: HttpRequest) -> Pairs:
    return [(name, value) for name, value in pairs(request) if name not in OWN]


def _chips(request: HttpRequest) -> list[Chip]:
    kept = pairs(request)
    chips = []
    for position, (name, value) in enumerate(kept):
        if name in OWN:
            continue
        rest = [pair for at, pair in enumerate(kept) if at != position and pair[0] != "cursor"]
        chips.append(Chip(CHIP_NAMES.get(name, name), _chip_value(name, value), href(request.path, rest)))
    return chips


def _chip_value(name: str, value: str) -> str:
    return {"state": state_words, "reason": reason_words}.get(name, str)(value)


def _title(request: HttpRequest) -> str:
    states = request.GET.getlist("state")
    return "Messages" if len(states) != 1 else f"Messages: {state_words(states[0])}"


def _why_empty(message_filter: MessageFilter, principal: Principal) -> str:
    if message_filter.params == (("state", "NDLV"),):
        return "all_clear"
    if message_filter.params:
        return "nothing_matches"
    if not any(counts(principal).by_state.values()) and not principal.sees_everything:
        return "nothing_in_scope"
    return "nothing_yet"
