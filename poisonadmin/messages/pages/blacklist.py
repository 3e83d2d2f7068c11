"""The blacklist: what crashed what processed it, the bystanders that were cleared, and the candidates under way."""

from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.filter_values import address_or_pattern as checked_pattern
from poisonadmin.core.queries.filter_values import checked_text, moment
from poisonadmin.delivery.queries.crashes import get_crash
from poisonadmin.messages.pages.views_bar import views_bar
from poisonadmin.messages.queries import blacklist as queries
from poisonadmin.messages.queries.blacklist import list_others, others_on
from poisonadmin.messages.queries.detail import get_message
from poisonadmin.messages.queries.filters import state
from poisonadmin.operations.domain.actions import ACTIONS
from poisonadmin.web.pages.views import href, page, pager, require_known
from poisonadmin.web.pages.words import STATES

SHOWN_CANDIDATES = 10


@page(filters=("address", "part"))
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the page; the candidates alone when htmx asks for them."""
    patterns = _patterns(request)
    if request.htmx and request.GET.get("part") == "candidates":  # type: ignore[attr-defined]
        return render(request, "messages/blacklist_candidates.html", _candidates(principal, patterns))
    found = queries.list_blacklisted(principal=principal, patterns=patterns, cursor=request.GET.get("cursor"))
    count = queries.count_blacklisted(principal=principal, patterns=patterns)
    context = _candidates(principal, patterns) | {
        "views": views_bar(request, principal),
        "rows": found.results,
        "pager": pager(request, found),
        "count": count,
        "address": " ".join(patterns),
        "newer": _newer_link(request, patterns, found.results),
        "actions": [action for action in ACTIONS.values() if action.on_lists],
        "empty": None if found.results else _why_empty(principal, filtered=bool(patterns)),
        "decided": None if found.results else queries.count_decided(principal),
        "decided_days": queries.DECIDED_DAYS,
    }
    return render(request, "messages/blacklist.html", context)


@page()
def newer(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the banner that says how many were blacklisted since the list was made; empty when none were."""
    require_known(request, "address", "since")
    patterns = _patterns(request)
    since = moment("since", request.GET.get("since", ""))
    count = queries.count_newer(principal=principal, patterns=patterns, since=since)
    link = href(reverse("blacklist"), [("address", text) for text in patterns])
    return render(request, "web/_newer.html", {"count": count, "link": link})


@page()
def bystanders(request: HttpRequest, principal: Principal, message_id: int, attempt: int) -> HttpResponseBase:
    """Render the messages that shared the node with a crash, and what became of each."""
    require_known(request, "state")
    states = [str(state("state", text)) for text in request.GET.getlist("state")]
    crash = get_crash(message_id, attempt, principal=principal)
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
    return render(request, "messages/blacklist_bystanders.html", context)


def _candidates(principal: Principal, patterns: list[str]) -> dict[str, Any]:
    kept = [("address", text) for text in patterns]
    return {
        "candidates": queries.candidates(principal=principal, patterns=patterns, limit=SHOWN_CANDIDATES),
        "candidate_count": queries.count_candidates(principal=principal, patterns=patterns),
        "candidates_link": href(reverse("blacklist"), [*kept, ("part", "candidates")]),
        "all_candidates": href(reverse("triage"), [("candidate", "true"), ("state", "TBDL"), ("state", "DLNG"), *kept]),
    }


def _patterns(request: HttpRequest) -> list[str]:
    words = [word for text in request.GET.getlist("address") for word in checked_text("address", text).split()]
    return [checked_pattern("address", word) for word in dict.fromkeys(words)]


def _newer_link(request: HttpRequest, patterns: list[str], rows: list[queries.Suspect]) -> str | None:
    """Return where to ask for newer ones; None on a later page, on which they would not appear."""
    if not rows or "cursor" in request.GET:
        return None
    since = ("since", rows[0].message.state_at.isoformat())
    return href(reverse("blacklist-newer"), [*(("address", text) for text in patterns), since])


def _why_empty(principal: Principal, *, filtered: bool) -> str:
    if filtered:
        return "nothing_matches"
    if queries.has_ever_crashed(principal):
        return "nothing_now"
    return "nothing_ever" if principal.sees_everything else "nothing_in_scope"
