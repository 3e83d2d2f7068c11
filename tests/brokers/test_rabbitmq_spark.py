"""The tick as it runs: tasks of Spark drain the shards side by side, the driver merges beside them."""

from collections.abc import Callable
from functools import partial

import pytest
from pyspark.sql import SparkSession

from poisonadmin.intake.domain.draining import Drained
from poisonadmin.sources.commands.draining import Drainer, drain_due
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.run import LongRun
from tests.brokers.exchange import source_of
from tests.brokers.messages import Sent
from tests.brokers.rabbitmq_queues import ClassicQueues
from tests.intake.store import assert_whole, payloads
from workers.spark.jobs.drain import count_waiting, drain

pytestmark = pytest.mark.django_db(transaction=True)

RUNS_WITH = ("rabbitmq classic",)
COUNT = 1500


@pytest.fixture(autouse=True)
def _database_url(test_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tick find the tests' database."""
    monkeypatch.setenv("DATABASE_URL", test_database_url)


def tick(spark: SparkSession, is_stopping: Callable[[], bool] = lambda: False) -> None:
    drain_due(Drainer(count_waiting, partial(drain, spark, seconds=5.0), worker="tests", is_stopping=is_stopping))


def test_the_queues_of_two_sources_are_drained_whole(queues: ClassicQueues, spark: SparkSession) -> None:
    first = [Sent(b"first %d" % n) for n in range(COUNT)]
    second = [Sent(b"second %d" % n, f"s-{n}") for n in range(COUNT)]
    _, dead = queues.dead_letter(first)
    _, other_dead = queues.dead_letter(second)
    sources = [source_of(queues, dead), source_of(queues, other_dead, name="other")]
    while queues.depth(dead) + queues.depth(other_dead):
        tick(spark)
    assert sorted(payloads()) == sorted(one.payload for one in (*first, *second))
    assert set(Message.objects.values_list("state", "reason", "failure_count")) == {("NDLV", "imported", 1)}
    for source in sources:
        source.refresh_from_db()
        assert (source.accepted, source.duplicates, source.failures) == (COUNT, 0, 0), source.last_error
    assert set(LongRun.objects.values_list("state", flat=True)) == {"succeeded"}
    assert_whole()


def test_a_stop_breaks_off_and_loses_nothing(queues: ClassicQueues, spark: SparkSession) -> None:
    _, dead = queues.dead_letter([Sent(b"order %d" % n) for n in range(COUNT)])
    source = source_of(queues, dead)
    tick(spark, is_stopping=lambda: True)
    while queues.depth(dead):
        tick(spark)
    tick(spark)
    assert sorted(payloads()) == sorted(b"order %d" % n for n in range(COUNT))
    source.refresh_from_db()
    assert source.failures == 0
    assert_whole()


def test_a_broker_that_is_away_is_said_and_tried_again_later(spark: SparkSession, queues: ClassicQueues) -> None:
    source = source_of(queues, "no-such-queue")
    tick(spark)
    source.refresh_from_db()
    assert source.failures == 1
    assert "no-such-queue" in (source.last_error or "")
    assert source.next_check_at is not None


def test_what_a_task_stages_is_counted(queues: ClassicQueues, spark: SparkSession) -> None:
    _, dead = queues.dead_letter([Sent(b"order %d" % n) for n in range(10)])
    drained = drain(spark, source_of(queues, dead).id, lambda: False, seconds=5.0)
    assert drained == Drained(staged=10)
