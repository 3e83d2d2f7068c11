"""Home: what needs somebody now, how the messages stand, and what was decided."""

from typing import Any

from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.urls import path

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.decisions.operations.domain.actions import ACTIONS
from poisonadmin.decisions.operations.queries.operations import list_operations
from poisonadmin.deployments.queries import deployments_since
from poisonadmin.messages.queries.counts import counts
from poisonadmin.system.pages.needs import needs, quiet_since
from poisonadmin.system.queries import overview
from poisonadmin.web.pages.views import Section, SidebarEntry, page, require_known

SPAN_WORDS = {900: "15 min", 3600: "1 hour", 21_600: "6 hours", 86_400: "1 day"}
DEFAULT_SPAN = 900
DECISIONS_SHOWN = 8
SERIES = ("delivered", "retried", "undecided", "failed")


@page(sidebar=SidebarEntry(Section.HOME, 10, "Home", "home", "o"), topic="use/dashboard#home")
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the page; one of its two living parts when htmx asks for it."""
    require_known(request, "span", "part")
    part = request.GET.get("part") if request.htmx else None  # type: ignore[attr-defined]
    if part == "now":
        return render(request, "system/overview_now.html", _now(principal))
    if part == "decisions":
        return render(request, "system/overview_decisions.html", _decisions(principal))
    context = _now(principal) | _decisions(principal) | {"span": _span(request), "spans": SPAN_WORDS}
    return render(request, "system/overview.html", context)


@page()
def outcomes_over_time(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Answer the chart: one list a series, and the times in seconds."""
    try:
        buckets = overview.outcomes_by_time(principal, span=_span(request))
    except PoisonAdminError as error:
        return JsonResponse({"detail": error.detail, "code": error.code}, status=error.status)
    return JsonResponse(
        {
            "at": [int(bucket.at.timestamp()) for bucket in buckets],
            "deployments": [
                [int(one.at.timestamp()), one.words] for one in deployments_since(buckets[0].at, principal=principal)
            ],
            **{name: [getattr(bucket, name) for bucket in buckets] for name in SERIES},
            "backlog": overview.backlog(buckets, principal),
        }
    )


def _span(request: HttpRequest) -> int:
    text = request.GET.get("span", "")
    return int(text) if text.isascii() and text.isdigit() and int(text) in SPAN_WORDS else DEFAULT_SPAN


def _now(principal: Principal) -> dict[str, Any]:
    found = counts(principal)
    known = needs(principal, found)
    return {
        "counts": found.by_state,
        "needs": known,
        "quiet_since": None if known else quiet_since(principal),
        "nothing_yet": not any(found.by_state.values()),
    }


def _decisions(principal: Principal) -> dict[str, Any]:
    page = list_operations(principal=principal, limit=DECISIONS_SHOWN)
    return {"decisions": [(row, ACTIONS[row.action]) for row in page.results]}


urlpatterns = [
    path("", show, name="overview"),
    path("outcomes.json", outcomes_over_time, name="overview-outcomes"),
]
