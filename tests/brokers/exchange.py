"""Reading, returning and storing through the product's own adapters."""

import json
from collections import Counter
from typing import Any

from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.message import Body
from tests.brokers.queues import Queues
from workers.brokers.contract import Incoming, Outgoing, adapter

SECONDS = 30.0


def read_all(queues: Queues, dead: str, count: int, **options: Any) -> list[Incoming]:
    """Read so many messages, and acknowledge them."""
    found: list[Incoming] = []
    used = adapter(queues.kind)
    login = queues.login(dead, **options)
    for shard in used.shards(login):
        reader = used.open_reader(login, shard)
        while len(found) < count and (some := reader.read(500, SECONDS)):
            reader.acknowledge(some)
            found += some
        reader.close()
    return found


def outgoing(message: Incoming, number: int = 1, **changes: Any) -> Outgoing:
    """Return a message on its way back to where it came from, as the database gives it back."""
    fields: dict[str, Any] = {
        "payload": message.payload,
        "content_type": message.content_type,
        "headers": message.headers,
        "own_headers": {"PoisonAdmin-Message-Id": str(number), "PoisonAdmin-Attempt": "1"},
        "route": message.transport["queue"],
        "message_id": message.message_id or f"made-{number}",
        "transport": json.loads(json.dumps(message.transport)),
    }
    return Outgoing(**fields | changes)


def publish(queues: Queues, *batch: Outgoing) -> list[str | None]:
    """Publish, and return the class of each failure."""
    publisher = adapter(queues.kind).open_publisher(queues.login())
    try:
        results = publisher.publish(batch, SECONDS)
    finally:
        publisher.close()
    return [None if one is None else one.exception_class for one in results]


def source_of(queues: Queues, dead: str, **columns: Any) -> Source:
    """Return a stored source that drains the dead letters, configured as an administrator would."""
    login = queues.login(dead)
    named = {"topics": [dead], "group": login.options["group"]} if queues.kind == "kafka" else {"queues": [dead]}
    secrets = {"username": login.username, "password": login.password}
    fields = {"name": queues.kind, "kind": queues.kind, "config": {"url": login.url, **named}, "secrets": secrets}
    return Source.objects.create(**fields | columns)


def stored() -> Counter[bytes]:
    """Return the payloads that are stored, with how often each is."""
    return Counter(bytes(payload) for payload in Body.objects.values_list("payload", flat=True))
