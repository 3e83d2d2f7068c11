"""The first page: how the messages stand, what is late, what waits for a decision."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.utils import timezone

from poisonadmin.dashboard.gate import page
from poisonadmin.dashboard.links import require_known
from poisonadmin.domain.access import Principal
from poisonadmin.domain.errors import PoisonAdminError
from poisonadmin.queries import jobs, outcomes, overview, stats

SPAN_WORDS = {900: "15 min", 3600: "1 hour", 21_600: "6 hours", 86_400: "1 day"}
JOBS_SHOWN = 5
FRESH = timedelta(seconds=30)


@page()
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the page; the part that is refreshed alone when htmx asks."""
    require_known(request, "span")
    span = _span(request)
    context = _figures(principal) | {"span": span, "spans": SPAN_WORDS, "home": settings.HOME.name}
    return render(request, "pages/overview_live.html" if request.htmx else "pages/overview.html", context)  # type: ignore[attr-defined]


@page()
def outcomes_over_time(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Answer the chart: one list a series, and the times in seconds."""
    try:
        buckets = outcomes.outcomes(principal, span=_span(request))
    except PoisonAdminError as error:
        return JsonResponse({"detail": error.detail, "code": error.code}, status=error.status)
    return JsonResponse(
        {
            "at": [int(bucket.at.timestamp()) for bucket in buckets],
            "delivered": [bucket.delivered for bucket in buckets],
            "retried": [bucket.retried for bucket in buckets],
            "undecided": [bucket.undecided for bucket in buckets],
            "failed": [bucket.failed for bucket in buckets],
        }
    )


def _span(request: HttpRequest) -> int:
    text = request.GET.get("span", "3600")
    return int(text) if text.isascii() and text.isdigit() and int(text) in SPAN_WORDS else 3600


def _figures(principal: Principal) -> dict[str, Any]:
    counts = stats.counts(principal).by_state
    recent = jobs.list_jobs(principal=principal, limit=JOBS_SHOWN).results
    return {
        "counts": counts,
        "nothing_yet": not any(counts.values()),
        "due": overview.due(principal),
        "oldest": overview.oldest_undecided(principal),
        "groups": overview.top_groups(principal),
        "fleet": overview.fleet() if principal.sees_everything else None,
        "jobs": recent,
        "decisions": overview.recent_decisions(principal),
        "now": timezone.now(),
    }
