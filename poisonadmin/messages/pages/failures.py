"""The failure log across messages."""

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.filter_values import address_or_pattern, checked_text, moment
from poisonadmin.messages.queries.failures import FailureFilter, list_failures
from poisonadmin.web.pages.links import pager, require_known, tidied
from poisonadmin.web.pages.permissions import page


@page()
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the log, newest first."""
    if tidy := tidied(request):
        return tidy
    require_known(request, "address", "error", "destination", "failed_after", "failed_before")
    given = request.GET
    only = FailureFilter(
        addresses=tuple(address_or_pattern("address", text) for text in given.getlist("address")),
        errors=tuple(checked_text("error", text) for text in given.getlist("error")),
        destinations=tuple(checked_text("destination", text) for text in given.getlist("destination")),
        failed_after=moment("failed_after", given["failed_after"]) if "failed_after" in given else None,
        failed_before=moment("failed_before", given["failed_before"]) if "failed_before" in given else None,
    )
    found = list_failures(only, principal=principal, cursor=given.get("cursor"))
    filtered = any(name != "cursor" for name in given)
    context = {"rows": found.results, "pager": pager(request, found), "values": given.dict(), "filtered": filtered}
    return render(request, "messages/failures.html", context)
