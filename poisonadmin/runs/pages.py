"""Runs of all kinds, as jobs."""

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import path

from poisonadmin.core.domain.access import Principal
from poisonadmin.runs.domain.kinds import KindName, RunState
from poisonadmin.runs.queries.jobs import get_job, list_jobs, redelivered_jobs
from poisonadmin.web.pages.views import Section, SidebarEntry, page, pager, require_known


@page(
    filters=("kind", "state"),
    sidebar=SidebarEntry(Section.SYSTEM, 20, "Jobs", "activity", "j"),
    topic="use/dashboard#workers-and-jobs",
)
def jobs(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the jobs, newest first."""
    kinds = [text for text in request.GET.getlist("kind") if text in set(KindName)]
    states = [text for text in request.GET.getlist("state") if text in set(RunState)]
    is_whole = not kinds and not states
    found = list_jobs(
        principal=principal, kinds=kinds, states=states, is_rolled_up=is_whole, cursor=request.GET.get("cursor")
    )
    context = {
        "rows": found.results,
        "pager": pager(request, found),
        "kinds": [(str(kind), str(kind) in kinds) for kind in KindName],
        "states": [(str(state), str(state) in states) for state in RunState],
        "filtered": bool(kinds or states),
        "rolled_up": redelivered_jobs(principal=principal) if is_whole else None,
        "limited": not principal.sees_everything,
    }
    return render(request, "runs/jobs_live.html" if request.htmx else "runs/jobs.html", context)  # type: ignore[attr-defined]


@page()
def job(request: HttpRequest, principal: Principal, job_id: int) -> HttpResponseBase:
    """Render one job."""
    require_known(request)
    found = get_job(job_id, principal=principal)
    context = {
        "job": found,
        "params": sorted(found.params.items()),
        "result": sorted(found.result.items()),
    }
    return render(request, "runs/job_live.html" if request.htmx else "runs/job.html", context)  # type: ignore[attr-defined]


urlpatterns = [
    path("jobs/", jobs, name="jobs"),
    path("jobs/<int:job_id>/", job, name="jobs-one"),
]
