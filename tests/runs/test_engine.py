"""Turns of a run: its end, its pauses, its errors, and workers that are lost at any line."""

import time
from collections.abc import Callable
from dataclasses import replace
from zlib import crc32

import psycopg
import pytest
from django.db.models.functions import Now

from poisonadmin.core.domain.access import Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.locks import Lock, lock_key
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.runs.commands.engine import RunTurn
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.runs.queries.runs import due_kinds
from poisonadmin.store.models.run import LongRun
from tests.runs.carried_out import (
    IN_TURNS,
    KIND,
    PATIENT,
    count_to,
    finish,
    requested,
    stored,
    turn,
)
from workers.heartbeat import WorkerHeartbeat

pytestmark = pytest.mark.django_db(transaction=True)
Session = psycopg.Connection[tuple[object, ...]]


class Heartbeat:
    def __init__(self) -> None:
        self.held: list[int] = []

    def hold(self, run_id: int) -> None:
        self.held.append(run_id)

    def release(self, run_id: int) -> None:
        self.held.remove(run_id)


def test_a_run_is_due_until_it_has_ended() -> None:
    assert due_kinds() == set()
    run_id = requested()
    assert due_kinds() == {"dry_run"}
    run = stored(run_id)
    assert (run.state, run.phase, run.started_at, run.tries, run.account) == ("queued", None, None, 0, "system")

    def work(this: RunTurn) -> None:
        run = stored(run_id)
        assert (run.state, run.phase, run.worker, run.tries) == ("running", "beginning", "tests", 1)
        assert None not in (run.started_at, run.heartbeat_at, run.turn_at)
        this.report("counting", done=1, total=3)
        assert (stored(run_id).phase, stored(run_id).total) == ("counting", 3)
        this.finish({"n": 3}, done=3)

    heartbeat = Heartbeat()
    turn(work, heartbeat=heartbeat)
    run = stored(run_id)
    assert (run.state, run.phase, run.done, run.total, run.result) == ("succeeded", None, 3, 3, {"n": 3})
    assert (run.ended_at is None, run.expires_at) == (False, None)
    assert (due_kinds(), heartbeat.held) == (set(), [])


def test_a_run_that_must_pause_goes_on_where_it_was_and_is_alive_meanwhile() -> None:
    run_id, heartbeat = requested(), Heartbeat()
    for at in range(3):
        stops = iter([False, False, True])  # before the turn, before the first step, before the second one
        turn(count_to(4), heartbeat=heartbeat, is_stopping=lambda: next(stops, False))  # noqa: B023
        run = stored(run_id)
        assert (run.state, run.position, run.done) == ("running", {"at": at + 1}, at + 1)
        assert set(heartbeat.held) == {run_id}
    turn(count_to(4))
    assert (stored(run_id).state, stored(run_id).result) == ("succeeded", {"n": 4})


def test_a_heartbeat_lets_go_of_what_was_cancelled_between_two_turns(test_database_url: str) -> None:
    run_id = requested()
    heartbeat = WorkerHeartbeat(test_database_url, "tests")
    try:
        stops = iter([False, False, True])
        turn(count_to(5), heartbeat=heartbeat, is_stopping=lambda: next(stops, False))
        wait_until(lambda: is_held(run_id))
        LongRun.objects.update(state="cancelled", ended_at=Now())
        wait_until(lambda: not is_held(run_id))
    finally:
        heartbeat.stop()


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def is_held(run_id: int) -> bool:
    held: bool = fetch_values(
        "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND granted)",
        [Lock.RUN, lock_key(run_id)],
    )[0]
    return held


def test_a_worker_that_stops_leaves_its_run_to_the_next_one() -> None:
    run_id = requested()
    is_stopping = False

    def work(this: RunTurn) -> None:
        nonlocal is_stopping
        is_stopping = True
        raise OSError("the connection was closed by the stop")

    turn(work, is_stopping=lambda: is_stopping)
    run = stored(run_id)
    assert (run.state, run.error, run.tries) == ("queued", None, 0)


def test_what_a_work_reports_ends_its_turn_when_the_worker_is_to_stop() -> None:
    run_id = requested()
    is_stopping = False

    def work(this: RunTurn) -> None:
        nonlocal is_stopping
        is_stopping = True
        this.report("next")
        raise AssertionError("it went on")

    turn(work, is_stopping=lambda: is_stopping)
    assert (stored(run_id).state, stored(run_id).phase) == ("queued", "next")


def test_an_error_ends_a_run_and_what_nobody_foresaw_is_raised_too() -> None:
    def unforeseen(_: RunTurn) -> None:
        raise ValueError("gone\nwith lines")

    def foreseen(_: RunTurn) -> None:
        raise NotFound("There is no rule 7.")

    first, second = requested(), requested()
    with pytest.raises(ValueError, match="gone"):
        turn(unforeseen)
    turn(foreseen)
    assert [(one.state, one.error) for one in (stored(first), stored(second))] == [
        ("failed", "ValueError: gone"),
        ("failed", "There is no rule 7."),
    ]


def test_a_kind_may_go_on_by_itself_some_time_after_an_error() -> None:
    run_id = requested(PATIENT)

    def fail(this: RunTurn) -> None:
        this.store(position={"at": 1})
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        turn(fail, PATIENT)
    run = stored(run_id)
    assert (run.state, run.error, run.position, run.ended_at) == ("queued", "OSError: no space left", {"at": 1}, None)
    assert due_kinds() == set()
    turn(finish, PATIENT)
    assert stored(run_id).state == "queued"
    LongRun.objects.update(resumes_at="2020-01-01T00:00:00Z")
    assert due_kinds() == {"dry_run"}
    turn(count_to(2), PATIENT)
    run = stored(run_id)
    assert (run.state, run.error, run.result) == ("succeeded", None, {"n": 2})


def test_a_run_that_loses_its_worker_each_time_fails_in_the_end() -> None:
    run_id = requested()

    def killed(_: RunTurn) -> None:
        raise KeyboardInterrupt

    for tries in (1, 2, 3):
        with pytest.raises(KeyboardInterrupt):
            turn(killed)
        assert (stored(run_id).state, stored(run_id).tries) == ("running", tries)
    turn(finish)
    run = stored(run_id)
    assert (run.state, run.error) == ("failed", "It was begun 3 times, and ended its worker each time.")


def test_a_run_that_gets_on_may_lose_any_number_of_workers() -> None:
    run_id = requested()

    def killed(this: RunTurn) -> None:
        at = this.run.position.get("at", 0)
        this.store(position={"at": at + 1})
        raise KeyboardInterrupt

    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            turn(killed)
    turn(count_to(6))
    assert stored(run_id).state == "succeeded"


def test_a_work_that_waits_for_something_leaves_the_worker_to_others() -> None:
    requested()
    turns = 0

    def work(_: RunTurn) -> None:
        nonlocal turns
        turns += 1

    turn(work)
    assert turns == 1


def test_the_oldest_run_goes_first_or_the_accounts_take_turns() -> None:
    kim, pat = (principal(name, Role.ADMIN) for name in ("kim", "pat"))
    runs = [requested(IN_TURNS, kim), requested(IN_TURNS, kim), requested(IN_TURNS, pat), requested(IN_TURNS, pat)]
    order: list[int] = []

    def step(this: RunTurn) -> None:
        order.append(this.run.id)
        at = this.run.position.get("at", 0) + 1
        this.store(position={"at": at})
        if at == 2:
            this.finish({})

    turn(step, IN_TURNS)
    assert order == [runs[0], runs[2], runs[0], runs[2], runs[1], runs[3], runs[1], runs[3]]
    order.clear()
    first, second = requested(KIND, kim), requested(KIND, pat)
    turn(lambda this: (order.append(this.run.id), this.finish({})))
    assert order == [first, second]


def test_a_kind_waits_for_a_lock_that_it_shares_and_for_other_kinds(other: Session) -> None:
    reading = replace(KIND, shares=Lock.SOURCE)
    run_id = requested(reading)
    other.execute("SELECT pg_advisory_lock(%s, 0)", [Lock.SOURCE])
    turn(finish, reading)
    other.execute("SELECT pg_advisory_unlock(%s, 0)", [Lock.SOURCE])
    waiting = replace(reading, waits_for=(KindName.REGROUP,))
    blocking = LongRun.objects.create(kind="regroup", state="queued", requested_by="kim", position={})
    turn(finish, waiting)
    assert (stored(run_id).state, stored(run_id).tries) == ("queued", 0)
    blocking.delete()
    turn(finish, waiting)
    assert stored(run_id).state == "succeeded"


def test_runs_that_a_worker_began_itself_are_nobody_else_s() -> None:
    LongRun.objects.create(kind="dry_run", state="running", requested_by="system")
    assert due_kinds() == set()
    turn(finish)
    assert LongRun.objects.get().state == "running"


def test_two_workers_never_have_turns_of_a_kind_or_of_a_group_at_once(other: Session) -> None:
    run_id = requested()
    grouped = replace(KIND, alone_with="archive")
    key = [Lock.RUN_TURNS, lock_key(crc32(b"archive"))]
    other.execute("SELECT pg_advisory_lock(%s, %s)", key)
    turn(finish, grouped)
    assert stored(run_id).state == "queued"
    other.execute("SELECT pg_advisory_unlock(%s, %s)", key)
    turn(finish, grouped)
    assert stored(run_id).state == "succeeded"
