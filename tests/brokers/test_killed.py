"""A broker killed with `kill -9` in the middle of things: nothing is lost, and nothing is invented.

Of brokers that give a message an id of their own; RabbitMQ does not (test_rabbitmq_drain.py, test_rabbitmq_sender.py).
"""

import threading
import time
from collections import Counter
from collections.abc import Sequence

import pytest
from django.db import connection

from poisonadmin.intake.domain.draining import Drained
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.message import Body
from tests.brokers.exchange import outgoing, read_all, source_of, stored
from tests.brokers.messages import Sent
from tests.brokers.queues import Queues
from tests.brokers.server import Server
from workers.brokers import drain as draining
from workers.brokers.contract import Incoming, adapter

pytestmark = pytest.mark.django_db(transaction=True)

RUNS_WITH = ("artemis", "kafka")
COUNT = 1000
KILL_AT = 300
SECONDS = 60.0


def test_a_broker_killed_while_it_is_drained(queues: Queues, broker_to_kill: Server, test_database_url: str) -> None:
    messages = numbered()
    _, dead = queues.dead_letter(messages)

    drained = drain_while_it_is_killed(broker_to_kill, queues, dead, test_database_url)

    # What was stored and not acknowledged came again under the same id: the merge tells it from a new one.
    assert set(stored()) == {one.payload for one in messages}
    assert drained.staged == stored().total()
    assert adapter(queues.kind).depth(queues.login(dead)) == 0


def test_a_broker_killed_while_messages_are_returned(queues: Queues, broker_to_kill: Server) -> None:
    messages = numbered()
    original, dead = queues.dead_letter(messages)
    incoming = read_all(queues, dead, COUNT)
    assert len(incoming) == COUNT

    unconfirmed = return_while_it_is_killed(broker_to_kill, queues, incoming)

    received = queues.receive(original, queues.depth(original))
    assert unconfirmed > 0
    assert {one.payload for one in received} == {one.payload for one in messages}
    # Only what was not confirmed may be there twice, and each says who it is.
    times = Counter(one.headers["PoisonAdmin-Message-Id"] for one in received)
    assert set(times) == {str(number) for number in range(1, COUNT + 1)}
    assert len(received) - COUNT <= unconfirmed


def numbered() -> list[Sent]:
    """Return messages that can be told apart."""
    return [Sent(b"order %d" % n, headers={"tenant": "eu", "n": str(n)}) for n in range(COUNT)]


def drain_while_it_is_killed(broker: Server, queues: Queues, dead: str, database_url: str) -> Drained:
    """Drain everything; the broker is killed when `KILL_AT` messages are stored, and started again after the error."""
    source = source_of(queues, dead)
    killer = threading.Thread(target=_kill_when_stored, args=(broker,))
    killer.start()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(draining, "BATCH_MESSAGES", 50)
        first = _drain(source, queues, dead, database_url)
    killer.join()
    assert first.error is not None
    assert stored().total() < COUNT
    broker.start()
    total = first
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        more = _drain(source, queues, dead, database_url)
        total += more
        if more.is_empty and more.error is None:
            break
    return total


def return_while_it_is_killed(broker: Server, queues: Queues, incoming: Sequence[Incoming]) -> int:
    """Return the messages in batches until each is confirmed; the broker is killed in the middle of it.

    Return how many were not confirmed at first.
    """
    publisher = adapter(queues.kind).open_publisher(queues.login())
    waiting = [outgoing(one, number) for number, one in enumerate(incoming, start=1)]
    unconfirmed = batches = 0
    deadline = time.monotonic() + 2 * SECONDS
    while waiting and time.monotonic() < deadline:
        batch, waiting = waiting[:100], waiting[100:]
        batches += 1
        if batches >= 4 and not unconfirmed:  # once more where the kill came too late
            killer = threading.Timer(0.005, broker.kill)
            killer.start()
            results = publisher.publish(batch, 10.0)
            killer.join()
            broker.start()
        else:
            results = publisher.publish(batch, 30.0)
        again = [one for one, failure in zip(batch, results, strict=True) if failure is not None]
        unconfirmed += len(again)
        waiting += again
    publisher.close()
    assert not waiting
    return unconfirmed


def _drain(source: Source, queues: Queues, dead: str, database_url: str) -> Drained:
    total = Drained()
    try:
        shards = adapter(queues.kind).shards(queues.login(dead, readers=1))
    except Exception as error:
        return Drained(error=str(error))
    for shard in shards:
        total += draining.drain_shard(database_url, source.id, shard, idle_seconds=0.5)
    return total


def _kill_when_stored(broker: Server) -> None:
    deadline = time.monotonic() + SECONDS
    while Body.objects.count() < KILL_AT and time.monotonic() < deadline:
        time.sleep(0.002)
    broker.kill()
    connection.close()
