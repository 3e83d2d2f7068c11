"""RabbitMQ queues for the benchmarks: filled with dead letters, emptied by the fastest client there is, shovelled."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika

from benchmarks.live import wait_until
from tests.brokers.rabbitmq import RabbitMq, running_rabbitmq
from workers.brokers.contract import Login, Outgoing
from workers.brokers.rabbitmq.publisher import RabbitMqPublisher

PREFETCH = 1000
QUEUE_TYPES = ("classic", "quorum")
_BATCH = 2_000
_PATIENCE_SECONDS = 600.0


class Queues:
    """A broker, and queues of one type in it."""

    def __init__(self, broker: RabbitMq) -> None:
        self.broker = broker
        self.url = f"amqp://127.0.0.1:{broker.port}"
        self.login = Login(self.url, "guest", "guest", {"queues": []})

    def declare(self, name: str, kind: str, **arguments: object) -> None:
        """Make the queue anew, empty."""
        connection = pika.BlockingConnection(pika.URLParameters(self.broker.url))
        channel = connection.channel()
        channel.queue_delete(name)
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind, **arguments})
        connection.close()

    def depth(self, name: str) -> int:
        """Return how many messages wait."""
        connection = pika.BlockingConnection(pika.URLParameters(self.broker.url))
        try:
            return int(connection.channel().queue_declare(name, passive=True).method.message_count)
        finally:
            connection.close()

    def fill(self, name: str, count: int, body: bytes) -> None:
        """Publish so many persistent messages, each with an id and a header of its own, and wait for the confirms."""
        publisher = RabbitMqPublisher(self.login)
        for start in range(0, count, _BATCH):
            batch = [
                Outgoing(body, "text/plain", {"tenant": "eu", "n": str(n)}, {}, name, f"{name}-{n}")
                for n in range(start, min(start + _BATCH, count))
            ]
            assert publisher.publish(batch, 120.0) == [None] * len(batch)
        publisher.close()

    def fill_with_dead_letters(self, name: str, kind: str, count: int, body: bytes) -> None:
        """Have the broker dead-letter so many messages into the queue: they expire at once in another one."""
        way = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name, "x-message-ttl": 1}
        self.declare(name, kind)
        self.declare("orders", "classic", **way)
        self.fill("orders", count, body)
        self.wait_for(name, count)

    def wait_for(self, name: str, count: int) -> None:
        """Return when so many messages wait in the queue."""
        wait_until(lambda: self.depth(name) >= count, seconds=_PATIENCE_SECONDS, what=f"{count:,} messages in {name}")

    def shovel(self, source: str, target: str, count: int) -> None:
        """Move everything with the broker's own shovel, each message confirmed; return when it is there."""
        wanted = {
            "src-protocol": "amqp091",
            "src-uri": "amqp://",
            "src-queue": source,
            "src-prefetch-count": PREFETCH,
            "src-delete-after": count,
            "dest-protocol": "amqp091",
            "dest-uri": "amqp://",
            "dest-queue": target,
            "ack-mode": "on-confirm",
        }
        self.broker.control("set_parameter", "shovel", "move", json.dumps(wanted))
        self.wait_for(target, count)

    def acknowledge_only(self, name: str, count: int, how: str) -> None:
        """Have another process consume so many messages, with pika or by bytes, and do nothing but acknowledge them."""
        command = [sys.executable, "-m", "benchmarks.acknowledging_consumer", self.url, name, str(count), how]
        subprocess.run(command, check=True)


@contextmanager
def running_queues(home: Path) -> Iterator[Queues]:
    """Yield a broker of its own, with the shovel."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "plugins").write_text("[rabbitmq_shovel].\n")
    with running_rabbitmq(home) as broker:
        time.sleep(1.0)  # the shovel's plugin starts behind the listener
        yield Queues(broker)
