"""Failure groups: what fails for the same cause, and one group in full."""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from poisonadmin.core.domain.access import Principal
from poisonadmin.messages.pages import stack_view
from poisonadmin.messages.queries.detail import attempts
from poisonadmin.messages.queries.failures import FailureFilter, get_group, list_failures, list_groups
from poisonadmin.messages.queries.filters import parse_filter
from poisonadmin.messages.queries.lists import list_messages
from poisonadmin.web.pages.links import pager, require_known, tidied
from poisonadmin.web.pages.permissions import page

SHOWN_MESSAGES = 10
SHOWN_FAILURES = 10


@page()
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the list, the latest failure first."""
    if tidy := tidied(request):
        return tidy
    require_known(request, "error")
    error = request.GET.get("error")
    found = list_groups(principal=principal, error=error, cursor=request.GET.get("cursor"))
    peak = max((hour for group in found.results for hour in group.trend), default=0)
    context = {"rows": found.results, "pager": pager(request, found), "error": error or "", "peak": peak}
    return render(request, "messages/groups.html", context)


@page()
def show(request: HttpRequest, principal: Principal, group_id: int) -> HttpResponseBase:
    """Render one group: counts, trend, an example with its stack, its latest messages and failures."""
    require_known(request)
    group = get_group(group_id, principal=principal)
    latest = list_messages(parse_filter({"group": [str(group_id)]}), principal=principal, limit=SHOWN_MESSAGES)
    failures = list_failures(FailureFilter(groups=(group_id,)), principal=principal, limit=SHOWN_FAILURES)
    example = next(
        (
            attempt
            for failure in failures.results[:1]
            for attempt in attempts(failure.message_id, principal=principal).results
            if attempt.attempt_number == failure.attempt_number
        ),
        None,
    )
    context = {
        "group": group,
        "counts": group.counts,
        "narrowed": urlencode({"group": group_id}),
        "peak": max(group.trend, default=0),
        "rows": latest.results,
        "failures": failures.results,
        "example": example,
        "example_id": failures.results[0].message_id if failures.results else None,
        "frames": stack_view.folded(example.stack) if example and example.stack else [],
    }
    return render(request, "messages/group.html", context)
