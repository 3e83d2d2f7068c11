"""Two guarded consumers on one RabbitMQ queue: the message that kills them takes none of its neighbours along."""

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.brokers.rabbitmq import running_rabbitmq
from tests.poisonguard.conftest import Service

ROOT = Path(__file__).parents[2]
MESSAGES = 1000
POISON = 300
# A message that was in the hands of so many consumers that died is given up by the broker.
DELIVERY_LIMIT = 4
SECONDS = 120


def test_neighbours_of_what_kills_two_prefetching_consumers_are_all_handled(service: Service, tmp_path: Path) -> None:
    with running_rabbitmq(tmp_path) as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("orders.dead", durable=True)
        arguments = {
            "x-queue-type": "quorum",
            "x-delivery-limit": DELIVERY_LIMIT,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "orders.dead",
        }
        channel.queue_declare("orders", durable=True, arguments=arguments)
        for number in range(MESSAGES):
            body = b"poison" if number == POISON else str(number).encode()
            channel.basic_publish("", "orders", body, pika.BasicProperties(message_id=f"order-{number}"))
        deaths = consume(service, broker.url, tmp_path)
        assert waiting(channel, "orders") == waiting(channel, "orders.dead") == 0
    handled = Counter((tmp_path / "notes").read_text().split())
    assert handled.keys() == {str(number) for number in range(MESSAGES)} - {str(POISON)}
    assert deaths <= DELIVERY_LIMIT
    listed = {bookmark: entry["is_listed"] for bookmark, entry in service.entries("orders").items()}
    assert listed == {f"order-{POISON}": True}


def consume(service: Service, url: str, directory: Path) -> int:
    """Run two consumers, each started again when it dies, until both find the queue quiet; return their deaths."""
    own = {"POISONADMIN_URL": service.web.url, "POISONADMIN_TOKEN": service.token, "PYTHONPATH": str(ROOT)}
    program = [sys.executable, str(Path(__file__).with_name("prefetching.py")), "orders", str(directory / "notes")]

    def start(place: int) -> "subprocess.Popen[bytes]":
        journal = {"JOURNAL_DIR": str(directory / f"journal-{place}"), "AMQP_URL": url}
        return subprocess.Popen(program, env=os.environ | own | journal)

    running = [start(0), start(1)]
    deaths, deadline = 0, time.monotonic() + SECONDS
    try:
        while any(consumer.poll() != 0 for consumer in running):
            assert time.monotonic() < deadline, "the queue never became quiet"
            for place, consumer in enumerate(running):
                if consumer.poll() not in (None, 0):
                    deaths += 1
                    running[place] = start(place)
            time.sleep(0.05)
    finally:
        for consumer in running:
            consumer.kill()
            consumer.wait()
    return deaths


def waiting(channel: BlockingChannel, queue: str) -> int:
    """Return how many messages the broker has in a queue."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)
