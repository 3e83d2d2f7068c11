"""Queues of RabbitMQ with producers and consumers, over pika's own connections."""

import itertools
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.brokers.messages import Received, Sent
from tests.brokers.rabbitmq import RabbitMq
from workers.brokers.contract import Login
from workers.brokers.sources import login_of

_numbers = itertools.count(1)
# Pika hands these out beside the headers.
PROPERTIES = (
    "content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to", "expiration",
    "timestamp", "type", "app_id",
)  # fmt: skip


class ClassicQueues:
    """Queues of RabbitMQ's first kind. `settles_seconds`: how old a queue must be to outlive a kill of the broker."""

    kind = "rabbitmq"
    has_broker_ids = False
    arguments: ClassVar[dict[str, Any]] = {}
    settles_seconds: ClassVar[float] = 3.0  # RabbitMQ 3.10 writes the declaration of a queue to disk after up to 2 s

    def __init__(self, server: RabbitMq) -> None:
        self.server = server

    def login(self, *queues: str, **options: Any) -> Login:
        """Return how the adapter reaches the broker."""
        config = {"url": f"amqp://127.0.0.1:{self.server.port}", "queues": list(queues), **options}
        return login_of(self.kind, config, {"username": "guest", "password": "guest"})

    def channel(self) -> BlockingChannel:
        """Return a channel of a new connection."""
        return pika.BlockingConnection(pika.URLParameters(f"{self.server.url}?heartbeat=0")).channel()

    def pair(self, **arguments: Any) -> tuple[str, str]:
        """Return a queue and its dead-letter queue, both new."""
        name = f"orders-{next(_numbers)}-{time.time_ns()}"
        dead = f"{name}.dlq"
        channel = self.channel()
        channel.queue_declare(dead, durable=True, arguments=self.arguments)
        way = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
        channel.queue_declare(name, durable=True, arguments=self.arguments | way | arguments)
        channel.connection.close()
        return name, dead

    def publish(self, queue: str, messages: Sequence[Sent]) -> None:
        """Send the messages to the queue as a producer does."""
        channel = self.channel()
        channel.confirm_delivery()
        for one in messages:
            properties = pika.BasicProperties(
                message_id=one.message_id,
                headers=dict(one.headers) or None,
                **({"delivery_mode": 2} | dict(one.properties)),
            )
            channel.basic_publish("", queue, one.payload, properties)
        channel.connection.close()

    def reject(self, queue: str, count: int) -> None:
        """Consume as a failing consumer does: every message is rejected."""
        channel = self.channel()
        channel.basic_qos(prefetch_count=500)
        for left, (method, _, _) in zip(range(count, 0, -1), channel.consume(queue), strict=False):
            channel.basic_nack(method.delivery_tag, requeue=False)
            if left == 1:
                break
        channel.connection.close()

    def dead_letter(self, messages: Sequence[Sent]) -> tuple[str, str]:
        """Have a failing consumer dead-letter the messages."""
        name, dead = self.pair()
        self.publish(name, messages)
        self.reject(name, len(messages))
        deadline = time.monotonic() + 30
        while self.depth(dead) < len(messages) and time.monotonic() < deadline:
            time.sleep(0.05)
        return name, dead

    def receive(self, queue: str, count: int, seconds: float = 20.0) -> list[Received]:
        """Consume and acknowledge up to `count` messages."""
        channel = self.channel()
        found: list[Received] = []
        for method, properties, body in channel.consume(queue, inactivity_timeout=seconds):
            if method is None:
                break
            told = {name: value for name in PROPERTIES if (value := getattr(properties, name)) is not None}
            found.append(Received(body, properties.message_id, properties.headers or {}, told))
            channel.basic_ack(method.delivery_tag)
            if len(found) >= count:
                break
        channel.connection.close()
        return found

    def depth(self, queue: str) -> int:
        """Return how many messages are ready."""
        channel = self.channel()
        try:
            return int(channel.queue_declare(queue, passive=True).method.message_count)
        finally:
            channel.connection.close()

    def delete(self, queue: str) -> None:
        """Remove the queue."""
        channel = self.channel()
        channel.queue_delete(queue)
        channel.connection.close()


class QuorumQueues(ClassicQueues):
    """Queues that are replicated, and count deliveries."""

    arguments: ClassVar[dict[str, Any]] = {"x-queue-type": "quorum"}
    settles_seconds: ClassVar[float] = 6.0  # RabbitMQ 3.10
