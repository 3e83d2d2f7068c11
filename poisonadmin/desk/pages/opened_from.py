"""Lists around a message: that which it was opened from, with its neighbours there, and the latest of an address."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode

from django.http import HttpRequest
from django.urls import reverse

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.rows import QueryTooExpensive
from poisonadmin.decisions.operations.domain.actions import actions_on_lists
from poisonadmin.search.domain.filters import narrowing, parse_filter
from poisonadmin.search.queries.lists import list_messages, neighbours

PARAMETER = "list"
SHOWN_MESSAGES = 5


@dataclass(frozen=True)
class OpenedFrom:
    """URLs: of the list, and of the messages before and after this one in it; None where there is none.

    `parameter`: what a URL of the message has behind its question mark to keep the list.
    """

    back: str
    previous: str | None
    next: str | None
    parameter: str


def list_parameter(query: str) -> str:
    """Return what the link to a message has behind it, so that the message knows its list; `query`: the list's."""
    return f"?{urlencode({PARAMETER: query.lstrip('?')})}"


def opened_from(request: HttpRequest, message_id: int, principal: Principal) -> OpenedFrom | None:
    """Return the list that the request names; None where it names none. Errors: `InvalidFilter`."""
    query = request.GET.get(PARAMETER)
    if query is None:
        return None
    given = parse_qs(query, max_num_fields=200)
    ordering = given.get("ordering", ["-id"])[0]
    try:
        before, after = neighbours(parse_filter(narrowing(given)), message_id, principal=principal, ordering=ordering)
    except QueryTooExpensive:
        before = after = None
    kept = list_parameter(query)
    previous_url, next_url = (
        None if one is None else reverse("messages-one", args=[one]) + kept for one in (before, after)
    )
    back = reverse("triage") + (f"?{query}" if query else "")
    return OpenedFrom(back, previous_url, next_url, kept.lstrip("?"))


def latest_messages(field: str, value: str, counts: Mapping[str, int], principal: Principal) -> dict[str, Any]:
    """Return what a page shows of the latest undecided messages that have this value, or of all where none is."""
    given = {field: [value]} | ({"state": ["NDLV"]} if counts["NDLV"] else {})
    latest = list_messages(parse_filter(given), principal=principal, limit=SHOWN_MESSAGES)
    query = urlencode(given, doseq=True)
    return {
        "counts": counts,
        "narrowed": urlencode({field: value}),
        "rows": latest.results,
        "matching": latest.total(),
        "heading": "Undecided messages" if "state" in given else "Latest messages",
        "query": query,
        "in_list": list_parameter(query),
        "whole_list": f"{reverse('triage')}?{query}",
        "actions": actions_on_lists(given.get("state", ())),
    }
