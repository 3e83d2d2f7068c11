"""Restart jobs: what each does and its runs, the preview of a run, and the form for administrators."""

from typing import ClassVar

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.core.domain.settings import settings_of
from poisonadmin.decisions.operations.domain.actions import ACTIONS
from poisonadmin.decisions.restart_jobs import commands
from poisonadmin.decisions.restart_jobs.commands import InvalidRestartJob
from poisonadmin.decisions.restart_jobs.domain import ORDERS, RestartJobSettings, RunOutcome
from poisonadmin.decisions.restart_jobs.queries import (
    RestartJobRow,
    RestartRunRow,
    count_restartable,
    get_restart_job,
    list_restart_jobs,
    list_runs,
)
from poisonadmin.messages.domain.outcomes import MemberOutcome
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.web.pages.forms import (
    saved_or_shown,
)
from poisonadmin.web.pages.setting_fields import SettingsForm
from poisonadmin.web.pages.views import Section, SidebarEntry, href, page, pager, require_known

RUNS_A_PAGE = 20
# Fewer digits than the largest id has.
ID_DIGITS = 19


class RestartJobForm(SettingsForm):
    """A restart job. Its filter is a parameter of the list of messages a line."""

    object_type = "restart_job"
    layout: ClassVar[tuple[tuple[str, str], ...]] = (
        ("", "name action reason"),
        ("Which messages", "filter limit order max_restarts include_blacklisted"),
        ("How it delivers", "rate_per_second canary"),
    )
    rest = "When it runs"
    settings = settings_of(RestartJobSettings)

    def job(self) -> RestartJobSettings:
        """Return the job as typed."""
        return RestartJobSettings(**self.values())

    def check(self) -> None:
        """Raise what the command would refuse."""
        commands.check_restart_job(self.job())

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error."""
        return "filter" if isinstance(error, InvalidFilter) else super().field_of(error)


LEDGER: dict[MemberOutcome, str] = {
    MemberOutcome.DELIVERED: "delivered",
    MemberOutcome.CONFIRMED: "confirmed",
    MemberOutcome.CHANGED: "changed",
    MemberOutcome.FAILED_SAME: "failed again",
    MemberOutcome.FAILED_NEW: "failed with another failure",
    MemberOutcome.BLACKLISTED: "blacklisted",
    MemberOutcome.SKIPPED: "left alone",
    MemberOutcome.CANCELLED: "cancelled",
    MemberOutcome.WAITING: "waiting for the next attempt",
    MemberOutcome.UNANSWERED: "not answered yet",
}
RUNS: dict[str, str] = {
    RunOutcome.BEGUN: "Began",
    RunOutcome.NOTHING: "Found nothing",
    RunOutcome.SKIPPED: "Skipped",
    RunOutcome.REFUSED: "Refused",
    RunOutcome.FAILED: "Failed",
}


@page(sidebar=SidebarEntry(Section.OPERATIONS, 30, "Restart jobs", "refresh", "r"), topic="use/restart-jobs")
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the restart jobs by name."""
    require_known(request)
    rows = [
        (row, ACTIONS[row.action], RUNS.get(row.last_outcome or ""), _messages(row))
        for row in list_restart_jobs(principal=principal)
    ]
    return render(request, "restart_jobs/restart_jobs.html", {"rows": rows, "limited": not principal.sees_everything})


@page(filters=())
def show(request: HttpRequest, principal: Principal, restart_job_id: int) -> HttpResponseBase:
    """Show a restart job with its runs and their ledgers."""
    row = get_restart_job(restart_job_id, principal=principal)
    found = list_runs(row.id, principal=principal, cursor=request.GET.get("cursor"), limit=RUNS_A_PAGE)
    context = {
        "job": row,
        "action": ACTIONS[row.action],
        "count": count_restartable(row),
        "order": ORDERS[row.order],
        "messages_link": _messages(row),
        "runs": [(run, RUNS[run.outcome], _ledger(run)) for run in found.results],
        "pager": pager(request, found),
    }
    return render(request, "restart_jobs/restart_job.html", context)


@page(Permission.CONFIGURE, is_for_all=True)
def edit(request: HttpRequest, principal: Principal, restart_job_id: int | None = None) -> HttpResponseBase:
    """Show the form of a restart job, and save it when it is sent."""
    row = None if restart_job_id is None else get_restart_job(restart_job_id, principal=principal)
    of_list = {"filter": dict(request.GET.lists())}
    form = RestartJobForm(request.POST if request.method == "POST" else None, row, initial=of_list)

    def save() -> str:
        saved = commands.save_restart_job(
            **form.values(),
            principal=principal,
            expected_version=form.expected_version(),
        )
        notes.success(request, f"The restart job {saved.name} is saved.")
        return reverse("restart_jobs-one", args=[saved.id])

    return saved_or_shown(request, form, save, "restart_jobs/restart_job_form.html", lambda: {"job": row})


@require_POST
@page(Permission.CONFIGURE, is_for_all=True)
def preview(request: HttpRequest, principal: Principal, restart_job_id: int) -> HttpResponseBase:  # noqa: ARG001
    """Freeze what a run would decide on now, and go to its preview."""
    selection_id = commands.freeze_for_preview(restart_job_id, principal=principal)
    return HttpResponseRedirect(reverse("restart_jobs-previewed", args=[restart_job_id, selection_id]))


@page(Permission.CONFIGURE, is_for_all=True, topic="use/restart-jobs#preview")
def previewed(request: HttpRequest, principal: Principal, restart_job_id: int, selection_id: int) -> HttpResponseBase:
    """Show what a run on these messages would do, and offer that run."""
    row = get_restart_job(restart_job_id, principal=principal)
    found = get_selection(selection_id, principal=principal)
    context = {"job": row, "action": ACTIONS[row.action], "selection": found}
    return render(request, "restart_jobs/restart_job_preview.html", context)


@require_POST
@page(Permission.CONFIGURE, is_for_all=True)
def run(request: HttpRequest, principal: Principal, restart_job_id: int) -> HttpResponseBase:
    """Run the job now, on the messages of a preview where one was seen."""
    row = get_restart_job(restart_job_id, principal=principal)
    given = request.POST.get("selection", "")
    selection_id = int(given) if given.isdecimal() and len(given) < ID_DIGITS else None
    try:
        made = commands.run_once(restart_job_id, principal=principal, selection_id=selection_id)
    except InvalidRestartJob:
        notes.error(request, "The messages have changed since this preview. Preview it again.")
        return HttpResponseRedirect(reverse("restart_jobs-one", args=[restart_job_id]))
    if made.operation_id is not None:
        return HttpResponseRedirect(reverse("operations-one", args=[made.operation_id]))
    if made.outcome == RunOutcome.NOTHING:
        notes.success(request, f"{row.name}: no message to decide on.")
    else:
        notes.error(request, f"{RUNS[made.outcome]}: {made.detail}")
    return HttpResponseRedirect(reverse("restart_jobs-one", args=[restart_job_id]))


@require_POST
@page(Permission.CONFIGURE, is_for_all=True)
def delete(request: HttpRequest, principal: Principal, restart_job_id: int) -> HttpResponseBase:
    """Remove the job."""
    row = get_restart_job(restart_job_id, principal=principal)
    commands.delete_restart_job(restart_job_id, principal=principal)
    notes.success(request, f"The restart job {row.name} is gone. Operations that it has begun go on.")
    return HttpResponseRedirect(reverse("restart_jobs"))


def _ledger(run: RestartRunRow) -> list[tuple[MemberOutcome, str, int]]:
    """Return the lines of a run's ledger that are not 0: outcome, words and count."""
    return [(one, words, n) for one, words in LEDGER.items() if run.ledger and (n := getattr(run.ledger, one))]


def _messages(row: RestartJobRow) -> str:
    """Return the page of the messages that the job's filter finds now."""
    given = [(name, text) for name, texts in row.filter.items() if name != "state" for text in texts]
    return href(reverse("triage"), [*given, ("state", "NDLV")])


urlpatterns = [
    path("restart-jobs/", show_all, name="restart_jobs"),
    path("restart-jobs/new/", edit, name="restart_jobs-new"),
    path("restart-jobs/<int:restart_job_id>/", show, name="restart_jobs-one"),
    path("restart-jobs/<int:restart_job_id>/edit/", edit, name="restart_jobs-edit"),
    path("restart-jobs/<int:restart_job_id>/preview/", preview, name="restart_jobs-preview"),
    path("restart-jobs/<int:restart_job_id>/preview/<int:selection_id>/", previewed, name="restart_jobs-previewed"),
    path("restart-jobs/<int:restart_job_id>/run/", run, name="restart_jobs-run"),
    path("restart-jobs/<int:restart_job_id>/delete/", delete, name="restart_jobs-delete"),
]
