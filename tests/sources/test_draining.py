"""Broker sources: looked at, drained by another, merged meanwhile, left alone for a while after trouble."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from django.db import connections

from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.intake.domain.draining import Drained
from poisonadmin.sources.commands.directories import ingest_due
from poisonadmin.sources.commands.draining import Drainer, drain_due, drain_source
from poisonadmin.store.models.intake import BrokerReceipt, Source, StagedMessage
from poisonadmin.store.models.run import LongRun
from tests.intake.staging import letter, make_source, stage
from tests.intake.store import messages
from tests.intake.store import rows as read

pytestmark = pytest.mark.django_db(transaction=True)

WAIT_SECONDS = 60


@dataclass
class Broker:
    """A broker's queues of one source as the driver sees them. `batches`: what each check finds."""

    waiting: int | None = 1
    batches: list[list[str]] = field(default_factory=list)
    error: str | None = None
    raises: Exception | None = None
    checks: int = 0
    drains: int = 0
    is_empty: bool = True

    def count_waiting(self, _source_id: int) -> int | None:
        self.checks += 1
        if self.raises is not None:
            raise self.raises
        return self.waiting

    def drain(self, source_id: int, _is_stopping: Callable[[], bool]) -> Drained:
        self.drains += 1
        source = Source.objects.get(id=source_id)
        for ids in self.batches:
            stage(source, [letter(message_id=one) for one in ids])
        connections.close_all()
        return Drained(staged=sum(map(len, self.batches)), is_empty=self.is_empty, error=self.error)

    @property
    def drainer(self) -> Drainer:
        return Drainer(self.count_waiting, self.drain, "tests")


def state(source: Source) -> tuple[object, ...]:
    source.refresh_from_db()
    return source.failures, source.last_error, source.lag, source.next_check_at is None


def test_what_waits_is_staged_merged_and_counted() -> None:
    source = make_source()
    broker = Broker(batches=[["1", "2"], ["3"], ["3"]])
    drain_due(broker.drainer)
    assert sorted(message_id for _, message_id in messages()) == ["1", "2", "3"]
    source.refresh_from_db()
    assert (source.accepted, source.duplicates, source.lag, source.last_error) == (3, 1, 0, None)
    assert source.last_success_at is not None
    job = LongRun.objects.get()
    assert (job.kind, job.state, job.params) == ("ingest", "succeeded", {"source": "rabbit", "broker": "rabbitmq"})
    assert job.result == {"accepted": 3, "returned": 0, "duplicates": 1, "rejected": 0}


def test_an_empty_queue_costs_a_check_and_no_job() -> None:
    source = make_source()
    broker = Broker(waiting=0)
    drain_due(broker.drainer)
    assert (broker.checks, broker.drains, LongRun.objects.count()) == (1, 0, 0)
    assert state(source) == (0, None, 0, True)


def test_batches_are_merged_while_more_are_staged() -> None:
    source = make_source()

    def drain(source_id: int, is_stopping: Callable[[], bool]) -> Drained:
        stage(source, [letter(message_id="1")])
        try:
            merged = threading.Event()
            for _ in range(WAIT_SECONDS * 20):
                if not StagedMessage.objects.exists():
                    merged.set()
                    break
                threading.Event().wait(0.05)
            assert merged.is_set()
        finally:
            connections.close_all()
        return Drained(staged=1)

    drain_due(replace(Broker().drainer, drain=drain))
    assert len(messages()) == 1


def test_trouble_is_written_down_and_the_source_left_alone_twice_as_long_each_time() -> None:
    source = make_source()
    broker = Broker(raises=PoisonAdminError("The broker refuses the login."))
    waits = []
    for _ in range(7):
        Source.objects.update(next_check_at=None)
        drain_due(broker.drainer)
        drain_due(broker.drainer)
        waits += read("SELECT round(extract(epoch FROM next_check_at - last_error_at))::int FROM source")
    assert broker.checks == 7
    assert [seconds for (seconds,) in waits] == [2, 4, 8, 16, 32, 60, 60]
    assert state(source) == (7, "The broker refuses the login.", None, False)
    Source.objects.update(next_check_at=None)
    drain_due(Broker(waiting=0).drainer)
    assert state(source)[0] == 0


def test_what_was_staged_before_a_connection_broke_is_merged() -> None:
    source = make_source()
    drain_due(Broker(batches=[["1"]], error="The connection was lost.", is_empty=False).drainer)
    assert len(messages()) == 1
    assert state(source)[:2] == (1, "The connection was lost.")
    assert LongRun.objects.get().state == "failed"


def test_a_drain_that_breaks_down_is_an_error_of_its_own() -> None:
    source = make_source()

    def drain(source_id: int, is_stopping: Callable[[], bool]) -> Drained:
        raise RuntimeError("the task is lost\n  at somewhere")

    with pytest.raises(RuntimeError):
        drain_due(replace(Broker().drainer, drain=drain))
    assert state(source)[:2] == (1, "RuntimeError: the task is lost")
    assert (LongRun.objects.get().state, LongRun.objects.get().error) == ("failed", "RuntimeError: the task is lost")


def test_a_stop_is_no_trouble() -> None:
    source = make_source()

    def drain(source_id: int, is_stopping: Callable[[], bool]) -> Drained:
        raise RuntimeError("the job was cancelled")

    drain_due(replace(Broker().drainer, drain=drain, is_stopping=lambda: True))
    assert state(source)[:2] == (0, None)
    assert LongRun.objects.get().state == "cancelled"


def test_one_source_in_trouble_does_not_keep_the_others_from_their_turn() -> None:
    make_source("a")
    healthy = make_source("b")

    def count_waiting(source_id: int) -> int:
        if source_id != healthy.id:
            raise PoisonAdminError("No route to host.")
        return 1

    drain_due(replace(Broker(batches=[["1"]]).drainer, count_waiting=count_waiting))
    assert read("SELECT name, failures FROM source ORDER BY 1") == [("a", 1), ("b", 0)]
    assert len(messages()) == 1


def test_what_a_killed_run_has_staged_is_merged_by_the_next_whatever_became_of_the_source() -> None:
    enabled, disabled, gone = make_source("a"), make_source("b", is_enabled=False), make_source("c")
    for number, source in enumerate((enabled, disabled, gone)):
        stage(source, [letter(message_id=str(number))])
    gone.delete()
    drain_due(Broker(raises=PoisonAdminError("away")).drainer)
    assert len(messages()) == 3


def test_a_source_is_drained_by_one_at_a_time() -> None:
    source = make_source()
    inner: list[object] = []

    def drain(source_id: int, is_stopping: Callable[[], bool]) -> Drained:
        inner.append(drain_source(source_id, Broker().drainer))
        connections.close_all()
        return Drained()

    drain_due(replace(Broker().drainer, drain=drain))
    assert inner == [None]
    assert state(source)[0] == 0


def test_receipts_outlive_a_queue_that_only_looks_empty() -> None:
    source = make_source()
    BrokerReceipt.objects.create(source=source, digest=b"new")
    old = BrokerReceipt.objects.create(source=source, digest=b"old")
    read("UPDATE broker_receipt SET stored_at = now() - interval '1 day' WHERE id = %s RETURNING id", old.id)
    drain_due(Broker(is_empty=False).drainer)
    assert BrokerReceipt.objects.count() == 2
    drain_due(Broker().drainer)
    assert [bytes(one.digest) for one in BrokerReceipt.objects.all()] == [b"new"]


def test_a_broker_is_no_directory() -> None:
    make_source()
    ingest_due(lambda _: [], worker="tests", heartbeat=_NoHeartbeat())
    assert state(Source.objects.get()) == (0, None, None, True)


class _NoHeartbeat:
    def hold(self, job_id: int) -> None: ...
    def release(self, job_id: int) -> None: ...
