"""Restart jobs: schedules that approve what waits for a decision, and the form for administrators."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.restart_jobs.commands import setup as operations
from poisonadmin.restart_jobs.commands.setup import InvalidRestartJob
from poisonadmin.restart_jobs.queries import RestartJobRow, count_restartable, get_restart_job, list_restart_jobs
from poisonadmin.web.pages.links import href, pairs, require_known
from poisonadmin.web.pages.permissions import page

# Parameters of the page of messages that narrow nothing.
_OF_THE_LIST = {"cursor", "ordering", "since", "mark", "state"}


@dataclass(frozen=True)
class RestartJobForm:
    """The form as typed. `filter`: a parameter a line, `address=orders.#`. `version` None: a new job."""

    name: str = ""
    schedule: str = "0 4 * * *"
    filter: str = ""
    include_blacklisted: bool = False
    max_restarts: str = "1"
    is_enabled: bool = True
    version: int | None = None

    def values(self) -> dict[str, Any]:
        """Return the fields as the operation takes them; raise InvalidRestartJob."""
        if not (self.max_restarts.isascii() and self.max_restarts.isdigit() and len(self.max_restarts) < 10):
            raise InvalidRestartJob("max_restarts", f"{self.max_restarts[:40]!r} is not a whole number.")
        return {
            "schedule": self.schedule,
            "filter": _parameters(self.filter),
            "include_blacklisted": self.include_blacklisted,
            "max_restarts": int(self.max_restarts),
            "is_enabled": self.is_enabled,
        }


@page()
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the restart jobs by name."""
    require_known(request)
    rows = [(row, _messages(row)) for row in list_restart_jobs(principal=principal)]
    return render(request, "restart_jobs/restart_jobs.html", {"rows": rows, "limited": not principal.sees_everything})


@page(Permission.CONFIGURE)
def edit(request: HttpRequest, principal: Principal, restart_job_id: int | None = None) -> HttpResponseBase:
    """Render the form of a restart job, and save it when it is sent."""
    row = None if restart_job_id is None else get_restart_job(restart_job_id, principal=principal)
    if request.method == "POST":
        return _save(request, principal, row)
    form = _form_of(row) if row else RestartJobForm(filter=_lines(pairs(request)))
    return _render(request, form, row)


@require_POST
@page(Permission.CONFIGURE)
def run(request: HttpRequest, principal: Principal, restart_job_id: int) -> HttpResponseBase:
    """Run the job now."""
    row = get_restart_job(restart_job_id, principal=principal)
    operations.run_soon(restart_job_id, principal=principal)
    notes.success(request, f"{row.name} runs within seconds.")
    return HttpResponseRedirect(reverse("restart_jobs"))


@require_POST
@page(Permission.CONFIGURE)
def delete(request: HttpRequest, principal: Principal, restart_job_id: int) -> HttpResponseBase:
    """Remove the job."""
    row = get_restart_job(restart_job_id, principal=principal)
    operations.delete_restart_job(restart_job_id, principal=principal)
    notes.success(request, f"The restart job {row.name} is gone. What it has approved stays approved.")
    return HttpResponseRedirect(reverse("restart_jobs"))


def _save(request: HttpRequest, principal: Principal, row: RestartJobRow | None) -> HttpResponseBase:
    form = _read_form(request)
    try:
        name = row.name if row else form.name
        if row is None and any(other.name == name for other in list_restart_jobs(principal=principal)):
            raise InvalidRestartJob("name", f"there is a restart job {name} already.")
        operations.save_restart_job(name, **form.values(), principal=principal, expected_version=form.version)
    except PoisonAdminError as error:
        return _render(request, form, row, error.detail, error.status if error.status != 400 else 422)
    notes.success(request, f"The restart job {name} is saved.")
    return HttpResponseRedirect(reverse("restart_jobs"))


def _render(
    request: HttpRequest, form: RestartJobForm, row: RestartJobRow | None, error: str = "", status: int = 200
) -> HttpResponse:
    context: dict[str, Any] = {"form": form, "job": row, "error": error}
    if row is not None and not error:
        context |= {"count": count_restartable(row), "messages_link": _messages(row)}
    return render(request, "restart_jobs/restart_job.html", context, status=status)


def _form_of(row: RestartJobRow) -> RestartJobForm:
    return RestartJobForm(
        row.name,
        row.schedule,
        _lines((name, text) for name, texts in row.filter.items() for text in texts),
        row.include_blacklisted,
        str(row.max_restarts),
        row.is_enabled,
        row.version,
    )


def _read_form(request: HttpRequest) -> RestartJobForm:
    def said(name: str) -> str:
        return request.POST.get(name, "").replace("\x00", "").strip()

    version = said("version")
    return RestartJobForm(
        said("name"),
        said("schedule"),
        said("filter"),
        said("include_blacklisted") == "true",
        said("max_restarts"),
        said("is_enabled") == "true",
        int(version) if version.isascii() and version.isdigit() and len(version) < 10 else None,
    )


def _parameters(lines: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in filter(None, (line.strip() for line in lines.splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not value.strip():
            raise InvalidRestartJob("filter", f"{line[:80]!r} is no parameter such as `address=orders.#`.")
        found.setdefault(name.strip(), []).append(value.strip())
    return found


def _lines(parameters: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"{name}={value}" for name, value in parameters if name not in _OF_THE_LIST)


def _messages(row: RestartJobRow) -> str:
    """Return the page of the messages that the job's filter finds now."""
    given = [(name, text) for name, texts in row.filter.items() if name != "state" for text in texts]
    return href(reverse("messages"), [*given, ("state", "NDLV")])


urlpatterns = [
    path("restart-jobs/", show_all, name="restart_jobs"),
    path("restart-jobs/new/", edit, name="restart_jobs-new"),
    path("restart-jobs/<int:restart_job_id>/", edit, name="restart_jobs-one"),
    path("restart-jobs/<int:restart_job_id>/run/", run, name="restart_jobs-run"),
    path("restart-jobs/<int:restart_job_id>/delete/", delete, name="restart_jobs-delete"),
]
