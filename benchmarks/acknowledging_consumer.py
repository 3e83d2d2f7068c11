"""B3's peers: consume, look at nothing, and acknowledge a thousand at once.

`python -m benchmarks.acknowledging_consumer URL QUEUE COUNT pika|bytes`: with pika, as a user writes it, or by reading
whole buffers and decoding nothing, which is the floor for Python.
"""

import struct
import sys
from typing import Any

import pika
from pika import spec

from workers.brokers.contract import Login
from workers.brokers.rabbitmq.connection import CHANNEL, AmqpConnection

PREFETCH = 6000
EVERY = 1000


def with_pika(url: str, queue: str, count: int) -> None:
    """Consume so many messages with pika's blocking connection and a callback."""
    parameters = pika.URLParameters(url)
    parameters.credentials = pika.PlainCredentials("guest", "guest")
    channel = pika.BlockingConnection(parameters).channel()
    seen = 0

    def received(channel: Any, method: Any, _properties: Any, _body: bytes) -> None:
        nonlocal seen
        seen += 1
        if seen % EVERY == 0 or seen == count:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if seen == count:
            channel.stop_consuming()

    channel.basic_qos(prefetch_count=PREFETCH)
    channel.basic_consume(queue, received)
    channel.start_consuming()
    channel.connection.close()


def by_bytes(url: str, queue: str, count: int) -> None:
    """Consume so many messages as they come off the socket."""
    connection = AmqpConnection(Login(url, "guest", "guest"))
    connection.call(spec.Basic.Qos(prefetch_count=PREFETCH), spec.Basic.QosOk)
    connection.call(spec.Basic.Consume(queue=queue, consumer_tag="bench"), spec.Basic.ConsumeOk)
    seen = acknowledged = 0
    while seen < count:
        connection.fill(30.0)
        seen += len(connection.arrived)
        connection.arrived.clear()
        if seen - acknowledged >= EVERY or seen >= count:
            # Tags count from 1: this acknowledges all that came so far.
            connection.send(struct.pack(">BHIHHQBB", 1, CHANNEL, 13, 60, 80, seen, 1, 0xCE))
            acknowledged = seen
    connection.call(spec.Basic.Qos(prefetch_count=PREFETCH), spec.Basic.QosOk)
    connection.close()


if __name__ == "__main__":
    url, queue, count, how = sys.argv[1:]
    {"pika": with_pika, "bytes": by_bytes}[how](url, queue, int(count))
