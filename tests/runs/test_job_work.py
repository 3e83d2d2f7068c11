"""A worker's work on long jobs."""

import time
from collections.abc import Callable
from functools import partial

import pytest

from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.locks import Lock, lock_key
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.runs.commands import worker_runs
from poisonadmin.runs.commands.job_work import job_of, working_on
from poisonadmin.runs.domain.kinds import KindName, RunState
from poisonadmin.store.models.regrouping import Regrouping
from poisonadmin.store.models.run import LongRun
from workers.spark_worker import WorkerHeartbeat

pytestmark = pytest.mark.django_db(transaction=True)


class Heartbeat:
    def __init__(self) -> None:
        self.held: list[int] = []

    def hold(self, job_id: int) -> None:
        self.held.append(job_id)

    def release(self, job_id: int) -> None:
        self.held.remove(job_id)


@pytest.fixture
def run() -> Regrouping:
    return Regrouping.objects.create(cut_off=0, requested_by="kim")


def job_for(run: Regrouping, worker: str) -> int:
    run.refresh_from_db()
    return job_of(run, KindName.REGROUP, worker=worker, params={"regrouping": run.id}, phase="reading", total=7)


def test_a_worker_goes_on_with_its_own_job_and_another_one_begins_its_own(run: Regrouping) -> None:
    first = job_for(run, "batch")
    assert job_for(run, "batch") == first
    other = job_for(run, "batch@second")
    worker_runs.succeed(other, counts={})
    last = job_for(run, "batch@second")
    assert len({first, other, last}) == 3
    run.refresh_from_db()
    job = LongRun.objects.get(id=last)
    assert (run.job_id, job.total, job.requested_by) == (last, 7, "kim")


@pytest.mark.parametrize(
    ("error", "is_stopping", "state", "text"),
    [
        (None, False, RunState.RUNNING, None),
        (ValueError("gone\nwith lines"), False, RunState.FAILED, "ValueError: gone"),
        (NotFound("There is no rule 7."), False, RunState.FAILED, "There is no rule 7."),
        (ValueError("the connection was closed"), True, RunState.RUNNING, None),
    ],
)
def test_an_error_ends_the_job_unless_the_worker_stops(
    run: Regrouping, error: Exception | None, is_stopping: bool, state: RunState, text: str | None
) -> None:
    job_id, heartbeat = job_for(run, "batch"), Heartbeat()
    raised = None
    try:
        with working_on(job_id, fail=partial(_fail, job_id), heartbeat=heartbeat, is_stopping=lambda: is_stopping):
            assert heartbeat.held == [job_id]
            if error:
                raise error
    except ValueError as found:
        raised = found
    job = LongRun.objects.get(id=job_id)
    assert (job.state, job.error) == (state, text)
    # A job that goes on with the next turn is alive until then.
    assert heartbeat.held == ([job_id] if state == RunState.RUNNING else [])
    # The worker's log has what nobody foresaw.
    assert raised is (error if state == RunState.FAILED and isinstance(error, ValueError) else None)


def test_a_heartbeat_lets_go_of_what_was_cancelled_between_two_turns(run: Regrouping, test_database_url: str) -> None:
    job_id = job_for(run, "batch")
    heartbeat = WorkerHeartbeat(test_database_url, "batch")
    try:
        with working_on(job_id, fail=partial(_fail, job_id), heartbeat=heartbeat, is_stopping=lambda: False):
            wait_until(lambda: is_held(job_id))
        worker_runs.cancel(job_id)
        wait_until(lambda: not is_held(job_id))
    finally:
        heartbeat.stop()


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def is_held(job_id: int) -> bool:
    held: bool = fetch_values(
        "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND granted)",
        [Lock.RUN, lock_key(job_id)],
    )[0]
    return held


def _fail(job_id: int, text: str) -> None:
    worker_runs.fail(job_id, error=text)
