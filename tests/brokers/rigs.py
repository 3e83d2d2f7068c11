"""What the adapter suite needs of each kind of broker, done with a client that is not the adapter's own.

A failing consumer dead-letters messages, a healthy one receives what comes back. A kind joins the suite by a rig in
`RIGS`; tests run with the rigs of the chosen brokers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tests.brokers.artemis_rig import ArtemisQueues
from tests.brokers.kafka_rig import KafkaTopics
from tests.brokers.rabbitmq_rig import ClassicQueues, QuorumQueues
from tests.brokers.received import Received, Sent
from workers.brokers.contract import Login


class Rig(Protocol):
    """One broker with consumers."""

    kind: str
    has_broker_ids: bool

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


# Each with the kind of broker it needs.
RIGS: Mapping[str, tuple[str, Callable[[Any], Rig]]] = {
    "rabbitmq classic": ("rabbitmq", ClassicQueues),
    "rabbitmq quorum": ("rabbitmq", QuorumQueues),
    "artemis": ("artemis", ArtemisQueues),
    "kafka": ("kafka", KafkaTopics),
}
