"""Topics of Kafka with producers and consumers: a listener that fails, and dead-letters as Spring does."""

import itertools
import re
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.brokers.kafka import PASSWORD, USER, Kafka
from tests.brokers.messages import Received, Sent
from workers.brokers.contract import Login
from workers.brokers.sources import login_of

_numbers = itertools.count(1)
_STACK = b"com.example.orders.NoSuchCustomer: 42\n\tat com.example.orders.Billing.bill(Billing.java:7)\n"


class KafkaTopics:
    """Topics of three partitions, and a dead-letter topic for each."""

    kind = "kafka"
    has_broker_ids = True

    def __init__(self, server: Kafka) -> None:
        self.server = server
        self._to_server = {"bootstrap.servers": server.bootstrap, "log_level": 0}

    def login(self, *queues: str, **options: Any) -> Login:
        """Return how the adapter reaches the broker."""
        config = {"url": self.server.url, "topics": list(queues), "group": "poisonadmin-test", **options}
        return login_of(self.kind, config, {"username": USER, "password": PASSWORD})

    def create(self, topic: str, partitions: int = 3) -> None:
        """Make a topic."""
        admin = AdminClient(self._to_server)  # what it promises ends with it
        for made in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            made.result()
        # The broker knows of it a moment later.
        deadline = time.monotonic() + 20
        while topic not in admin.list_topics(timeout=20).topics and time.monotonic() < deadline:
            time.sleep(0.02)

    def pair(self) -> tuple[str, str]:
        """Return a topic and its dead-letter topic, both new."""
        name = f"orders-{next(_numbers)}-{time.time_ns()}"
        dead = f"{name}-dlt"
        self.create(name)
        self.create(dead, 1)
        return name, dead

    def publish(self, queue: str, messages: Sequence[Sent]) -> None:
        """Send the messages to the topic as a producer does; `key` and `partition` are properties."""
        producer = Producer(self._to_server | {"message.max.bytes": 64 * 1024 * 1024})
        for one in messages:
            identity = [("id", one.message_id.encode())] if one.message_id else []
            headers = [*identity, *((name, _bytes(value)) for name, value in one.headers.items())]
            producer.produce(queue, one.payload, headers=headers, **dict(one.properties))
        producer.flush()

    def fail(self, queue: str, dead: str, count: int) -> None:
        """Consume as a listener that throws on every record, which its error handler then dead-letters."""
        producer = Producer(self._to_server | {"message.max.bytes": 64 * 1024 * 1024})
        for record in self._consume(queue, count, f"failing-{time.time_ns()}"):
            producer.produce(
                dead, record.value(), record.key(), headers=[*(record.headers() or []), *spring_headers(record)]
            )
        producer.flush()

    def dead_letter(self, messages: Sequence[Sent]) -> tuple[str, str]:
        """Have a failing consumer dead-letter the messages."""
        name, dead = self.pair()
        if messages:
            self.publish(name, messages)
            self.fail(name, dead, len(messages))
        return name, dead

    def receive(self, queue: str, count: int, seconds: float = 20.0) -> list[Received]:
        """Consume what came after the first delivery, up to `count` messages."""
        records = self._consume(queue, None, "healthy", seconds=seconds)
        back = [one for one in records if any(name == "PoisonAdmin-Message-Id" for name, _ in one.headers() or [])]
        return [_received(one) for one in back[:count]]

    def depth(self, queue: str) -> int:
        """Return how many records the topic holds."""
        consumer = Consumer(self._to_server | {"group.id": "depth"})
        try:
            return sum(high - low for low, high in self._marks(consumer, queue).values())
        finally:
            consumer.close()

    def delete(self, queue: str) -> None:
        """Remove the topic."""
        admin = AdminClient(self._to_server)
        for done in admin.delete_topics([queue]).values():
            done.result()

    def _marks(self, consumer: Consumer, queue: str) -> dict[int, tuple[int, int]]:
        partitions = consumer.list_topics(timeout=20).topics[queue].partitions
        return {one: consumer.get_watermark_offsets(TopicPartition(queue, one), timeout=20) for one in partitions}

    def _consume(self, queue: str, count: int | None, group: str, seconds: float = 30.0) -> list[Message]:
        """Return the first `count` records, or all that there are now."""
        consumer = Consumer(self._to_server | {"group.id": group, "enable.auto.commit": False})
        found: list[Message] = []
        try:
            marks = self._marks(consumer, queue)
            wanted = sum(high - low for low, high in marks.values()) if count is None else count
            consumer.assign([TopicPartition(queue, one, low) for one, (low, _) in marks.items()])
            deadline = time.monotonic() + seconds
            while len(found) < wanted and time.monotonic() < deadline:
                found += [one for one in consumer.consume(min(500, wanted - len(found)), 0.2) if one.error() is None]
        finally:
            consumer.close()
        return found


def request_of(key: int) -> re.Pattern[bytes]:
    """Return how a request of PoisonAdmin's to Kafka begins: its key, a version, a number, and who asks."""
    return re.compile(re.escape(key.to_bytes(2)) + rb"\x00[\x00-\x14]....\x00\x0bpoisonadmin", re.DOTALL)


def spring_headers(record: Message) -> list[tuple[str, bytes]]:
    """Return what Spring's DeadLetterPublishingRecoverer adds to a record whose listener threw."""
    return [
        ("kafka_dlt-original-topic", str(record.topic()).encode()),
        ("kafka_dlt-original-partition", int(record.partition() or 0).to_bytes(4)),
        ("kafka_dlt-original-offset", int(record.offset() or 0).to_bytes(8)),
        ("kafka_dlt-original-timestamp", record.timestamp()[1].to_bytes(8)),
        ("kafka_dlt-original-timestamp-type", b"CreateTime"),
        ("kafka_dlt-original-consumer-group", b"billing"),
        ("kafka_dlt-exception-fqcn", b"org.springframework.kafka.listener.ListenerExecutionFailedException"),
        ("kafka_dlt-exception-cause-fqcn", b"com.example.orders.NoSuchCustomer"),
        ("kafka_dlt-exception-message", b"Listener failed; nested exception is com.example.orders.NoSuchCustomer: 42"),
        ("kafka_dlt-exception-stacktrace", _STACK),
    ]


def _bytes(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else str(value).encode()


def _received(record: Message) -> Received:
    headers = {name: (value or b"").decode("utf-8", "replace") for name, value in record.headers() or []}
    message_id = headers.pop("id", None)
    told = {"key": record.key(), "partition": record.partition(), "topic": record.topic()}
    return Received(record.value() or b"", message_id, headers, told)
