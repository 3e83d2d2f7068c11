"""Restart jobs: saved and removed."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from cronsim import CronSim, CronSimError
from django.db import connection, transaction
from django.db.models.functions import Now

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import InvalidField, NotFound, all_checked, require_version
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.domain.names import mistake_in
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.decisions.operations.commands.beginning import require_reason
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.decisions.restart_jobs.domain.runs import RESTART_ACTIONS
from poisonadmin.decisions.restart_jobs.queries.restart_jobs import restart_filter
from poisonadmin.search.commands.selections import require_limit
from poisonadmin.search.domain.selection import SelectionOrder
from poisonadmin.store.models.restart_job import RestartJob

MAX_RESTARTS = 1_000
MAX_NAME_CHARS = 100
MAX_SCHEDULE_CHARS = 100


class InvalidRestartJob(InvalidField):
    """Raised when a field of a restart job is invalid; `field` names what is wrong."""

    code = "invalid_restart_job"


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
    name: str, *, principal: Principal, expected_version: int | None = None, **fields: Any
) -> RestartJob:
    """Create or replace the restart job of this name; its owner is who saves it. Runs that have begun go on.

    `fields`: those of `check_restart_job`, and `include_blacklisted`.
    Errors: `NotAllowed`, `InvalidRestartJob`, `InvalidFilter`, `AlreadyExists`, `PreconditionFailed`.
    """
    require_every_address(principal)
    include_blacklisted = fields.pop("include_blacklisted", False)
    values = check_restart_job(name, **fields) | {"include_blacklisted": include_blacklisted}
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)  # two who create the same name at once must not replace one another
        before = RestartJob.objects.select_for_update().filter(name=name).first()
        require_version(f"restart job {name}", before, expected_version)
        more: dict[str, Any] = {
            "next_at": next_run(values["schedule"], now()) if values["schedule"] else None,
            "owner": principal.name,
            "owner_account": principal.account,
            "version": before.version + 1 if before else 1,
            "updated_at": Now(),
        }
        row, _ = RestartJob.objects.update_or_create(name=name, defaults=values | more)
        audit.record(principal.name, "restart_job.saved", "restart_job", name, details=values)
    row.refresh_from_db()
    return row


def check_restart_job(
    name: str,
    *,
    action: str,
    reason: str,
    schedule: str | None = None,
    filter: Mapping[str, Sequence[str]] | None = None,  # noqa: A002  (the field's name everywhere)
    limit: int | None = None,
    order: str = SelectionOrder.OLDEST,
    max_restarts: int = 1,
    rate_per_second: float | None = None,
    canary: bool = False,
    is_enabled: bool = False,
) -> dict[str, Any]:
    """Return what is kept of a restart job that may be so; raise InvalidRestartJob, InvalidFilter."""
    asked = dict(filter or {})
    all_checked(
        {
            "name": lambda: _check_name(name),
            "action": lambda: _check_action(action),
            "reason": _as_ours(lambda: require_reason(reason)),
            "schedule": lambda: _check_schedule(schedule or None, is_enabled=is_enabled),
            "max_restarts": lambda: _check_times(max_restarts),
            "limit": _as_ours(lambda: require_limit(limit)),
            "order": lambda: _check_order(order),
            "rate_per_second": _as_ours(lambda: Pace(rate_per_second).check(action)),
            "canary": _as_ours(lambda: Pace(has_canary=canary).check(action)),
            "filter": lambda: restart_filter(asked),
        }
    )
    return {
        "schedule": schedule or None,
        "filter": {field: list(texts) for field, texts in asked.items()},
        "action": str(action),
        "reason": reason,
        "most": limit,
        "ordering": str(order),
        "max_restarts": max_restarts,
        "rate_per_second": rate_per_second,
        "has_canary": canary,
        "is_enabled": is_enabled,
    }


def _check_name(name: str) -> None:
    if (mistake := mistake_in(name, MAX_NAME_CHARS)) is not None:
        raise InvalidRestartJob("name", mistake)


def _check_action(action: str) -> None:
    if action not in RESTART_ACTIONS:
        raise InvalidRestartJob("action", f"must be one of {', '.join(RESTART_ACTIONS)}.")


def _check_order(order: str) -> None:
    if order not in set(SelectionOrder):
        raise InvalidRestartJob("order", f"must be one of {', '.join(SelectionOrder)}.")


def _check_schedule(schedule: str | None, *, is_enabled: bool) -> None:
    if schedule is not None:
        next_run(schedule, now())
    elif is_enabled:
        raise InvalidRestartJob("schedule", "is required to switch the job on; without one it runs on request.")


def _check_times(max_restarts: int) -> None:
    if not 1 <= max_restarts <= MAX_RESTARTS:
        raise InvalidRestartJob("max_restarts", f"must be within 1..{MAX_RESTARTS}.")


def _as_ours(check: Callable[[], None]) -> Callable[[], None]:
    """Return a check of operations or selections that raises its mistakes as those of a restart job."""

    def checked() -> None:
        try:
            check()
        except InvalidField as error:
            raise InvalidRestartJob(error.field, error.reason) from None

    return checked


def delete_restart_job(job_id: int, *, principal: Principal) -> None:
    """Remove a restart job, with its list of runs and its counts of restarts; operations that it began go on.

    Errors: `NotAllowed`, `NotFound`.
    """
    require_every_address(principal)
    with transaction.atomic(), connection.cursor() as cursor:
        # Before the job: a piece of an operation has its operation first, too.
        cursor.execute("UPDATE operation SET restart_job_id = NULL WHERE restart_job_id = %s", [job_id])
        row = RestartJob.objects.select_for_update().filter(id=job_id).first()
        if row is None:
            raise NotFound(f"There is no restart job {job_id}.")
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


def now() -> datetime:
    """Return the database's time."""
    found: datetime = fetch_values("SELECT now()")[0]
    return found
