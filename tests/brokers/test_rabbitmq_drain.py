"""Draining RabbitMQ into PostgreSQL: what is stored is acknowledged, and nothing else; nothing is stored twice."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from django.db import connection

from poisonadmin.intake.domain.draining import Drained
from poisonadmin.messages.domain.envelope_fields import LIMITS
from poisonadmin.sources.commands.draining import merge_left_over
from poisonadmin.store.models.intake import BrokerReceipt, RejectedLine, Source, StagedMessage
from poisonadmin.store.models.message import Body, Message
from tests.brokers.exchange import stored
from tests.brokers.messages import Sent
from tests.brokers.proxy import proxy_to
from tests.brokers.rabbitmq import RabbitMq
from tests.brokers.rabbitmq_queues import ClassicQueues
from workers.brokers import drain as draining
from workers.brokers.contract import BrokerError, Shard, adapter
from workers.brokers.staging import BrokerStaging

pytestmark = pytest.mark.django_db(transaction=True)

RUNS_WITH = ("rabbitmq classic", "rabbitmq quorum")
Drain = Callable[..., Drained]


@pytest.fixture
def source(queues: ClassicQueues) -> Source:
    """Return a source that drains whatever a test names."""
    url = f"amqp://127.0.0.1:{queues.server.port}"
    return Source.objects.create(name="rabbit", kind="rabbitmq", config={"url": url, "queues": ["-"]})


@pytest.fixture
def drain(source: Source, test_database_url: str) -> Drain:
    """Return a function that drains a queue with one reader."""

    def drain_queue(queue: str, **options: Any) -> Drained:
        return draining.drain_shard(test_database_url, source.id, Shard(queue), **({"idle_seconds": 0.3} | options))

    return drain_queue


def without_ids(count: int) -> list[Sent]:
    """Return messages whose producer gave them no id."""
    return [Sent(b"order %d" % n, headers={"tenant": "eu"}) for n in range(count)]


def once_each(messages: list[Sent]) -> Counter[bytes]:
    """Return what is stored when nothing is lost and nothing invented."""
    return Counter(one.payload for one in messages)


def test_all_that_waits_is_staged_then_acknowledged(queues: ClassicQueues, source: Source, drain: Drain) -> None:
    original, dead = queues.dead_letter(without_ids(2500))

    drained = drain(dead)

    assert drained == Drained(staged=2500)
    assert queues.depth(dead) == 0
    assert StagedMessage.objects.values_list("address", flat=True).distinct().get() == original
    assert BrokerReceipt.objects.count() == 0
    assert stored() == once_each(without_ids(2500))
    merge_left_over(source.id)
    assert Message.objects.filter(state="NDLV", reason="imported", address__name=original).count() == 2500


def test_an_error_of_the_database_gives_everything_back(
    queues: ClassicQueues, drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, dead = queues.dead_letter(without_ids(100))

    def fail(*_: object) -> None:
        raise psycopg.OperationalError("the database is away")

    with monkeypatch.context() as patched:
        patched.setattr(BrokerStaging, "_copy", fail)
        with pytest.raises(psycopg.OperationalError):
            drain(dead)

    assert stored() == Counter()
    assert drain(dead).staged == 100
    assert stored() == once_each(without_ids(100))


def test_what_was_stored_and_not_acknowledged_is_recognised(
    queues: ClassicQueues, drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, dead = queues.dead_letter(without_ids(300))
    with monkeypatch.context() as patched:
        patched.setattr("workers.brokers.rabbitmq.adapter.RabbitMqReader.acknowledge", _die)
        with pytest.raises(KeyboardInterrupt):
            drain(dead)
    assert sum(stored().values()) >= 1
    assert BrokerReceipt.objects.count() == sum(stored().values())

    drained = drain(dead)

    assert drained.staged + drained.recognised == 300
    assert drained.recognised >= 1
    assert stored() == once_each(without_ids(300))
    assert BrokerReceipt.objects.count() == 0


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_equal_messages_without_ids_are_all_kept(
    queues: ClassicQueues, drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, dead = queues.dead_letter([Sent(b"ping")] * 50)
    with monkeypatch.context() as patched:
        patched.setattr(draining, "BATCH_MESSAGES", 20)
        patched.setattr("workers.brokers.rabbitmq.adapter.RabbitMqReader.acknowledge", _die)
        with pytest.raises(KeyboardInterrupt):
            drain(dead)

    drained = drain(dead)

    assert drained.staged + drained.recognised == 50
    assert stored() == Counter({b"ping": 50})


def test_the_broker_killed_in_the_middle_loses_nothing_and_invents_nothing(
    queues: ClassicQueues, broker_to_kill: RabbitMq, drain: Drain
) -> None:
    messages = without_ids(4000)
    # With confirms: what a broker has dead-lettered a moment ago it may itself forget, or repeat, when it is killed.
    _, dead = queues.pair()
    queues.publish(dead, messages)
    time.sleep(queues.settles_seconds)
    killer = threading.Thread(target=_kill_when, args=(broker_to_kill, 1000))
    killer.start()

    first = _slowly(drain, dead)
    killer.join()
    broker_to_kill.start()
    second = _until_empty(drain, dead)

    assert first.error is not None
    assert stored() == once_each(messages)
    assert first.staged + second.staged == 4000


def _slowly(drain: Drain, dead: str) -> Drained:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(draining, "BATCH_MESSAGES", 200)
        return drain(dead)


def _kill_when(server: RabbitMq, count: int) -> None:
    deadline = time.monotonic() + 60
    while Body.objects.count() < count and time.monotonic() < deadline:
        time.sleep(0.005)
    server.kill()
    connection.close()


def _until_empty(drain: Drain, dead: str) -> Drained:
    total = Drained()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        drained = drain(dead, idle_seconds=1.0)
        total += drained
        if drained.is_empty and drained.error is None:
            break
    return total


def test_the_same_id_with_another_body_is_a_conflict_and_with_the_same_a_duplicate(
    queues: ClassicQueues, source: Source, drain: Drain
) -> None:
    same = [Sent(b"one", message_id="m-1"), Sent(b"one", message_id="m-1"), Sent(b"other", message_id="m-1")]
    _, dead = queues.dead_letter(same)

    drain(dead)
    merged = merge_left_over(source.id)

    assert (merged.accepted, merged.duplicates, merged.conflicts) == (1, 1, 1)
    assert json.loads(bytes(RejectedLine.objects.get().raw))["payload_base64"] == "b3RoZXI="
    assert bytes(Body.objects.get().payload) == b"one"


def test_a_message_that_cannot_be_stored_is_set_aside_with_its_bytes(
    queues: ClassicQueues, drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.brokers.staging.LIMITS", replace(LIMITS, payload_bytes=3))
    _, dead = queues.dead_letter([Sent(b"much too large")])

    drained = drain(dead)

    assert (drained.staged, drained.rejected) == (0, 1)
    line = RejectedLine.objects.get()
    assert (line.code, bytes(line.raw)) == ("payload_too_large", b"much too large")


def test_a_queue_that_is_gone_is_the_source_s_trouble(drain: Drain) -> None:
    drained = drain("no-such-queue")

    assert "no-such-queue" in (drained.error or "")
    assert not drained.is_empty


def test_a_queue_that_is_deleted_while_it_is_read_ends_the_reading(queues: ClassicQueues) -> None:
    _, dead = queues.pair()
    reader = adapter("rabbitmq").open_reader(queues.login(dead), Shard(dead))
    queues.delete(dead)

    with pytest.raises(BrokerError, match="the queue is gone"):
        reader.read(10, 30.0)
    reader.close()


def test_a_broker_that_goes_away_between_two_reads_is_an_error(queues: ClassicQueues) -> None:
    _, dead = queues.dead_letter(without_ids(10))
    with proxy_to(queues.server.port) as proxy:
        login = replace(queues.login(dead), url=f"amqp://127.0.0.1:{proxy.port}")
        reader = adapter("rabbitmq").open_reader(login, Shard(dead))
        taken = reader.read(10, 30.0)
        proxy.cut()
        with pytest.raises(BrokerError):
            reader.acknowledge(taken)
        reader.close()

    assert len(taken) >= 1
    assert queues.receive(dead, 10, seconds=10.0)


def test_a_wrong_login_is_said_without_the_password(source: Source, drain: Drain) -> None:
    Source.objects.update(secrets={"username": "nobody", "password": "hunter2"})

    drained = drain("orders")

    assert "ACCESS_REFUSED" in (drained.error or "")
    assert "hunter2" not in (drained.error or "")


def test_draining_ends_when_it_is_told_to_and_leaves_the_rest(queues: ClassicQueues, drain: Drain) -> None:
    _, dead = queues.dead_letter(without_ids(20))

    drained = drain(dead, is_stopping=lambda: True)

    assert not drained.is_empty
    assert drained.staged + queues.depth(dead) == 20
    assert stored().total() == drained.staged
