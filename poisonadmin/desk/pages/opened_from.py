"""The list that a message was opened from: the way back, and the messages before and after it there."""

from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

from django.http import HttpRequest
from django.urls import reverse

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.rows import QueryTooExpensive
from poisonadmin.search.domain.filters import narrowing, parse_filter
from poisonadmin.search.queries.lists import neighbours

PARAMETER = "list"


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
