"""The runs of restart jobs: NDLV messages approved by schedule, in batches, as a person would (SEMANTICS SAP-13)."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from django.db import connection, transaction

from poisonadmin.core.commands import jobs
from poisonadmin.core.commands.transaction_retry import retried
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.locks import Lock, lock_key
from poisonadmin.messages.commands.decisions import approve
from poisonadmin.restart_jobs.commands.setup import next_run
from poisonadmin.restart_jobs.queries import restart_filter, restartable
from poisonadmin.store.models.job import JobKind
from poisonadmin.store.models.rule import RestartJob

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
    with connection.cursor() as cursor:
        cursor.execute(_DUE)
        due = [row[0] for row in cursor.fetchall()]
    for job_id in due:
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
        decided = approve(ids, principal=actor, reason=REASON)
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
