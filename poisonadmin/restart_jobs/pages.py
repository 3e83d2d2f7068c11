"""Restart jobs: schedules that approve what waits for a decision, and the form for administrators."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.queries.filter_values import InvalidFilter
from poisonadmin.restart_jobs import commands as operations
from poisonadmin.restart_jobs.commands import InvalidRestartJob
from poisonadmin.restart_jobs.queries import RestartJobRow, count_restartable, get_restart_job, list_restart_jobs
from poisonadmin.web.pages.forms import StoredForm, TextField, saved_or_shown, texts_by_line, ticks, whole_number
from poisonadmin.web.pages.views import href, page, require_known

# Parameters of the page of messages that narrow nothing.
_OF_THE_LIST = {"cursor", "ordering", "since", "mark", "state"}


def _parameters(text: str) -> dict[str, list[str]]:
    """Return the parameters of lines such as `address=orders.#`; raise InvalidRestartJob."""
    found: dict[str, list[str]] = {}
    for line in texts_by_line(text):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not value:
            raise InvalidRestartJob("filter", f"{line[:80]!r} is no parameter such as `address=orders.#`.")
        found.setdefault(name, []).append(value)
    return found


def _lines(parameters: Mapping[str, Sequence[str]]) -> str:
    named = [(name, text) for name, texts in parameters.items() if name not in _OF_THE_LIST for text in texts]
    return "\n".join(f"{name}={text}" for name, text in named)


class RestartJobForm(StoredForm):
    """A restart job. Its filter is a parameter of the list of messages a line."""

    object_type = "restart_job"
    name = TextField("Name", most=operations.MAX_NAME_CHARS, needed=True)
    schedule = TextField(
        "Schedule: five cron fields, UTC",
        most=operations.MAX_SCHEDULE_CHARS,
        initial="0 4 * * *",
        needed=True,
        note="minute, hour, day, month, day of week",
    )
    filter = TextField(
        "Filter: one parameter a line",
        read=_parameters,
        write=_lines,
        rows=4,
        hint="address=orders.#",
        note="Those of the list of messages: address, reason, group, error, q, key.<name> and so on. Empty: all"
        " messages that wait for a decision.",
    )
    max_restarts = whole_number("Most approvals of each message", initial=1, needed=True)
    include_blacklisted = ticks("Also approve blacklisted messages, which crashed what processed them")
    is_enabled = ticks("Switched on", initial=True)

    def job(self) -> dict[str, Any]:
        """Return the arguments of the command that saves it but the switches; what cannot be read may be anything."""
        typed = self.cleaned_data
        return {
            "name": typed.get("name", ""),
            "schedule": typed.get("schedule", ""),
            "filter": typed.get("filter") or {},
            "max_restarts": typed.get("max_restarts") or 0,
        }

    def check(self) -> None:
        """Raise what the command would refuse."""
        operations.check_restart_job(**self.job())

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error."""
        return "filter" if isinstance(error, InvalidFilter) else super().field_of(error)


@page()
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the restart jobs by name."""
    require_known(request)
    rows = [(row, _messages(row)) for row in list_restart_jobs(principal=principal)]
    return render(request, "restart_jobs/restart_jobs.html", {"rows": rows, "limited": not principal.sees_everything})


@page(Permission.CONFIGURE, is_for_all=True)
def edit(request: HttpRequest, principal: Principal, restart_job_id: int | None = None) -> HttpResponseBase:
    """Show the form of a restart job, and save it when it is sent."""
    row = None if restart_job_id is None else get_restart_job(restart_job_id, principal=principal)
    of_list = {"filter": dict(request.GET.lists())}
    form = RestartJobForm(request.POST if request.method == "POST" else None, row, initial=of_list)

    def save() -> str:
        typed = form.cleaned_data
        name = typed["name"]
        operations.save_restart_job(
            **form.job(),
            include_blacklisted=typed["include_blacklisted"],
            is_enabled=typed["is_enabled"],
            principal=principal,
            expected_version=form.expected_version(),
        )
        notes.success(request, f"The restart job {name} is saved.")
        return reverse("restart_jobs")

    def context() -> dict[str, Any]:
        if row is None or form.errors:
            return {"job": row}
        return {"job": row, "count": count_restartable(row), "messages_link": _messages(row)}

    return saved_or_shown(request, form, save, "restart_jobs/restart_job.html", context)


@require_POST
@page(Permission.CONFIGURE, is_for_all=True)
def run(request: HttpRequest, principal: Principal, restart_job_id: int) -> HttpResponseBase:
    """Run the job now."""
    row = get_restart_job(restart_job_id, principal=principal)
    operations.run_soon(restart_job_id, principal=principal)
    notes.success(request, f"{row.name} runs within seconds.")
    return HttpResponseRedirect(reverse("restart_jobs"))


@require_POST
@page(Permission.CONFIGURE, is_for_all=True)
def delete(request: HttpRequest, principal: Principal, restart_job_id: int) -> HttpResponseBase:
    """Remove the job."""
    row = get_restart_job(restart_job_id, principal=principal)
    operations.delete_restart_job(restart_job_id, principal=principal)
    notes.success(request, f"The restart job {row.name} is gone. What it has approved stays approved.")
    return HttpResponseRedirect(reverse("restart_jobs"))


def _messages(row: RestartJobRow) -> str:
    """Return the page of the messages that the job's filter finds now."""
    given = [(name, text) for name, texts in row.filter.items() if name != "state" for text in texts]
    return href(reverse("triage"), [*given, ("state", "NDLV")])


urlpatterns = [
    path("restart-jobs/", show_all, name="restart_jobs"),
    path("restart-jobs/new/", edit, name="restart_jobs-new"),
    path("restart-jobs/<int:restart_job_id>/", edit, name="restart_jobs-one"),
    path("restart-jobs/<int:restart_job_id>/run/", run, name="restart_jobs-run"),
    path("restart-jobs/<int:restart_job_id>/delete/", delete, name="restart_jobs-delete"),
]
