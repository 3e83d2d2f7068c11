"""What every broker is put through: killed while its dead letters are drained, and while they are returned."""

import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from django.db import connection

from poisonadmin.sources.domain.draining import Drained
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.message import Body
from tests.brokers.received import Sent
from tests.brokers.rigs import Rig
from tests.brokers.server import Server
from workers.brokers import drain as draining
from workers.brokers.contract import Outgoing, Taken
from workers.brokers.registry import adapter

SECONDS = 60.0


def a_thousand() -> list[Sent]:
    """Return messages that can be told apart."""
    return [Sent(b"order %d" % n, headers={"tenant": "eu", "n": str(n)}) for n in range(1000)]


def a_source(rig: Rig, dead: str) -> Source:
    """Return the source that drains the dead letters, configured as an administrator would."""
    login = rig.login(dead)
    named = {"topics": [dead], "group": "poisonadmin-test"} if rig.kind == "kafka" else {"queues": [dead]}
    secrets = {"username": login.username, "password": login.password} if login.username else {}
    return Source.objects.create(name=rig.kind, kind=rig.kind, config={"url": login.url, **named}, secrets=secrets)


def drain_while_it_is_killed(server: Server, rig: Rig, dead: str, database_url: str, *, kill_at: int) -> Drained:
    """Drain everything; the broker is killed when so many messages are stored, and started again after the trouble."""
    source = a_source(rig, dead)
    killer = threading.Thread(target=_kill_when_stored, args=(server, kill_at))
    killer.start()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(draining, "BATCH_MESSAGES", 50)
        first = _drain(source, rig, dead, database_url)
    killer.join()
    assert first.error is not None
    assert stored().total() < 1000
    server.start()
    total = first
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        more = _drain(source, rig, dead, database_url)
        total += more
        if more.is_empty and more.error is None:
            break
    return total


def stored() -> Counter[bytes]:
    """Return the payloads that are stored, with how often each is."""
    return Counter(bytes(payload) for payload in Body.objects.values_list("payload", flat=True))


def return_while_it_is_killed(server: Server, rig: Rig, taken: Sequence[Taken]) -> int:
    """Return the messages in batches until each is confirmed; the broker is killed in the middle of it.

    Return how many were not confirmed at first.
    """
    publisher = adapter(rig.kind).open_publisher(rig.login())
    waiting = [outgoing(one, number) for number, one in enumerate(taken, start=1)]
    unconfirmed = batches = 0
    deadline = time.monotonic() + 2 * SECONDS
    while waiting and time.monotonic() < deadline:
        batch, waiting = waiting[:100], waiting[100:]
        batches += 1
        if batches == 4:
            killer = threading.Timer(0.005, server.kill)
            killer.start()
            results = publisher.publish(batch, 10.0)
            killer.join()
            server.start()
        else:
            results = publisher.publish(batch, 30.0)
        again = [one for one, failure in zip(batch, results, strict=True) if failure is not None]
        unconfirmed += len(again)
        waiting += again
    publisher.close()
    assert not waiting
    return unconfirmed


def read_all(rig: Rig, dead: str, count: int) -> list[Taken]:
    """Read so many messages, and acknowledge them."""
    found: list[Taken] = []
    used = adapter(rig.kind)
    login = rig.login(dead)
    for shard in used.shards(login):
        reader = used.open_reader(login, shard)
        while len(found) < count and (some := reader.read(500, 5.0)):
            reader.acknowledge(some)
            found += some
        reader.close()
    return found


def outgoing(taken: Taken, number: int = 1, **changes: Any) -> Outgoing:
    """Return a message on its way back to where it came from."""
    fields: dict[str, Any] = {
        "payload": taken.payload,
        "content_type": taken.content_type,
        "headers": taken.headers,
        "own_headers": {"PoisonAdmin-Message-Id": str(number), "PoisonAdmin-Attempt": "1"},
        "route": taken.transport["queue"],
        "message_id": taken.message_id or f"made-{number}",
        "transport": taken.transport,
    }
    return Outgoing(**fields | changes)


def _drain(source: Source, rig: Rig, dead: str, database_url: str) -> Drained:
    total = Drained()
    try:
        shards = adapter(rig.kind).shards(rig.login(dead, readers=1))
    except Exception as error:
        return Drained(error=str(error))
    for shard in shards:
        total += draining.drain_shard(database_url, source.id, shard, write_keys=lambda *_: None, idle_seconds=0.5)
    return total


def _kill_when_stored(server: Server, count: int) -> None:
    deadline = time.monotonic() + SECONDS
    while Body.objects.count() < count and time.monotonic() < deadline:
        time.sleep(0.002)
    server.kill()
    connection.close()
