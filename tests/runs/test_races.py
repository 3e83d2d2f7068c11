"""Runs that two sessions change at once, and workers that are lost between any two statements."""

import threading
import time
from collections.abc import Callable

import psycopg
import pytest
from django.db import connection, connections, transaction

from poisonadmin.delivery.commands.recovery import recover
from poisonadmin.runs.commands import engine
from poisonadmin.runs.commands.engine import RunTurn
from poisonadmin.runs.commands.requests import RunEnded
from poisonadmin.store.models.rule import Rule
from poisonadmin.store.models.run import LongRun
from tests.runs.carried_out import KIND, cancelled, count_to, finish, requested, stored, turn

pytestmark = pytest.mark.django_db(transaction=True)
Session = psycopg.Connection[tuple[object, ...]]
SILENT = "2020-01-01T00:00:00Z"


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    """Begin the work in another session; errors are in the list."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


def wait_for_lock(other: Session) -> None:
    """Return when a session waits for another one's row."""
    until = time.monotonic() + 30
    while other.execute("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone() is None:
        assert time.monotonic() < until
        time.sleep(0.01)


def rows_of(turn_: RunTurn) -> None:
    """Write a row of the kind."""
    Rule.objects.create(stage="after", position=1, name=f"of {turn_.run.id}", owner="kim", updated_by="kim")


def test_a_cancellation_waits_for_an_end_that_is_being_written_and_then_finds_it(other: Session) -> None:
    run_id = requested()

    def work(this: RunTurn) -> None:
        with transaction.atomic():
            this.finish({"n": 1})
            rows_of(this)
            thread, errors = in_thread(lambda: cancelled(run_id))
            wait_for_lock(other)
        thread.join(30)
        assert [type(error) for error in errors] == [RunEnded]

    turn(work)
    assert (stored(run_id).state, Rule.objects.count()) == ("succeeded", 1)


def test_an_end_that_finds_its_run_cancelled_writes_nothing_of_its_kind() -> None:
    run_id = requested()

    def work(this: RunTurn) -> None:
        with transaction.atomic():
            rows_of(this)
            thread, errors = in_thread(lambda: cancelled(run_id))
            thread.join(30)
            assert not errors
            this.finish({"n": 1})
        raise AssertionError("it went on")

    turn(work)
    assert (stored(run_id).state, stored(run_id).result, Rule.objects.count()) == ("cancelled", None, 0)


def test_rows_of_a_kind_and_the_position_are_written_together_or_not_at_all() -> None:
    run_id = requested()

    def killed(this: RunTurn) -> None:
        with transaction.atomic():
            this.store(position={"at": 1}, done=1)
            rows_of(this)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        turn(killed)
    assert (stored(run_id).position, stored(run_id).done, Rule.objects.count()) == ({}, 0, 0)


def test_a_turn_whose_run_another_worker_has_taken_changes_nothing() -> None:
    run_id = requested()

    def slow(this: RunTurn) -> None:
        # Its session was lost, and with it the lock that kept others away.
        thread, errors = in_thread(lambda: take_over(run_id))
        thread.join(30)
        assert not errors
        for change in (
            lambda: this.store(position={"at": 7}),
            lambda: this.report("late"),
            lambda: this.finish({"n": 7}),
        ):
            with pytest.raises(engine.TurnEnded):
                change()
        this.fail("late")
        this.let_go(None)

    turn(slow)
    run = stored(run_id)
    assert (run.state, run.worker, run.position, run.error, run.tries) == ("running", "second", {"at": 1}, None, 0)
    turn(count_to(2))
    assert stored(run_id).result == {"n": 2}


def take_over(run_id: int) -> None:
    run = engine._take(KIND, "second")
    assert run is not None
    assert run.id == run_id
    RunTurn(KIND, run, until=0, is_stopping=lambda: False).store(position={"at": 1})


def test_a_run_whose_worker_is_lost_is_queued_again_and_what_a_worker_began_itself_fails() -> None:
    run_id = requested()

    def killed(this: RunTurn) -> None:
        this.store(position={"at": 1}, done=1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        turn(killed)
    own = LongRun.objects.create(kind="ingest", state="running", requested_by="system", heartbeat_at=SILENT)
    recover()
    assert stored(run_id).state == "running", "its heartbeat is fresh"
    LongRun.objects.update(heartbeat_at=SILENT)
    recover()
    assert [(one.state, one.error) for one in (stored(run_id), stored(own.id))] == [
        ("queued", None),
        ("failed", "its worker ended while it ran"),
    ]
    turn(count_to(2))
    assert (stored(run_id).state, stored(run_id).result) == ("succeeded", {"n": 2})


class HoldsNothing:
    """The heartbeat of a worker whose session for locks is gone."""

    def hold(self, run_id: int) -> None:
        pass

    def release(self, run_id: int) -> None:
        pass


def test_a_turn_that_says_late_that_it_lives_is_not_taken_for_lost(test_database_url: str) -> None:
    run_id = requested()

    def late(this: RunTurn) -> None:
        LongRun.objects.update(heartbeat_at=SILENT)
        thread, errors = in_thread(recover)
        thread.join()
        assert errors == []
        this.finish({"n": 1})

    turn(late)
    assert (stored(run_id).state, stored(run_id).tries) == ("succeeded", 1)


def test_a_late_turn_changes_nothing_of_a_run_that_was_taken_for_lost() -> None:
    run_id = requested()

    def silent(this: RunTurn) -> None:
        LongRun.objects.update(heartbeat_at=SILENT)
        recover()
        this.finish({"n": 1})
        raise AssertionError("it went on")

    turn(silent, seconds=0.001, heartbeat=HoldsNothing())
    assert (stored(run_id).state, stored(run_id).result) == ("queued", None)
    turn(finish)
    assert stored(run_id).state == "succeeded"


def test_a_run_that_is_cancelling_ends_also_when_its_worker_is_lost() -> None:
    run_id = requested()

    def killed(_: RunTurn) -> None:
        cancelled(run_id)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        turn(killed)
    LongRun.objects.update(heartbeat_at=SILENT)
    recover()
    assert stored(run_id).state == "cancelling"
    turn(finish)
    assert stored(run_id).state == "cancelled"


@pytest.mark.parametrize("dies_at", range(1, 12))
def test_a_run_whose_worker_dies_at_any_statement_ends_once(dies_at: int) -> None:
    run_id = requested()
    statements = 0

    def counted(execute: Callable[..., object], sql: str, params: object, many: bool, context: object) -> object:
        nonlocal statements
        statements += 1
        if statements == dies_at:
            raise KeyboardInterrupt
        return execute(sql, params, many, context)

    with connection.execute_wrapper(counted):
        try:
            turn(count_with_rows)
        except KeyboardInterrupt:
            connection.close()
    LongRun.objects.filter(state="running").update(heartbeat_at=SILENT)
    recover()
    turn(count_with_rows)
    run = stored(run_id)
    assert (run.state, run.result) == ("succeeded", {"n": 3})
    assert sorted(Rule.objects.values_list("name", flat=True)) == ["0", "1", "2"]


def count_with_rows(this: RunTurn) -> None:
    """Write three rows, each in one transaction with the position behind it."""
    for number in range(this.run.position.get("at", 0), 3):
        with transaction.atomic():
            this.store(position={"at": number + 1})
            Rule.objects.create(stage="after", position=1, name=str(number), owner="kim", updated_by="kim")
    this.finish({"n": 3})
