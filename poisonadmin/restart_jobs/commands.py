"""Restart jobs: saved, removed, and run when they are due."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cronsim import CronSim, CronSimError
from django.db import connection, transaction
from django.db.models.functions import Now

from poisonadmin.core.commands import audit, jobs, locks
from poisonadmin.core.commands.transaction_retry import retried
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import InvalidField, NotFound, all_checked, require_version
from poisonadmin.core.domain.locks import Lock, lock_key
from poisonadmin.core.domain.names import mistake_in
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.messages.commands.decisions import decide
from poisonadmin.operations.domain.actions import OperationAction
from poisonadmin.restart_jobs.queries import restart_filter, restartable
from poisonadmin.store.models.job import JobKind
from poisonadmin.store.models.rule import RestartJob

MAX_RESTARTS = 1_000
MAX_NAME_CHARS = 100
MAX_SCHEDULE_CHARS = 100
MESSAGES_A_BATCH = 500
# What a tick does not get done the next one goes on with, so that no worker is kept from other work for long.
SECONDS_A_TICK = 10.0
REASON = "restarted by schedule"
_DUE = """
SELECT id FROM restart_job
WHERE run_after_id IS NOT NULL OR (is_enabled AND next_at <= now()) ORDER BY coalesce(last_at, updated_at), id
"""
_COUNT = """
INSERT INTO restart (restart_job_id, message_id, times) SELECT %(job)s, id, 1 FROM unnest(%(ids)s::bigint[]) AS m (id)
ON CONFLICT (restart_job_id, message_id) DO UPDATE SET times = restart.times + 1
"""


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

    Errors: `NotAllowed`, `InvalidRestartJob`, `InvalidFilter`, `AlreadyExists`, `PreconditionFailed`.
    """
    require_every_address(principal)
    check_restart_job(name, schedule=schedule, filter=filter, max_restarts=max_restarts)
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)  # two who create the same name at once must not replace one another
        before = RestartJob.objects.select_for_update().filter(name=name).first()
        require_version(f"restart job {name}", before, expected_version)
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


def check_restart_job(
    name: str,
    *,
    schedule: str,
    filter: Mapping[str, Sequence[str]],  # noqa: A002  (the field's name everywhere)
    max_restarts: int,
) -> None:
    """Do nothing where a restart job may be so; raise InvalidRestartJob, InvalidFilter."""
    all_checked(
        {
            "name": lambda: _check_name(name),
            "schedule": lambda: next_run(schedule, _now()),
            "max_restarts": lambda: _check_times(max_restarts),
            "filter": lambda: restart_filter(filter),
        }
    )


def _check_name(name: str) -> None:
    if (mistake := mistake_in(name, MAX_NAME_CHARS)) is not None:
        raise InvalidRestartJob("name", mistake)


def _check_times(max_restarts: int) -> None:
    if not 1 <= max_restarts <= MAX_RESTARTS:
        raise InvalidRestartJob("max_restarts", f"must be within 1..{MAX_RESTARTS}.")


def delete_restart_job(job_id: int, *, principal: Principal) -> None:
    """Remove a restart job, with its counts of restarts. Errors: `NotAllowed`, `NotFound`."""
    require_every_address(principal)
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
    require_every_address(principal)
    with transaction.atomic():
        row = RestartJob.objects.select_for_update().filter(id=job_id).first()
        if row is None:
            raise NotFound(f"There is no restart job {job_id}.")
        RestartJob.objects.filter(id=job_id, run_after_id=None).update(run_after_id=0)
        audit.record(principal.name, "restart_job.run", "restart_job", row.name)


def require_every_address(principal: Principal) -> None:
    """Raise NotAllowed for who may not configure, or only for some addresses."""
    principal.require(Permission.CONFIGURE)
    if not principal.sees_everything:
        raise NotAllowed(f"A restart job may approve on any address, and {principal.name} is limited to some.")


def _now() -> datetime:
    now: datetime = fetch_values("SELECT now()")[0]
    return now


@dataclass
class Restarted:
    """What a run came to so far."""

    approved: int = 0
    refused: int = 0


def restart_due(
    *, worker: str, seconds: float = SECONDS_A_TICK, clock: Callable[[], float] = time.monotonic
) -> Restarted:
    """Run the restart jobs that are due, and go on with those that were cut off, for about `seconds`; one at a time.

    Call under `single_flight(Tick.RESTART)`. A job in trouble does not keep the others from their turn: its run ends,
    and its row in `job` says why. Errors: the last such job's.
    """
    until = clock() + seconds
    total = Restarted()
    failed: Exception | None = None
    for job_id in fetch_values(_DUE):
        if clock() >= until:
            break
        try:
            done = _run(job_id, worker, lambda: clock() >= until)
        except Exception as error:
            failed = error
            continue
        total.approved += done.approved
        total.refused += done.refused
    if failed is not None:
        raise failed
    return total


def _run(restart_job_id: int, worker: str, is_time_up: Callable[[], bool]) -> Restarted:
    restart_job = _begin(restart_job_id)
    if restart_job is None:
        return Restarted()
    params = {"restart_job": restart_job.name}
    done = Restarted()
    job_id = jobs.begin(JobKind.RESTART, worker=worker, params=params, phase="approving")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s, %s)", [Lock.JOB, lock_key(job_id)])
    try:
        while not is_time_up() and _batch(restart_job, done):
            jobs.move(job_id, phase="approving", done=done.approved + done.refused)
    except Exception as error:
        RestartJob.objects.filter(id=restart_job.id).update(run_after_id=None)
        jobs.fail(job_id, error=f"{type(error).__name__}: {error}", counts=vars(done))
        raise
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [Lock.JOB, lock_key(job_id)])
    jobs.succeed(job_id, counts=vars(done), done=done.approved + done.refused)
    return done


def _begin(restart_job_id: int) -> RestartJob | None:
    """Begin a run of the job, or go on with the one that was cut off; None when it is not due any more."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        now = cursor.fetchone()[0]
        row = RestartJob.objects.select_for_update().filter(id=restart_job_id).first()
        if row is None:
            return None
        is_due = row.is_enabled and row.next_at is not None and row.next_at <= now
        if row.run_after_id is None and not is_due:
            return None
        if is_due:
            row.next_at = next_run(row.schedule, now)
        if not row.run_after_id:  # None, or 0: asked for by a person
            row.run_after_id, row.last_at, row.last_counts = 0, now, vars(Restarted()).copy()
        row.save(update_fields=["next_at", "run_after_id", "last_at", "last_counts"])
    return row


def _batch(restart_job: RestartJob, done: Restarted) -> bool:
    """Approve the next messages; return whether there may be more."""
    ids = restartable(
        restart_job.id,
        restart_filter(restart_job.filter),
        include_blacklisted=restart_job.include_blacklisted,
        max_restarts=restart_job.max_restarts,
        after_id=restart_job.run_after_id or 0,
        limit=MESSAGES_A_BATCH,
    )
    return retried(lambda: _approve(restart_job, ids, done))


def _approve(restart_job: RestartJob, ids: list[int], done: Restarted) -> bool:
    actor = replace(SYSTEM, name=f"restart job {restart_job.name}")
    with transaction.atomic(), connection.cursor() as cursor:
        now_here = RestartJob.objects.select_for_update().filter(id=restart_job.id).first()
        if now_here is None or now_here.version != restart_job.version:
            return False  # changed or gone meanwhile: this run has ended
        decided = decide(OperationAction.APPROVE, ids, principal=actor, reason=REASON)
        if decided.changed:
            cursor.execute(_COUNT, {"job": restart_job.id, "ids": list(decided.changed)})
        is_last = len(ids) < MESSAGES_A_BATCH
        now_here.run_after_id = None if is_last else ids[-1]
        now_here.last_counts = {
            "approved": now_here.last_counts.get("approved", 0) + len(decided.changed),
            "refused": now_here.last_counts.get("refused", 0) + len(decided.refused),
        }
        now_here.save(update_fields=["run_after_id", "last_counts"])
    done.approved += len(decided.changed)
    done.refused += len(decided.refused)
    restart_job.run_after_id = now_here.run_after_id
    return not is_last
