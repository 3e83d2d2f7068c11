"""The page of crashes: messages that were stopped for one, candidates under way, and bystanders."""

from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import path, reverse

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.filter_values import moment
from poisonadmin.core.queries.paging import Count
from poisonadmin.desk.queries.detail import get_message, masks_at
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.crashes import get_crash
from poisonadmin.search.domain.filters import MessageFilter, narrowing, parse_filter
from poisonadmin.search.queries import blacklist as queries
from poisonadmin.search.queries.blacklist import list_others, others_on
from poisonadmin.web.pages.views import Pairs, href, page, pager, pairs, require_known
from poisonadmin.web.pages.words import STATES

# The value of `group_by` that shows the view.
CRASHES = "crashes"
TABLE = "messages/_crashed_table.html"
SHOWN_CANDIDATES = 10
# What every message of the view has, as its URL says it.
NARROWED = [("state", str(State.NDLV)), ("reason", str(Reason.BLACKLISTED))]


def narrowed(kept: Pairs) -> Pairs:
    """Return the filter, narrowed to what crashed its consumer."""
    return [*NARROWED, *(pair for pair in kept if pair[0] not in ("state", "reason"))]


def content(request: HttpRequest, principal: Principal, message_filter: MessageFilter) -> dict[str, Any]:
    """Return what the view shows."""
    found = queries.list_blacklisted(message_filter, principal=principal, cursor=request.GET.get("cursor"))
    empty = {} if found.results else {"why_empty": _why_empty(message_filter, principal)}
    return (
        _candidates(request, message_filter, principal)
        | empty
        | {
            "table": TABLE,
            "origin": "crashed",
            "rows": found.results,
            "pager": pager(request, found),
            "newer_link": _newer_link(request, found.results),
        }
    )


def count_newer(request: HttpRequest, principal: Principal, message_filter: MessageFilter) -> Count:
    """Return how many were blacklisted since the moment that the request names."""
    since = moment("since", request.GET.get("since", ""))
    return queries.count_newer(message_filter, principal=principal, since=since)


@page()
def candidates(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the candidates alone, for htmx."""
    message_filter = parse_filter(narrowing(dict(request.GET.lists())))
    return render(request, "messages/_candidates.html", _candidates(request, message_filter, principal))


@page(topic="use/dashboard#crashes")
def bystanders(request: HttpRequest, principal: Principal, message_id: int, attempt: int) -> HttpResponseBase:
    """Render the messages that shared the node with a crash, and what became of each."""
    require_known(request, "state")
    states = [str(term) for term in parse_filter({"state": request.GET.getlist("state")}).terms for term in term.values]
    crash = masks_at(message_id, principal).row(get_crash(message_id, attempt, principal=principal))
    message = get_message(message_id, principal=principal)
    found = list_others(crash, principal=principal, states=states, cursor=request.GET.get("cursor"))
    place = (crash.claim_id, crash.shard)
    others = others_on({place}, principal=principal).get(place) if None not in place else None  # type: ignore[arg-type]
    context = {
        "crash": crash,
        "message": message,
        "others": None if others is None else others.without(message),
        "states": [(code, words, [code] == states) for code, words in STATES.items()],
        "rows": found.results,
        "pager": pager(request, found),
        "filtered": bool(states),
    }
    return render(request, "messages/bystanders.html", context)


def _candidates(request: HttpRequest, message_filter: MessageFilter, principal: Principal) -> dict[str, Any]:
    kept = [pair for pair in pairs(request) if narrowing({pair[0]: [pair[1]]})]
    besides = [pair for pair in kept if pair not in NARROWED]
    waiting = [("candidate", "true"), ("state", str(State.TBDL)), ("state", str(State.DLNG))]
    return {
        "candidates": queries.candidates(message_filter, principal=principal, limit=SHOWN_CANDIDATES),
        "candidate_count": queries.count_candidates(message_filter, principal=principal),
        "candidates_link": href(reverse("triage-candidates"), kept),
        "all_candidates": href(reverse("triage"), [*waiting, *besides]),
    }


def _newer_link(request: HttpRequest, rows: list[queries.Suspect]) -> str | None:
    """Return where to ask for newer ones; None on a later page, on which they would not appear."""
    if not rows or "cursor" in request.GET:
        return None
    return href(reverse("triage-newer"), [*pairs(request), ("since", rows[0].message.state_at.isoformat())])


def _why_empty(message_filter: MessageFilter, principal: Principal) -> str:
    if set(message_filter.params) - set(NARROWED):
        return "nothing_matches"
    if queries.has_ever_crashed(principal):
        return "no_crash_now"
    return "no_crash_ever" if principal.sees_everything else "no_crash_in_scope"


urlpatterns = [
    path("triage/candidates/", candidates, name="triage-candidates"),
    path("messages/<int:message_id>/bystanders/<int:attempt>/", bystanders, name="messages-bystanders"),
]
