"""Returning messages to a real RabbitMQ: delivered is what is confirmed, and nothing else (F16)."""

import asyncio
import base64
import re
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from pika.exceptions import AMQPError

from poisonadmin.core.domain.ssrf import NetworkGuard
from poisonadmin.messages.domain.attempt import AttemptRecord
from tests.brokers.messages import Received
from tests.brokers.proxy import proxy_to
from tests.brokers.rabbitmq import RabbitMq
from tests.brokers.rabbitmq_queues import ClassicQueues
from tests.workers.nodes import RecordingNode
from tests.workers.sinks import delivery
from workers.brokers.rabbitmq.encoding import text_field
from workers.delivery.broker import BrokerDestination, parse_broker_config
from workers.delivery.deliver import deliver_all
from workers.delivery.deliveries import ConfiguredDestination, Delivery

RUNS_WITH = ("rabbitmq classic", "rabbitmq quorum")


def destination(port: int, **config: Any) -> BrokerDestination:
    """Return a destination at a port of the loopback interface."""
    wanted = {"url": f"amqp://127.0.0.1:{port}", "batch": 50, "timeout_ms": 20_000, **config}
    return parse_broker_config(ConfiguredDestination(1, "rabbit", kind="rabbitmq", config=wanted))


def returning(queue: str, count: int, **changes: Any) -> list[Delivery]:
    """Return deliveries of messages that once were in the queue."""
    transport = {"broker": "rabbitmq", "queue": queue, "exchange": "", "routing_key": queue, "properties": {}}
    transport["properties"] = {"delivery_mode": 2}
    made = orjson.dumps(transport)
    fields = {"transport": made} | changes
    return [delivery(n, payload=b"order %d" % n, **fields) for n in range(1, count + 1)]


def deliver(deliveries: Sequence[Delivery], to: BrokerDestination, **options: Any) -> list[AttemptRecord]:
    """Deliver and return the outcomes; `options`: of the node."""
    node = RecordingNode(claim_id=None, shard=None, start_deadline=lambda: time.monotonic() + 60, **options)
    asyncio.run(deliver_all(deliveries, {to.id: to}, node, guard=NetworkGuard(allow_loopback=True)))
    return node.rows


def outcomes(rows: Sequence[AttemptRecord]) -> Counter[str]:
    """Return how often each outcome came, by the failure's class where it is one."""
    return Counter(row.error_class or row.outcome for row in rows)


def test_messages_return_to_the_queue_they_came_from(queues: ClassicQueues) -> None:
    queue, _ = queues.pair()

    rows = deliver(returning(queue, 500), destination(queues.server.port))

    assert outcomes(rows) == Counter(delivered=500)
    received = queues.receive(queue, 500)
    assert {one.payload for one in received} == {b"order %d" % n for n in range(1, 501)}
    assert {one.headers["PoisonAdmin-Attempt"] for one in received} == {"1"}


def test_without_a_transport_of_its_kind_a_message_goes_to_the_queue_named_as_its_address(
    queues: ClassicQueues,
) -> None:
    queue, _ = queues.pair()
    headers = {"tenant": "eu", "CC": "elsewhere", "x-death": "[]", "PoisonAdmin-Message-Id": "666"}

    rows = deliver([delivery(7, address=queue, headers=headers)], destination(queues.server.port))

    assert outcomes(rows) == Counter(delivered=1)
    (received,) = queues.receive(queue, 1)
    assert received.headers == {"tenant": "eu", "PoisonAdmin-Message-Id": "7", "PoisonAdmin-Attempt": "1"}
    assert (received.message_id, received.properties["delivery_mode"]) == ("m-7", 2)


def test_a_redirect_goes_to_its_queue_and_to_its_exchange(queues: ClassicQueues) -> None:
    queue, other = queues.pair()

    deliver(returning(queue, 1), destination(queues.server.port, queue=other))
    deliver(returning(queue, 2), destination(queues.server.port, exchange="amq.direct", routing_key="k"))
    channel = queues.channel()
    channel.queue_bind(other, "amq.direct", "k")
    channel.connection.close()
    rows = deliver(returning(queue, 3), destination(queues.server.port, exchange="amq.direct", routing_key="k"))

    assert outcomes(rows) == Counter(delivered=3)
    assert len(queues.receive(other, 4)) == 4
    assert queues.depth(queue) == 0


def test_of_messages_to_a_queue_that_is_gone_none_is_delivered_and_the_others_are(queues: ClassicQueues) -> None:
    queue, dead = queues.pair()
    queues.delete(dead)
    there, gone = returning(queue, 90), returning(dead, 100)[90:]

    rows = deliver([*there, *gone], destination(queues.server.port))

    assert outcomes(rows) == Counter(delivered=90, Unroutable=10)
    assert {row.message_id for row in rows if row.error_class} == set(range(91, 101))
    assert all(dead in (row.error_message or "") for row in rows if row.error_class)


def test_a_full_queue_that_rejects_is_a_failure_of_what_it_rejects(queues: ClassicQueues) -> None:
    queue, _ = queues.pair(**{"x-max-length": 10, "x-overflow": "reject-publish"})

    rows = deliver(returning(queue, 200), destination(queues.server.port, concurrency=1))

    kept = len(queues.receive(queue, 200, seconds=2.0))
    assert outcomes(rows) == Counter(delivered=kept, BrokerRefused=200 - kept)
    assert kept < 200


def test_one_message_that_closes_the_channel_takes_no_other_with_it(queues: ClassicQueues) -> None:
    queue, _ = queues.pair()
    batch = returning(queue, 50)
    poison = {"broker": "rabbitmq", "queue": queue, "properties": {}}
    poison["headers"] = {"base64": base64.b64encode(text_field("CC", "not a list")).decode()}
    batch[20] = delivery(21, payload=b"order 21", transport=orjson.dumps(poison))

    rows = deliver(batch, destination(queues.server.port))

    assert outcomes(rows) == Counter(delivered=49, BrokerRefused=1)
    assert next(row.message_id for row in rows if row.error_class) == 21
    # Those that had no answer yet were sent again.
    received = Counter(one.payload for one in queues.receive(queue, 98, seconds=1.0))
    assert received.keys() == {one.payload for one in batch} - {b"order 21"}
    assert max(received.values()) <= 2


def test_an_exchange_that_is_not_there_is_refused_at_once(queues: ClassicQueues) -> None:
    queue, _ = queues.pair()

    rows = deliver(returning(queue, 120), destination(queues.server.port, exchange="nowhere", concurrency=1))

    assert outcomes(rows) == Counter(BrokerRefused=120)


def test_a_confirm_that_does_not_come_is_not_a_delivery(queues: ClassicQueues) -> None:
    queue, _ = queues.pair()
    with proxy_to(queues.server.port) as proxy:
        to = destination(proxy.port, timeout_ms=700, concurrency=1, batch=20)
        good = deliver(returning(queue, 10), to)
        proxy.hold_answers_to(re.compile(rb"order 50\b"))
        rows = deliver(returning(queue, 100), to)

    assert outcomes(good) == Counter(delivered=10)
    found = outcomes(rows)
    assert found["ConfirmLost"] >= 1
    assert found["delivered"] >= 1
    assert set(found) <= {"delivered", "ConfirmLost", "NotSent"}
    assert queues.depth(queue) >= 10 + found["delivered"]


def _slowly(deliveries: Sequence[Delivery]) -> Any:
    for one in deliveries:
        time.sleep(0.005)
        yield one


@pytest.mark.parametrize("after", [1, 3_000, 20_000])
def test_a_connection_cut_in_the_middle_of_a_batch_delivers_what_was_confirmed(
    queues: ClassicQueues, after: int
) -> None:
    queue, _ = queues.pair()
    with proxy_to(queues.server.port) as proxy:
        to = destination(proxy.port, concurrency=1, batch=200)
        proxy.cut_after(600 + after)
        rows = deliver(returning(queue, 200), to)
        proxy.heal()
        again = deliver([one for one in returning(queue, 200) if one.message_id not in _done(rows)], to)

    assert set(outcomes(rows)) <= {"delivered", "ConfirmLost", "NotSent"}
    assert outcomes(again) == Counter(delivered=200 - len(_done(rows)))
    received = Counter(one.payload for one in queues.receive(queue, 400, seconds=1.0))
    assert received.keys() == {b"order %d" % n for n in range(1, 201)}
    assert max(received.values()) <= 2


def _done(rows: Sequence[AttemptRecord]) -> set[int]:
    return {row.message_id for row in rows if row.outcome == "delivered"}


def test_with_the_broker_killed_in_the_middle_nothing_is_delivered_that_it_has_not_kept(
    queues: ClassicQueues, broker_to_kill: RabbitMq
) -> None:
    queue, _ = queues.pair()
    time.sleep(queues.settles_seconds)
    killer = threading.Thread(target=_kill_when, args=(broker_to_kill, queues, queue))
    killer.start()
    rows = deliver(_slowly(returning(queue, 600)), destination(queues.server.port, timeout_ms=5000))
    killer.join()
    broker_to_kill.start()

    kept = {one.payload for one in _received_after_a_restart(queues, queue)}
    assert {b"order %d" % one for one in _done(rows)} <= kept
    assert set(outcomes(rows)) <= {"delivered", "ConfirmLost", "NotSent"}
    assert outcomes(rows)["delivered"] < 600
    assert len(rows) == 600


def _received_after_a_restart(queues: ClassicQueues, queue: str) -> list[Received]:
    """Return what the queue has kept: a quorum queue takes a while until it has a leader again."""
    deadline = time.monotonic() + 90
    while True:
        try:
            return queues.receive(queue, 600, seconds=5.0)
        except AMQPError:
            assert time.monotonic() < deadline
            time.sleep(0.5)


def _kill_when(server: RabbitMq, queues: ClassicQueues, queue: str) -> None:
    deadline = time.monotonic() + 20
    while queues.depth(queue) < 50 and time.monotonic() < deadline:
        time.sleep(0.01)
    server.kill()


def test_a_broker_under_a_memory_alarm_takes_nothing_and_says_so(queues: ClassicQueues) -> None:
    queue, _ = queues.pair()
    queues.server.control("set_vm_memory_high_watermark", "absolute", "1MB")
    try:
        rows = deliver(returning(queue, 10), destination(queues.server.port, timeout_ms=3000))
        later = deliver(returning(queue, 1), destination(queues.server.port, timeout_ms=3000))
    finally:
        queues.server.control("set_vm_memory_high_watermark", "0.4")
    healthy = deliver(returning(queue, 5), destination(queues.server.port))

    assert set(outcomes(rows)) <= {"ConfirmLost", "NotSent"}
    assert any("memory" in (row.error_message or "") for row in [*rows, *later])
    assert outcomes(healthy) == Counter(delivered=5)


def test_a_broker_that_is_away_leaves_messages_unsent(queues: ClassicQueues) -> None:
    rows = deliver(returning("q", 20), destination(1, timeout_ms=2000))

    assert outcomes(rows) == Counter(NotSent=20)


def test_candidates_are_marked_and_published_one_by_one(queues: ClassicQueues) -> None:
    queue, _ = queues.pair()
    marked: list[tuple[int, int]] = []

    async def mark(one: Delivery) -> None:
        marked.append((one.message_id, await asyncio.to_thread(queues.depth, queue)))

    deliver(returning(queue, 3), destination(queues.server.port), is_isolation=True, mark=mark)

    assert marked == [(1, 0), (2, 1), (3, 2)]


def test_a_chain_is_published_in_order_and_stops_at_its_first_failure(queues: ClassicQueues) -> None:
    queue, _ = queues.pair()
    chain = returning(queue, 5, chain=1)
    chain[3] = returning("nowhere", 4, chain=1)[3]

    rows = deliver(chain, destination(queues.server.port))

    assert [(row.message_id, row.error_class) for row in rows] == [
        (1, None), (2, None), (3, None), (4, "Unroutable"),
    ]  # fmt: skip
    assert [one.payload for one in queues.receive(queue, 3)] == [b"order 1", b"order 2", b"order 3"]


def test_a_configuration_that_cannot_be_used_fails_its_deliveries(queues: ClassicQueues) -> None:
    rows = deliver(returning("q", 2), BrokerDestination(1, "rabbit", "rabbitmq", broken="url: has no host"))

    assert outcomes(rows) == Counter(InvalidDestination=2)
