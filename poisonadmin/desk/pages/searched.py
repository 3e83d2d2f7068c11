"""Triage by what payloads hold: the account's search for it, and what that has found."""

from typing import Any

from django.http import HttpRequest

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.paging import Count
from poisonadmin.search.deep.domain.states import SearchState
from poisonadmin.search.deep.queries.searches import archived_found, latest_search, list_found
from poisonadmin.search.domain.filters import MessageFilter, narrowing
from poisonadmin.search.domain.payload_words import DEEP
from poisonadmin.web.pages.views import pager


def is_deep(message_filter: MessageFilter) -> bool:
    """Return whether a search job has to look for it."""
    return any(term.field in DEEP for term in message_filter.terms)


def content(request: HttpRequest, principal: Principal) -> dict[str, Any]:
    """Return what the page holds: `search` None where the account has not searched for it in its scope."""
    principal.require(Permission.READ_PAYLOAD)
    search = latest_search(narrowing(dict(request.GET.lists())), principal=principal)
    if search is None:
        return {"search": None}
    found = list_found(search, principal=principal, cursor=request.GET.get("cursor"))
    return {
        "search": search,
        "is_running": search.state == SearchState.RUNNING,
        "rows": found.results,
        "archived": archived_found(search),
        "pager": pager(request, found),
        # The selection is made already; the list's filter selects nothing.
        "matching": Count(0, capped=False),
    }
