"""Restart jobs: saved and removed."""

from dataclasses import replace
from typing import Any

from django.db import connection, transaction

from poisonadmin.core.commands import audit, configured
from poisonadmin.core.commands.schedules import next_run
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import InvalidField
from poisonadmin.core.domain.settings import InvalidValue, checked
from poisonadmin.core.queries.rows import database_time, known
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.decisions.restart_jobs.domain.restart_job import RestartJobSettings
from poisonadmin.decisions.restart_jobs.queries.restart_jobs import restart_filter
from poisonadmin.store.models.restart_job import RestartJob


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
