"""Queues of each kind of broker with consumers, for the tests that run with every broker.

A failing consumer dead-letters messages, a healthy one receives what comes back; neither uses the adapter. A broker
joins these tests by an entry in `QUEUE_TYPES`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from tests.brokers.artemis_queues import ArtemisQueues
from tests.brokers.kafka_topics import KafkaTopics
from tests.brokers.messages import Received, Sent
from tests.brokers.rabbitmq_queues import ClassicQueues, QuorumQueues
from tests.brokers.server import Server
from tests.patience import on_this_machine
from workers.brokers.contract import Login


class Queues(Protocol):
    """Queues of one broker."""

    kind: str
    has_broker_ids: bool
    server: Server

    def login(self, *queues: str, **options: Any) -> Login:
        """Return how the adapter reaches the broker; it drains `queues`."""

    def dead_letter(self, messages: Sequence[Sent]) -> tuple[str, str]:
        """Have a failing consumer dead-letter the messages; return the original queue and the dead-letter queue."""

    def receive(self, queue: str, count: int, seconds: float = 20.0) -> list[Received]:
        """Consume and acknowledge up to `count` messages as a healthy consumer does."""

    def depth(self, queue: str) -> int:
        """Return how many messages wait in the queue."""

    def delete(self, queue: str) -> None:
        """Remove the queue."""


class QueueType(NamedTuple):
    """The kind of broker that has such queues, and how they are made in a running one."""

    kind: str
    queues_of: Callable[[Any], Queues]


QUEUE_TYPES: Mapping[str, QueueType] = {
    "rabbitmq classic": QueueType("rabbitmq", ClassicQueues),
    "rabbitmq quorum": QueueType("rabbitmq", QuorumQueues),
    "artemis": QueueType("artemis", ArtemisQueues),
    "kafka": QueueType("kafka", KafkaTopics),
}


def until_back(queues: Queues, queue: str, count: int) -> int:
    """Return a queue's depth once it is `count`, or after a while: a quorum queue returns what was shown by and by."""
    deadline = time.monotonic() + on_this_machine(10)
    while (depth := queues.depth(queue)) < count and time.monotonic() < deadline:
        time.sleep(0.05)
    return depth
