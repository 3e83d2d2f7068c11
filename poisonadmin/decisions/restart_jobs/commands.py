"""Restart jobs, saved and removed, and their runs: each is an operation on what the job's filter finds, in its name."""

from dataclasses import replace
from typing import Any

from django.db import connection, transaction

from poisonadmin.core.commands import audit, configured
from poisonadmin.core.commands.locks import retried
from poisonadmin.core.commands.schedules import next_run, rights_of_owner, run_each_due
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import InvalidField, PoisonAdminError
from poisonadmin.core.domain.settings import InvalidValue, checked
from poisonadmin.core.queries.rows import database_time, fetch_rows, fetch_values, known
from poisonadmin.decisions.operations.commands.beginning import OperationTerms, RunOf, begin
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationState
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.decisions.restart_jobs.domain import RestartJobSettings, RunOutcome
from poisonadmin.decisions.restart_jobs.queries import GOING, restart_filter, restartable
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.domain.filters import fields_of
from poisonadmin.search.domain.selection import SelectionOrder
from poisonadmin.store.models.operation import Selection
from poisonadmin.store.models.restart_job import RestartJob, RestartRun


class InvalidRestartJob(InvalidField):
    """Raised when a field of a restart job is invalid; `field` names what is wrong."""

    code = "invalid_restart_job"


def save_restart_job(
    name: str, *, principal: Principal, expected_version: int | None = None, **fields: Any
) -> RestartJob:
    """Create or replace the restart job of this name; its owner is who saves it. Runs that have begun go on.

    `fields`: those of `RestartJobSettings`.
    Errors: `NotAllowed`, `InvalidRestartJob`, `InvalidFilter`, `AlreadyExists`, `PreconditionFailed`.
    """
    require_every_address(principal)
    values = vars(check_restart_job(RestartJobSettings(name=name, **fields)))

    def write(_before: RestartJob | None) -> dict[str, Any]:
        next_at = next_run(values["schedule"], database_time()) if values["schedule"] else None
        return values | {"next_at": next_at, "owner": principal.name, "owner_account": principal.account}

    return configured.save(
        RestartJob,
        {"name": name},
        write,
        principal=principal,
        expected_version=expected_version,
        audited=values,
        shortened={"filter": fields_of},
    )


def check_restart_job(job: RestartJobSettings) -> RestartJobSettings:
    """Return the settings of a restart job that may be so; raise InvalidRestartJob, InvalidFilter."""
    return checked(
        replace(job, schedule=job.schedule or None),
        InvalidRestartJob,
        also={
            "schedule": lambda: _check_schedule(job),
            "rate_per_second": lambda: Pace(job.rate_per_second).check(job.action),
            "canary": lambda: Pace(has_canary=job.canary).check(job.action),
            "filter": lambda: restart_filter(job.filter),
        },
    )


def _check_schedule(job: RestartJobSettings) -> None:
    if job.schedule:
        next_run(job.schedule, database_time(), example="*/15 * * * *")
    elif job.is_enabled:
        raise InvalidValue("is required to switch the job on; without one it runs on request.")


def delete_restart_job(job_id: int, *, principal: Principal) -> None:
    """Remove a restart job, with its list of runs and its counts of restarts; operations that it began go on.

    Errors: `NotAllowed`, `NotFound`.
    """
    require_every_address(principal)
    with transaction.atomic(), connection.cursor() as cursor:
        # Before the job: a piece of an operation has its operation first, too.
        cursor.execute("UPDATE operation SET restart_job_id = NULL WHERE restart_job_id = %s", [job_id])
        row = known(RestartJob.objects.select_for_update().filter(id=job_id).first(), f"restart job {job_id}")
        cursor.execute("DELETE FROM restart WHERE restart_job_id = %s", [job_id])
        cursor.execute("DELETE FROM restart_run WHERE restart_job_id = %s", [job_id])
        cursor.execute("DELETE FROM restart_job WHERE id = %s", [job_id])
        audit.record(principal.name, "restart_job.deleted", "restart_job", row.name)


def require_every_address(principal: Principal) -> None:
    """Raise NotAllowed for who may not configure and decide, or only for some addresses."""
    principal.require(Permission.CONFIGURE)
    principal.require(Permission.DECIDE)
    if not principal.sees_everything:
        raise NotAllowed(f"A restart job may decide on any address, and {principal.name} is limited to some.")


_LATEST = "SELECT at FROM restart_run WHERE restart_job_id = %s ORDER BY id DESC LIMIT 1"


def run_due() -> list[RestartRun]:
    """Begin a run of each restart job that is due. Call under `single_flight(Tick.RESTART)`.

    Errors: the last one that is none of ours; the job's list of runs says what it is.
    """
    return run_each_due(RestartJob, _run, failed=_failed, is_enabled=True)


def run_once(job_id: int, *, principal: Principal, selection_id: int | None = None) -> RestartRun:
    """Run the job now, whatever its schedule says, and also when it is switched off; return the run.

    `selection_id`: what `freeze_for_preview` has frozen, to run on the messages that a person has seen.
    Errors: `NotAllowed`, `NotFound`, `InvalidRestartJob`.
    """
    require_every_address(principal)

    def run() -> RestartRun:
        with transaction.atomic():
            job = _locked(job_id)
            if selection_id is not None:
                _require_fresh(job, selection_id)
            made = _run(job, asked_by=principal.name, selection_id=selection_id)
            details = {"outcome": made.outcome, "operation": made.operation_id}
            audit.record(principal.name, "restart_job.run", "restart_job", job.name, details=details)
        return made

    return retried(run)


def freeze_for_preview(job_id: int, *, principal: Principal) -> int:
    """Freeze what a run of the job would decide on now; return the selection's id.

    Errors: `NotAllowed`, also where the job's owner may not have it run any more, `NotFound`, `QueryTooExpensive`.
    """
    require_every_address(principal)
    with transaction.atomic():
        job = _locked(job_id)  # a run that is being made has counted what it decides on
        return _freeze(job, _acting(job))


def _locked(job_id: int) -> RestartJob:
    return known(RestartJob.objects.select_for_update(no_key=True).filter(id=job_id).first(), f"restart job {job_id}")


def _require_fresh(job: RestartJob, selection_id: int) -> None:
    """Raise InvalidRestartJob unless the selection is this job's as it is now, and no run was begun since."""
    frozen = Selection.objects.filter(id=selection_id, created_by=_name_of(job), used_at=None).first()
    since = [job.updated_at, *fetch_values(_LATEST, [job.id])]
    if frozen is None or frozen.frozen_at < max(since):
        raise InvalidRestartJob("selection", "is no preview of this restart job as it is now; preview it again.")


def _run(job: RestartJob, *, asked_by: str | None = None, selection_id: int | None = None) -> RestartRun:
    """Begin an operation on what the filter of the locked job finds, and list the run whatever becomes of it."""
    # Later than any preview that did not see the run's transaction.
    run = RestartRun(restart_job_id=job.id, at=fetch_values("SELECT clock_timestamp()")[0], asked_by=asked_by)
    if going := fetch_rows(GOING(job=job.id)):
        run.outcome, run.detail = RunOutcome.SKIPPED, _why_skipped(*going[0])
    else:
        try:
            with transaction.atomic():  # nothing of a run that fails stays
                run.operation_id = _begin(job, selection_id)
            run.outcome = RunOutcome.BEGUN if run.operation_id else RunOutcome.NOTHING
        except NotAllowed as error:
            run.outcome, run.detail = RunOutcome.REFUSED, error.detail
        except PoisonAdminError as error:
            run.outcome, run.detail = RunOutcome.FAILED, error.detail
    run.save(force_insert=True)
    return run


def _why_skipped(operation_id: int, state: str) -> str:
    words = {
        OperationState.RUNNING: "still has messages to begin with",
        OperationState.WAITING_FOR_SIGN_OFF: "waits for a sign-off",
    }
    return f"Operation #{operation_id} of an earlier run {words.get(OperationState(state), f'is {state}')}."


def _begin(job: RestartJob, selection_id: int | None) -> int | None:
    """Begin the operation of a run and return its id; None where there is no message to decide on."""
    actor = _acting(job)
    selection_id = selection_id or _freeze(job, actor)
    if not Selection.objects.get(id=selection_id).count:
        return None
    return begin(
        selection_id,
        OperationAction(job.action),
        reason=job.reason,
        principal=actor,
        terms=OperationTerms(
            Pace(job.rate_per_second, job.canary),
            run_of=RunOf(job.id, spares_crashed=not job.include_blacklisted),
        ),
    )


def _freeze(job: RestartJob, actor: Principal) -> int:
    narrowed = restartable(job.id, include_blacklisted=job.include_blacklisted, max_restarts=job.max_restarts)
    order = SelectionOrder(job.order)
    return freeze(restart_filter(job.filter), order=order, most=job.limit, narrowed=narrowed, principal=actor)


def _name_of(job: RestartJob) -> str:
    return f"restart job {job.name}"


def _acting(job: RestartJob) -> Principal:
    """Return the job as who decides, with the rights that its owner has now. Errors: `NotAllowed`."""
    try:
        owner = rights_of_owner(job.owner_account, job.owner)
        require_every_address(owner)
    except NotAllowed as error:
        raise NotAllowed(f"{error.detail} {_AGAIN}") from None
    return replace(owner, name=_name_of(job))


_AGAIN = "Somebody who may configure and decide on every address has to save the restart job again."


def _failed(job: RestartJob, error: Exception) -> RestartRun:
    """List a run that an error of the machinery has ended."""
    text = f"{type(error).__name__}: {error}"[:2000]
    return RestartRun.objects.create(restart_job_id=job.id, outcome=RunOutcome.FAILED, detail=text)
