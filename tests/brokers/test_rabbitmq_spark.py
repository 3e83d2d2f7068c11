"""The tick as it runs: tasks of Spark drain the shards side by side, the driver merges beside them."""

from collections.abc import Callable
from functools import partial

import pytest
from pyspark.sql import SparkSession

from poisonadmin.sources.commands.draining import Workshop, drain_due
from poisonadmin.sources.domain.draining import Drained
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.job import Job
from poisonadmin.store.models.message import Message
from tests.brokers.rabbitmq import RabbitMq
from tests.brokers.rabbitmq_rig import ClassicQueues
from tests.brokers.received import Sent
from tests.intake.store import assert_whole, payloads
from workers.spark.jobs.drain import count_waiting, drain

pytestmark = pytest.mark.django_db(transaction=True)

COUNT = 1500


@pytest.fixture
def rig(rabbitmq: RabbitMq, test_database_url: str, monkeypatch: pytest.MonkeyPatch) -> ClassicQueues:
    """Return consumers of a broker whose source finds the test's database."""
    monkeypatch.setenv("DATABASE_URL", test_database_url)
    return ClassicQueues(rabbitmq)


def make_source(rig: ClassicQueues, *queues: str, **columns: object) -> Source:
    url = f"amqp://127.0.0.1:{rig.server.port}"
    secrets = {"username": "guest", "password": "guest"}
    return Source.objects.create(
        kind="rabbitmq", config={"url": url, "queues": list(queues)}, secrets=secrets, **{"name": "rabbit", **columns}
    )


def tick(spark: SparkSession, is_stopping: Callable[[], bool] = lambda: False) -> None:
    drain_due(Workshop(count_waiting, partial(drain, spark, seconds=5.0), worker="tests", is_stopping=is_stopping))


def test_the_queues_of_two_sources_are_drained_whole(rig: ClassicQueues, spark: SparkSession) -> None:
    first = [Sent(b"first %d" % n) for n in range(COUNT)]
    second = [Sent(b"second %d" % n, f"s-{n}") for n in range(COUNT)]
    _, dead = rig.dead_letter(first)
    _, other_dead = rig.dead_letter(second)
    sources = [make_source(rig, dead), make_source(rig, other_dead, name="other")]
    while rig.depth(dead) + rig.depth(other_dead):
        tick(spark)
    assert sorted(payloads()) == sorted(one.payload for one in (*first, *second))
    assert set(Message.objects.values_list("state", "reason", "failure_count")) == {("NDLV", "imported", 1)}
    for source in sources:
        source.refresh_from_db()
        assert (source.accepted, source.duplicates, source.failures) == (COUNT, 0, 0), source.last_error
    assert set(Job.objects.values_list("state", flat=True)) == {"succeeded"}
    assert_whole()


def test_a_stop_breaks_off_and_loses_nothing(rig: ClassicQueues, spark: SparkSession) -> None:
    _, dead = rig.dead_letter([Sent(b"order %d" % n) for n in range(COUNT)])
    source = make_source(rig, dead)
    tick(spark, is_stopping=lambda: True)
    while rig.depth(dead):
        tick(spark)
    tick(spark)
    assert sorted(payloads()) == sorted(b"order %d" % n for n in range(COUNT))
    source.refresh_from_db()
    assert source.failures == 0
    assert_whole()


def test_a_broker_that_is_away_is_said_and_tried_again_later(spark: SparkSession, rig: ClassicQueues) -> None:
    source = make_source(rig, "no-such-queue")
    tick(spark)
    source.refresh_from_db()
    assert source.failures == 1
    assert "no-such-queue" in (source.last_error or "")
    assert source.next_look_at is not None


def test_what_a_task_stages_is_counted(rig: ClassicQueues, spark: SparkSession) -> None:
    _, dead = rig.dead_letter([Sent(b"order %d" % n) for n in range(10)])
    drained = drain(spark, make_source(rig, dead).id, lambda: False, seconds=5.0)
    assert drained == Drained(staged=10)
