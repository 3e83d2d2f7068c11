"""Restart jobs as administrators set them up (SEMANTICS SAP-13)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from cronsim import CronSim, CronSimError
from django.db import connection, transaction
from django.db.models.functions import Now

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError, PreconditionFailed
from poisonadmin.restart_jobs.queries import restart_filter
from poisonadmin.store.models.rule import RestartJob

MAX_RESTARTS = 1_000
MAX_NAME_CHARS = 100
MAX_SCHEDULE_CHARS = 100


class InvalidRestartJob(PoisonAdminError):
    """Raised when a field of a restart job is invalid; `field` names what is wrong."""

    code = "invalid_restart_job"

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field}: {detail}")
        self.field = field


def next_run(schedule: str, after: datetime) -> datetime:
    """Return the first time after `after`, in UTC, at which five cron fields are due.

    Errors: `InvalidRestartJob` for what is no schedule, or one that is never due.
    """
    if not schedule.isascii() or len(schedule) > MAX_SCHEDULE_CHARS or len(schedule.split()) != 5:
        raise InvalidRestartJob("schedule", "must be five cron fields, such as `*/15 * * * *`.")
    try:
        return next(CronSim(schedule, after))
    except CronSimError as error:
        raise InvalidRestartJob("schedule", f"{error}.") from None
    except StopIteration:
        raise InvalidRestartJob("schedule", "is never due.") from None


def save_restart_job(
    name: str,
    *,
    schedule: str,
    filter: Mapping[str, Sequence[str]],  # noqa: A002  (the field's name everywhere)
    include_blacklisted: bool,
    max_restarts: int,
    is_enabled: bool,
    principal: Principal,
    expected_version: int | None = None,
) -> RestartJob:
    """Create or replace the restart job of this name; a run that is under way ends.

    Errors: `NotAllowed`, `InvalidRestartJob`, `InvalidFilter`, `PreconditionFailed`.
    """
    _require(principal)
    if not 1 <= len(name) <= MAX_NAME_CHARS or not name.isprintable():
        raise InvalidRestartJob("name", f"must have 1 to {MAX_NAME_CHARS} printable characters.")
    if not 1 <= max_restarts <= MAX_RESTARTS:
        raise InvalidRestartJob("max_restarts", f"must be within 1..{MAX_RESTARTS}.")
    restart_filter(filter)
    with transaction.atomic():
        before = RestartJob.objects.select_for_update().filter(name=name).first()
        if expected_version is not None and (before is None or before.version != expected_version):
            raise PreconditionFailed(f"The restart job {name} has changed since it was read; nothing was saved.")
        values: dict[str, Any] = {
            "schedule": schedule,
            "filter": {field: list(texts) for field, texts in filter.items()},
            "include_blacklisted": include_blacklisted,
            "max_restarts": max_restarts,
            "is_enabled": is_enabled,
        }
        more: dict[str, Any] = {
            "next_at": next_run(schedule, _now()),
            "run_after_id": None,
            "owner": principal.name,
            "version": before.version + 1 if before else 1,
            "updated_at": Now(),
        }
        row, _ = RestartJob.objects.update_or_create(name=name, defaults=values | more)
        audit.record(principal.name, "restart_job.saved", "restart_job", name, details=values)
    row.refresh_from_db()
    return row


def delete_restart_job(job_id: int, *, principal: Principal) -> None:
    """Remove a restart job, with its counts of restarts. Errors: `NotAllowed`, `NotFound`."""
    _require(principal)
    with transaction.atomic(), connection.cursor() as cursor:
        row = RestartJob.objects.select_for_update().filter(id=job_id).first()
        if row is None:
            raise NotFound(f"There is no restart job {job_id}.")
        cursor.execute("DELETE FROM restart WHERE restart_job_id = %s", [job_id])
        cursor.execute("DELETE FROM restart_job WHERE id = %s", [job_id])
        audit.record(principal.name, "restart_job.deleted", "restart_job", row.name)


def run_soon(job_id: int, *, principal: Principal) -> None:
    """Make the job due now, whatever its schedule says; also one that is switched off runs this once.

    Errors: `NotAllowed`, `NotFound`.
    """
    _require(principal)
    with transaction.atomic():
        row = RestartJob.objects.select_for_update().filter(id=job_id).first()
        if row is None:
            raise NotFound(f"There is no restart job {job_id}.")
        RestartJob.objects.filter(id=job_id, run_after_id=None).update(run_after_id=0)
        audit.record(principal.name, "restart_job.run", "restart_job", row.name)


def _require(principal: Principal) -> None:
    principal.require(Permission.CONFIGURE)
    if not principal.sees_everything:
        raise NotAllowed(f"A restart job may approve on any address, and {principal.name} is limited to some.")


def _now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        now: datetime = cursor.fetchone()[0]
    return now
