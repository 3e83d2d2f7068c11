"""Triage: messages that a filter finds, as a list, as sets of what they share, as their failures, or as crashes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.filter_values import MAX_ID, InvalidFilter
from poisonadmin.core.queries.paging import Count
from poisonadmin.decisions.operations.domain.actions import actions_on_lists
from poisonadmin.desk.pages import crashed, sets
from poisonadmin.desk.pages.crashed import CRASHES
from poisonadmin.desk.pages.opened_from import list_parameter
from poisonadmin.groups.queries.grouping import GroupBy
from poisonadmin.messages.domain.states import Confirming, Reason, State
from poisonadmin.messages.queries.counts import counts
from poisonadmin.messages.queries.message_rows import messages_by_id
from poisonadmin.search.deep.queries import archived_found, latest_search, list_found
from poisonadmin.search.domain.filters import MessageFilter, fields_of, narrowing, parse_filter
from poisonadmin.search.domain.words import WORDS, SearchWord, parameter
from poisonadmin.search.queries.archived import ArchivedMessageRow, can_answer, list_archived
from poisonadmin.search.queries.failures import FailureFilter, list_failures
from poisonadmin.search.queries.lists import count_messages, list_messages
from poisonadmin.search.queries.meanings import not_searched
from poisonadmin.search.queries.report import COLUMNS, MAX_ROWS, report_rows
from poisonadmin.search.views.queries import SavedViewRow, list_saved_views
from poisonadmin.web.api.attachments import csv_attachment
from poisonadmin.web.pages.tables import Sort
from poisonadmin.web.pages.views import Pairs, Section, SidebarEntry, href, page, pager, pairs, tidied
from poisonadmin.web.pages.words import CONFIRMATIONS, REASONS, STATES, reason_words, state_words

PAGE_ROWS = 50
OLDEST_FIRST = [("ordering", "id")]
NEWER_CAP = 100
CHIP_NAMES = {"q": "search"} | {word.name: word.label for word in WORDS if word.label}
# What is shown of the messages that the filter finds: the messages, sets of them, their failures, or their crashes.
FAILURE, FAILURES = "failure", "failures"
SHOWN_AS = {
    "": "Messages",
    FAILURE: "By failure",
    GroupBy.ADDRESS: "By address",
    GroupBy.ORIGINAL_ADDRESS: "By original address",
    GroupBy.DESTINATION: "By destination",
    GroupBy.REASON: "By reason",
    GroupBy.OWNER: "By owner",
    GroupBy.CONSUMER_VERSION: "By consumer version",
    FAILURES: "Failures",
    CRASHES: "Crashes",
}
# Fields of the form below *More filters*; what else the list is narrowed by, it carries along.
FORM_FIELDS = {word.name: word for word in WORDS if word.form}
# The words for codes: in lists of choices, and of a filter in force.
_CHOICES: dict[Any, Mapping[str, str]] = {State: STATES, Reason: REASONS, Confirming: CONFIRMATIONS}
_CODES: dict[Any, Callable[[str], str]] = {State: state_words, Reason: reason_words}
# The view that Triage opens with: failures whose messages need a decision.
_GROUPS = "state=NDLV&snoozed=false&group_by=failure"
_OF_EVERYONE = (
    ("Groups", _GROUPS),
    ("Messages", "state=NDLV"),
    ("Crashed", "state=NDLV&reason=blacklisted&group_by=crashes"),
    ("Given up", "state=FAIL"),
    ("All messages", ""),
)
# Terms by which somebody looks for certain messages, which may be archived.
LOOKED_UP = {"message_id", "conversation_id", "key", "text"}
SHOWN_ARCHIVED = 10


@dataclass(frozen=True)
class Chip:
    """One filter in force, and the list without it."""

    name: str
    value: str
    without: str


@page(
    sidebar=SidebarEntry(
        Section.TRIAGE,
        20,
        "Triage",
        "mail",
        "m",
        also=("messages", "groups", "failures", "blacklist"),
        query=f"?{_GROUPS}",
    ),
    topic="use/dashboard#triage",
)
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the page: what the filter finds, as `group_by` says."""
    if tidy := tidied(request):
        return tidy
    by = request.GET.get("group_by", "")
    if by == CRASHES and sorted(crashed.narrowed(_kept(request))) != sorted(_kept(request)):
        return HttpResponseRedirect(href(request.path, _grouped(_kept(request), by)))
    content: dict[str, Any] = {}
    template, problem = "", None
    message_filter = MessageFilter()
    try:
        message_filter = parse_filter(_given(request))
        if message_filter.is_deep:
            by = ""
            template, content = "searches/_searched.html", searched_content(request, principal)
        else:
            template, content = _shown(request, principal, message_filter, by)
    except PoisonAdminError as error:
        problem = error
    empty = None
    if not content.get("rows") and not problem and not message_filter.is_deep:
        empty = content.get("why_empty") or _why_empty(message_filter, principal)
    context = (
        _frame(request, principal, by)
        | content
        | {
            "problem": problem,
            "not_searched": not_searched(message_filter, principal),
            "empty": empty,
            "numbered": _numbered(request, principal) if empty else None,
            "template": template,
            "is_deep": message_filter.is_deep,
        }
    )
    return render(request, "messages/triage.html", context, status=problem.status if problem else 200)


def _shown(
    request: HttpRequest, principal: Principal, message_filter: MessageFilter, by: str
) -> tuple[str, dict[str, Any]]:
    """Return the template for what the page shows, and what it holds."""
    kept = _kept(request)
    if by == "":
        return "messages/_listed.html", _messages(request, principal, message_filter)
    if by == FAILURES:
        return "messages/_failures.html", _failures(request, principal, message_filter)
    if by == CRASHES:
        return "messages/_listed.html", crashed.content(request, principal, message_filter)
    if by == FAILURE:
        return "messages/_groups.html", sets.failure_groups(request, principal, message_filter, by=by, kept=kept)
    title = SHOWN_AS.get(by, by).removeprefix("By ").capitalize()
    return "messages/_listed.html", sets.sets(request, principal, message_filter, by=by, kept=kept, title=title)


def _frame(request: HttpRequest, principal: Principal, by: str) -> dict[str, Any]:
    kept = _kept(request)
    shown_as = [(href(request.path, _grouped(kept, one)), words, one == by) for one, words in SHOWN_AS.items()]
    views = views_bar(request, principal)
    shown = next((view for view in views if view.is_on and view.row is None), None)
    return {
        "views": views,
        "shown": shown,
        "chips": [] if shown else _chips(request, () if by != CRASHES else crashed.NARROWED),
        "form_fields": [_form_field(word, request.GET.getlist(word.name)) for word in FORM_FIELDS.values()],
        "carried": [pair for pair in _grouped(kept, by) if pair[0] not in FORM_FIELDS],
        "kept": kept,
        "shown_as": shown_as,
        "by": by,
        "by_other": by if by not in SHOWN_AS else "",
        "query": href("", kept),
        "here": href("", pairs(request)),
        "no_filter": href(request.path, _grouped([], by)),
        "search_text": request.GET.get("q", ""),
        "actions": actions_on_lists(request.GET.getlist("state")),
        "max_rows": MAX_ROWS,
    }


def _messages(request: HttpRequest, principal: Principal, message_filter: MessageFilter) -> dict[str, Any]:
    ordering = request.GET.get("ordering", "-id")
    kept, cursor = _kept(request), request.GET.get("cursor")
    found = list_messages(message_filter, principal=principal, cursor=cursor, limit=PAGE_ROWS, ordering=ordering)
    newer_link = None
    if found.results and ordering == "-id" and cursor is None:
        newer_link = href(reverse("triage-newer"), [*kept, ("since", str(found.results[0].id))])
    return {
        "rows": found.results,
        "archived": _archived(message_filter, principal) if cursor is None else [],
        "pager": pager(request, found),
        "ordering": ordering,
        "sorts": {"id": Sort(href(request.path, [*kept, *OLDEST_FIRST] if ordering == "-id" else kept), ordering)},
        "newer_link": newer_link,
        "in_list": list_parameter(request.GET.urlencode()),
    }


def _archived(message_filter: MessageFilter, principal: Principal) -> list[ArchivedMessageRow]:
    """Return the newest archived messages that the filter finds, where it looks for some rather than lists many."""
    if not any(term.field in LOOKED_UP for term in message_filter.terms) or not can_answer(message_filter):
        return []
    return list_archived(message_filter, principal=principal, limit=SHOWN_ARCHIVED).results


def _failures(request: HttpRequest, principal: Principal, message_filter: MessageFilter) -> dict[str, Any]:
    found = list_failures(FailureFilter(), within=message_filter, principal=principal, cursor=request.GET.get("cursor"))
    return {"rows": found.results, "pager": pager(request, found)}


@page()
def newer(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the banner that says how many came since the list was made; empty when none did."""
    message_filter, by = parse_filter(_given(request)), request.GET.get("group_by", "")
    if by == CRASHES:
        count = crashed.count_newer(request, principal, message_filter)
    else:
        since = request.GET.get("since", "")
        if not (since.isascii() and since.isdigit() and len(since) <= 18):
            raise InvalidFilter("since", "since is the id of a message.")
        count = count_messages(message_filter, principal=principal, since=int(since), cap=NEWER_CAP)
    link = href(reverse("triage"), _grouped(_kept(request), by))
    return render(request, "web/_newer.html", {"count": count, "link": link})


@page(Permission.EXPORT)
def as_csv(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Stream the list as CSV, and write into the audit who took it out."""
    message_filter = parse_filter(_given(request))
    count = count_messages(message_filter, principal=principal, cap=MAX_ROWS)
    details = {"filter": fields_of(_given(request)), "rows": count.n, "cut": count.capped}
    audit.record(principal.name, "report.exported", "messages", "csv", details=details)
    rows = report_rows(message_filter, principal=principal)
    name = f"messages-first-{MAX_ROWS}.csv" if count.capped else "messages.csv"
    return csv_attachment(request, COLUMNS, rows, name, mark=request.GET.get("mark") == "1")


def _given(request: HttpRequest) -> Mapping[str, Sequence[str]]:
    return narrowing(dict(request.GET.lists()))


def _kept(request: HttpRequest) -> Pairs:
    return [(name, text) for name, texts in _given(request).items() for text in texts]


def _grouped(kept: Pairs, by: str) -> Pairs:
    narrowed = crashed.narrowed(kept) if by == CRASHES else kept
    return [*narrowed, ("group_by", by)] if by else kept


def _chips(request: HttpRequest, implied: Sequence[tuple[str, str]]) -> list[Chip]:
    """Return the filters in force, but for what the view `implied`."""
    kept = pairs(request)
    chips = []
    for position, (name, value) in enumerate(kept):
        if (name, value) in implied or not narrowing({name: [value]}):
            continue
        rest = [pair for at, pair in enumerate(kept) if at != position and pair[0] != "cursor"]
        chips.append(Chip(CHIP_NAMES.get(name, name), _chip_value(name, value), href(request.path, rest)))
    return chips


def _chip_value(name: str, value: str) -> str:
    word = parameter(name)
    if word is None or word.form is None:
        return value
    return word.form.choices.get(value) or _CODES.get(word.kind.values, str)(value)


def _form_field(word: SearchWord, given: Sequence[str]) -> dict[str, Any]:
    """Return a field of the form as its template shows it, with what is chosen."""
    choices = (word.form.choices if word.form else {}) or _CHOICES.get(word.kind.values, {})
    return {
        "name": word.name,
        "form": word.form,
        "kind": word.kind.name,
        "value": given[-1] if given else "",
        "choices": [(code, words, code in given) for code, words in choices.items()],
    }


def _why_empty(message_filter: MessageFilter, principal: Principal) -> str:
    if message_filter.params == (("state", "NDLV"),):
        return "all_clear"
    if message_filter.params:
        return "nothing_matches"
    if not any(counts(principal).by_state.values()) and not principal.sees_everything:
        return "nothing_in_scope"
    return "nothing_yet"


def _numbered(request: HttpRequest, principal: Principal) -> int | None:
    """Return the number of the message that is searched for as pages write it, such as #286."""
    text = request.GET.get("q", "").strip().removeprefix("#")
    if not (text.isascii() and text.isdigit() and int(text) <= MAX_ID):
        return None
    return next((row.id for row in messages_by_id([int(text)], principal=principal)), None)


def searched_content(request: HttpRequest, principal: Principal) -> dict[str, Any]:
    """Return what the page holds: `search` None where the account has not searched for it in its scope."""
    principal.require(Permission.READ_PAYLOAD)
    search = latest_search(narrowing(dict(request.GET.lists())), principal=principal)
    if search is None:
        return {"search": None}
    found = list_found(search, principal=principal, cursor=request.GET.get("cursor"))
    return {
        "search": search,
        "rows": found.results,
        "archived": archived_found(search, principal=principal),
        "pager": pager(request, found),
        # The selection is made already; the list's filter selects nothing.
        "matching": Count(0, capped=False),
    }


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
    # Of views of one query one is shown: one's own, or else the first.
    shown = [view for view in views if view.is_on]
    own = [view for view in shown if view.row and view.row.owner == principal.name]
    return [replace(view, is_on=view in (own or shown)[:1]) for view in views]


urlpatterns = [
    path("triage/", show, name="triage"),
    path("triage/newer/", newer, name="triage-newer"),
    path("triage/messages.csv", as_csv, name="triage-csv"),
]
