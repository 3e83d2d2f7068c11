"""What runs, and who did what."""

from datetime import datetime

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.filter_values import checked_text, moment
from poisonadmin.store.models.job import JobKind, JobState
from poisonadmin.system.queries.audit import AuditFilter, list_audit
from poisonadmin.system.queries.jobs import get_job, list_jobs
from poisonadmin.web.pages.links import pager, require_known, tidied
from poisonadmin.web.pages.permissions import page


@page()
def jobs(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the jobs, newest first."""
    if tidy := tidied(request):
        return tidy
    require_known(request, "kind", "state")
    kinds = [text for text in request.GET.getlist("kind") if text in set(JobKind)]
    states = [text for text in request.GET.getlist("state") if text in set(JobState)]
    found = list_jobs(principal=principal, kinds=kinds, states=states, cursor=request.GET.get("cursor"))
    context = {
        "rows": found.results,
        "pager": pager(request, found),
        "kinds": [(str(kind), str(kind) in kinds) for kind in JobKind],
        "states": [(str(state), str(state) in states) for state in JobState],
        "filtered": bool(kinds or states),
        "limited": not principal.sees_everything,
    }
    return render(request, "system/jobs_live.html" if request.htmx else "system/jobs.html", context)  # type: ignore[attr-defined]


@page()
def job(request: HttpRequest, principal: Principal, job_id: int) -> HttpResponseBase:
    """Render one job."""
    require_known(request)
    found = get_job(job_id, principal=principal)
    running = found.state in {JobState.QUEUED, JobState.RUNNING}
    context = {
        "job": found,
        "running": running,
        "params": sorted(found.params.items()),
        "counts": sorted(found.counts.items()),
    }
    return render(request, "system/job_live.html" if request.htmx else "system/job.html", context)  # type: ignore[attr-defined]


@page()
def audit(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render who did what, newest first."""
    if tidy := tidied(request):
        return tidy
    require_known(request, "actor", "action", "object_type", "object_id", "after", "before")
    only = AuditFilter(
        actor=_text(request, "actor"),
        action=_text(request, "action"),
        object_type=_text(request, "object_type"),
        object_id=_text(request, "object_id"),
        after=_moment(request, "after"),
        before=_moment(request, "before"),
    )
    found = list_audit(only, principal=principal, cursor=request.GET.get("cursor"))
    context = {
        "rows": found.results,
        "pager": pager(request, found),
        "values": request.GET.dict(),
        "filtered": only != AuditFilter(),
        "limited": not principal.sees_everything,
    }
    return render(request, "system/audit.html", context)


def _text(request: HttpRequest, name: str) -> str | None:
    return checked_text(name, request.GET[name]) if name in request.GET else None


def _moment(request: HttpRequest, name: str) -> datetime | None:
    return moment(name, request.GET[name]) if name in request.GET else None
