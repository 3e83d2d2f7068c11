"""A delivery task takes what is claimed as soon as it is, once, and outlives its sessions."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.destinations.commands import save_destination
from poisonadmin.policies.commands import save_policy
from tests.fixtures.delivery import claim, enqueue, make_destination, states
from tests.fixtures.endpoint import endpoint
from tests.messages.simulated_tasks import execute
from tests.whole_system.installation import until
from workers.delivery import task
from workers.dispatcher import DeliveryTasks

SHARDS = "SELECT claim_id, shard FROM claim_shard ORDER BY 1, 2"
DELIVERED = "SELECT claim_id, shard FROM node WHERE \"end\" = 'clean' ORDER BY 1, 2"
IDLE = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'poisonadmin listener' AND query LIKE %s"

WORKER = 4711


@contextmanager
def tasks(
    url: str, count: int = 1, *, idle_seconds: float = 1.0, instance: int = WORKER
) -> Iterator[list[Future[int]]]:
    """Run so many tasks; on exit wait until all have ended, and raise what they raised."""
    with ThreadPoolExecutor(count) as threads:
        running = [threads.submit(task.serve, url, instance=instance, idle_seconds=idle_seconds) for _ in range(count)]
        until(lambda: fetch_values(IDLE, ["%AS waiting ON TRUE%"]) == [count])
        yield running
    for one in running:
        one.result()


@pytest.fixture(autouse=True)
def shop(transactional_db: None) -> None:
    """Make the shop, at which nobody answers; each message is delivered once."""
    make_destination(max_delivery_attempts=1)
    execute("SELECT pg_advisory_unlock_all()")
    execute("SELECT pg_advisory_lock(%s, %s)", Lock.WORKER, WORKER)


def test_a_task_whose_worker_is_gone_takes_nothing(test_database_url: str) -> None:
    [message] = enqueue()
    claim()
    assert task.serve(test_database_url, instance=WORKER + 1, idle_seconds=30) == 0
    assert states([message]) == ["DLNG"]


def test_a_task_that_waits_ends_when_its_worker_does(test_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "CHECK_SECONDS", 0.2)
    with tasks(test_database_url, idle_seconds=30) as [running]:
        execute("SELECT pg_advisory_unlock(%s, %s)", Lock.WORKER, WORKER)
        assert running.result(10) == 0


def test_it_takes_shards_as_they_are_claimed_and_ends_when_none_comes(test_database_url: str) -> None:
    with tasks(test_database_url) as [running]:
        for _ in range(3):
            [message] = enqueue()
            began = time.monotonic()
            claim()
            until(lambda: len(fetch_rows(DELIVERED)) == len(fetch_rows(SHARDS)))
            assert time.monotonic() - began < task.CHECK_SECONDS, "it was told, and did not find it at its next check"
            settle()
            assert states([message]) == ["NDLV"]
    assert running.result() == 3


def test_of_two_tasks_one_delivers_a_shard(test_database_url: str) -> None:
    with tasks(test_database_url, 2) as running:
        for _ in range(5):
            enqueue(3)
            claim(tasks=2)
        until(lambda: len(fetch_rows(DELIVERED)) == len(fetch_rows(SHARDS)))
    assert fetch_rows(DELIVERED) == fetch_rows(SHARDS)
    assert sum(one.result() for one in running) == len(fetch_rows(SHARDS))


def test_it_goes_on_when_the_database_has_ended_its_sessions(test_database_url: str) -> None:
    with tasks(test_database_url, idle_seconds=3) as [running]:
        execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name IN ('poisonadmin reader', 'poisonadmin listener')"
            " AND datname = current_database()"
        )
        [message] = enqueue()
        claim()
        until(lambda: len(fetch_rows(DELIVERED)) == 1)
        settle()
        assert states([message]) == ["NDLV"]
    assert running.result() == 1


def test_the_lock_of_a_node_is_free_when_its_shard_is_delivered(test_database_url: str) -> None:
    with tasks(test_database_url):
        enqueue()
        claim()
        until(lambda: len(fetch_rows(DELIVERED)) == 1)
        held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 20"
        until(lambda: fetch_values(held) == [0])


def test_while_a_shard_waits_for_answers_the_task_delivers_others(
    test_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.delivery.shard.START_BUDGET_SECONDS", 0.3)
    with endpoint() as (url, answers), tasks(test_database_url) as [running]:
        hanging = []
        for number in range(task.MOST_WAITING):
            hanging += deliver_to(f"hangs{number}", f"{url}{number}")
            claim()
            until(lambda: len(fetch_rows(SHARDS)) == fetch_values("SELECT count(*) FROM node")[0])
            until(lambda: fetch_values("SELECT count(*) FROM node WHERE NOT waits AND ended_at IS NULL") == [0])
        [other] = enqueue()
        claim()
        until(lambda: fetch_values("SELECT count(*) FROM node WHERE ended_at IS NOT NULL") == [1])
        settle()
        assert states([other]) == ["NDLV"], "nobody answers there"
        assert states(hanging) == ["DLNG"] * len(hanging)
        answers.set()
        until(lambda: fetch_values("SELECT count(*) FROM node WHERE ended_at IS NULL") == [0])
    assert running.result() == len(hanging) + 1
    settle()
    assert states(hanging) == ["DLVD"] * len(hanging)


def deliver_to(name: str, url: str) -> list[int]:
    """Take in a message for a destination of its own."""
    config = {"url": url, "timeout_ms": 60_000}
    save_destination(name, kind="http", config=config, secrets=None, max_rate_per_second=None, principal=SYSTEM)
    save_policy(f"{name}.#", preset=None, settings={}, destination=name, principal=SYSTEM)
    return enqueue(address=f"{name}.x")


class Runs:
    """Tasks that run until they are let go; `error` is raised by what ends next."""

    def __init__(self) -> None:
        self.started = 0
        self.let_go = threading.Semaphore(0)
        self.error: Exception | None = None

    def __call__(self) -> None:
        self.started += 1
        self.let_go.acquire()
        if self.error is not None:
            raise self.error


@pytest.fixture
def supplied() -> Iterator[tuple[Runs, DeliveryTasks]]:
    """Yield tasks that run until they are let go, and their supply."""
    runs = Runs()
    supply = DeliveryTasks(runs, limit=4)
    yield runs, supply
    supply.stop()
    runs.let_go.release(10)


def settled(runs: Runs, started: int) -> Callable[[], bool]:
    """Return whether so many tasks have started."""
    return lambda: runs.started == started


def test_one_task_waits_when_nothing_is_to_be_done_and_each_shard_has_one(
    supplied: tuple[Runs, DeliveryTasks],
) -> None:
    runs, supply = supplied
    supply.supply(untaken=0, taken=0)
    until(settled(runs, 1))
    supply.supply(untaken=1, taken=0)
    supply.supply(untaken=0, taken=1)
    until(settled(runs, 1))
    supply.supply(untaken=2, taken=1)
    until(settled(runs, 3))
    supply.supply(untaken=9, taken=0)
    until(settled(runs, 4))


def test_a_shard_that_nobody_takes_gets_another_task(
    supplied: tuple[Runs, DeliveryTasks], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.dispatcher.UNTAKEN_SECONDS", 0.1)
    runs, supply = supplied
    supply.supply(untaken=1, taken=0)
    supply.supply(untaken=1, taken=0)
    until(settled(runs, 1))
    time.sleep(0.2)
    supply.supply(untaken=1, taken=0)
    until(settled(runs, 2))


def test_a_failure_is_told_once_and_the_next_task_starts_after_a_pause(
    supplied: tuple[Runs, DeliveryTasks], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.dispatcher.PAUSE_SECONDS", 0.3)
    runs, supply = supplied
    runs.error = ValueError("Spark is broken\nat a.b.c")
    assert supply.supply(untaken=1, taken=0) is None
    runs.let_go.release()
    until(lambda: supply.supply(untaken=1, taken=0) == "ValueError: Spark is broken")
    assert supply.supply(untaken=1, taken=0) is None
    assert runs.started == 1
    time.sleep(0.4)
    supply.supply(untaken=1, taken=0)
    until(settled(runs, 2))
