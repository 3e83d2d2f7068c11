"""Queues of Artemis with producers and consumers: stomp.py's, and a JMS consumer that fails."""

import itertools
import json
import subprocess
import time
from collections.abc import Sequence
from typing import Any

import stomp

from tests.brokers.artemis import PASSWORD, USER, Artemis
from tests.brokers.ensure_artemis import jms_programs
from tests.brokers.messages import Received, Sent
from workers.brokers.artemis.connection import StompConnection
from workers.brokers.artemis.management import Management, queue_named
from workers.brokers.contract import Login
from workers.brokers.sources import login_of

_numbers = itertools.count(1)
# STOMP's own headers, and those of frames that Artemis makes properties of.
FRAME = {
    "subscription", "message-id", "ack", "destination", "destination-type", "content-length", "redelivered", "receipt",
    "expires", "timestamp", "persistent", "priority", "content-type", "correlation-id", "reply-to", "type",
    "_AMQ_GROUP_ID",
}  # fmt: skip


class ArtemisQueues:
    """Anycast queues with a dead-letter address."""

    kind = "artemis"
    has_broker_ids = True

    def __init__(self, server: Artemis) -> None:
        self.server = server

    def login(self, *queues: str, **options: Any) -> Login:
        """Return how the adapter reaches the broker."""
        config = {"url": f"stomp://127.0.0.1:{self.server.port}", "queues": list(queues), **options}
        return login_of(self.kind, config, {"username": USER, "password": PASSWORD})

    def manage(self, resource: str, operation: str, *parameters: Any) -> Any:
        """Return what an operation of the broker's management returns."""
        connection = StompConnection(self.login())
        try:
            connection.timeout_seconds = 120.0  # retryMessages takes its time
            return Management(connection).call(resource, operation, *parameters)
        finally:
            connection.close()

    def create(self, queue: str, *, address: str | None = None, routing: str = "ANYCAST") -> None:
        """Make a durable queue."""
        settings = {"name": queue, "address": address or queue, "routing-type": routing, "durable": True}
        self.manage("broker", "createQueue", json.dumps(settings))

    def settings(self, match: str, **settings: Any) -> None:
        """Put address settings in force, by the names that the management knows: `redeliveryDelay` and others."""
        self.manage("broker", "addAddressSettings", match, json.dumps(settings))

    def pair(self, **settings: Any) -> tuple[str, str]:
        """Return a queue and its dead-letter queue, both new; a message is given out once, unless settings differ."""
        name = f"orders-{next(_numbers)}-{time.time_ns()}"
        dead = f"{name}.dlq"
        self.settings(
            name, **{"maxDeliveryAttempts": 1, "deadLetterAddress": dead, "autoCreateQueues": False} | settings
        )
        self.create(dead)
        self.create(name)
        return name, dead

    def publish(self, queue: str, messages: Sequence[Sent], *, routing: str = "ANYCAST") -> None:
        """Send the messages to the queue as a producer does: bytes, unless its property `text` says otherwise."""
        connection = self._connection()
        receipts = _Receipts()
        connection.set_listener("receipts", receipts)
        for number, one in enumerate(messages):
            properties = dict(one.properties)
            length = {} if properties.pop("text", False) else {"content-length": str(len(one.payload))}
            headers = {"destination-type": routing, "persistent": "true", "receipt": f"p{number}"}
            identity = {"number": one.message_id} if one.message_id else {}
            connection.send(queue, one.payload, headers=headers | length | identity | dict(one.headers) | properties)
        _until(lambda: receipts.count >= len(messages))
        _goodbye(connection)

    def fail(
        self, queue: str, deliveries: int, *, batch: int = 1, quiet_seconds: float = 20.0
    ) -> list[tuple[int, int, str]]:
        """Consume as a failing consumer does: transactions of up to `batch` messages are rolled back.

        Return time, count and number of each delivery.
        """
        limits = (deliveries, batch, int(quiet_seconds * 1000))
        printed = self._java("FailingConsumer", queue, *map(str, limits))
        lines = [line.split(" ") for line in printed.splitlines()]
        return [(int(at), int(count), number) for at, count, number in lines]

    def send_jms_kinds(self, queue: str) -> None:
        """Send a message of each kind that JMS has: a map, a stream, an object, one without a body, a text, bytes."""
        self._java("JmsKinds", queue)

    def dead_letter(self, messages: Sequence[Sent]) -> tuple[str, str]:
        """Have a failing consumer dead-letter the messages."""
        name, dead = self.pair()
        if messages:
            self.publish(name, messages)
            self.fail(name, len(messages), batch=100)
            _until(lambda: self.depth(dead) >= len(messages))
        return name, dead

    def receive(self, queue: str, count: int, seconds: float = 20.0) -> list[Received]:
        """Consume and acknowledge up to `count` messages."""
        connection = self._connection()
        inbox = _Inbox()
        connection.set_listener("inbox", inbox)
        wish = {"subscription-type": "ANYCAST", "consumer-window-size": "-1"}
        connection.subscribe(queue, "inbox", ack="client-individual", headers=wish)
        _until(lambda: len(inbox.frames) >= count, seconds)
        for frame in inbox.frames[:count]:
            connection.ack(frame.headers["ack"])
        _goodbye(connection)
        return [_received(frame) for frame in inbox.frames[:count]]

    def depth(self, queue: str) -> int:
        """Return how many messages the queue holds."""
        connection = StompConnection(self.login())
        try:
            found = queue_named(Management(connection), queue)
            return 0 if found is None else found.depth
        finally:
            connection.close()

    def delete(self, queue: str) -> None:
        """Remove the queue."""
        self.manage("broker", "destroyQueue", queue, True)

    def _java(self, program: str, *arguments: str) -> str:
        """Run one of the JMS programs beside this file; return what it prints."""
        command = [
            *("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jms_programs()),
            *(program, f"tcp://127.0.0.1:{self.server.port}", USER, PASSWORD, *arguments),
        ]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def _connection(self) -> Any:
        connection = stomp.Connection12([("127.0.0.1", self.server.port)], auto_decode=False, auto_content_length=False)
        connection.connect(USER, PASSWORD, wait=True)
        return connection


class _Inbox(stomp.ConnectionListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.frames: list[Any] = []

    def on_message(self, frame: Any) -> None:
        self.frames.append(frame)


class _Receipts(stomp.ConnectionListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.count = 0

    def on_receipt(self, _frame: Any) -> None:
        self.count += 1


def _received(frame: Any) -> Received:
    headers = {name: value for name, value in frame.headers.items() if name not in FRAME and name != "number"}
    told = {name: value for name, value in frame.headers.items() if name in FRAME}
    return Received(bytes(frame.body or b""), frame.headers.get("number"), headers, told)


def _goodbye(connection: Any) -> None:
    done = _Receipts()
    connection.set_listener("goodbye", done)
    connection.disconnect(receipt="goodbye")
    _until(lambda: done.count > 0 or not connection.is_connected())


def _until(is_so: Any, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.01)
