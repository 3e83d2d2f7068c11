"""Dead letters that end both of Python's clients for RabbitMQ are drained like any other (decision 31)."""

import struct
import time

import pika
import pytest

from tests.brokers.exchange import source_of
from tests.brokers.rabbitmq_queues import ClassicQueues
from workers.brokers.contract import Shard
from workers.brokers.drain import drain_shard

DEPTH = 3000
HEADERS, MESSAGE_ID = 1 << 13, 1 << 7

RUNS_WITH = ("rabbitmq classic",)


class RawProperties(pika.BasicProperties):
    """Properties that are written as they are given: which there are, and their bytes."""

    def __init__(self, flags: int, raw: bytes) -> None:
        super().__init__()
        self._written = [struct.pack(">H", flags), raw]

    def encode(self) -> list[bytes]:
        """Return the pieces."""
        return self._written


def nested_table() -> bytes:
    """Return a header table that holds a table, that holds a table …"""
    raw = b""
    for _ in range(DEPTH):
        raw = b"\x01aF" + struct.pack(">I", len(raw)) + raw
    return struct.pack(">I", len(raw)) + raw


@pytest.mark.django_db(transaction=True)
def test_no_message_keeps_those_behind_it_from_being_drained(queues: ClassicQueues, test_database_url: str) -> None:
    queue, dead = queues.pair(**{"x-message-ttl": 1})
    channel = queues.channel()
    channel.basic_publish("", queue, b"nested", RawProperties(HEADERS, nested_table()))
    channel.basic_publish("", queue, b"no text", RawProperties(MESSAGE_ID, b"\x04\xff\xfeab"))
    channel.basic_publish("", queue, b"plain", pika.BasicProperties(message_id="7"))
    while channel.queue_declare(dead, passive=True).method.message_count < 3:
        time.sleep(0.05)

    source = source_of(queues, dead)
    drained = drain_shard(test_database_url, source.id, Shard(dead), idle_seconds=0.5)

    assert (drained.error, drained.staged + drained.rejected) == (None, 3)
    assert drained.staged >= 2
    assert channel.queue_declare(dead, passive=True).method.message_count == 0
    channel.connection.close()
