"""The examples, as they are, against the real server and a real RabbitMQ."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from tests.brokers.rabbitmq import RabbitMq, running_rabbitmq
from tests.poisonguard.conftest import ANSWER_SECONDS, Service

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "poisonguard" / "examples"
ORDERS = [json.dumps({"id": number, "quantity": number, "price": 10}) for number in range(1, 7)]


def environment(service: Service, **more: str) -> dict[str, str]:
    """Return what an example finds in its environment."""
    own = {"POISONADMIN_URL": service.web.url, "POISONADMIN_TOKEN": service.token, "PYTHONPATH": str(ROOT)}
    return os.environ | own | more


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMq]:
    """Yield a RabbitMQ."""
    with running_rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as broker:
        yield broker


def test_the_plain_loop_fails_once_and_goes_on_behind_it(service: Service, tmp_path: Path) -> None:
    orders = tmp_path / "orders.ndjson"
    orders.write_text("\n".join([*ORDERS[:2], "{no order", *ORDERS[3:]]))
    command = [sys.executable, str(EXAMPLES / "plain_loop.py"), str(orders)]
    first, second, third = (
        subprocess.run(command, env=environment(service), capture_output=True, text=True) for _ in range(3)
    )
    assert (first.returncode, first.stdout.splitlines()) == (1, ["order 1: 10", "order 2: 20"])
    assert second.returncode == 0, second.stderr
    assert second.stdout.splitlines()[0].startswith("skipped 3: Expecting property name")
    assert second.stdout.splitlines()[1:] == ["order 4: 40", "order 5: 50", "order 6: 60"]
    assert (third.returncode, third.stdout) == (0, "")


def test_the_pika_consumer_fails_once_skips_and_empties_its_queue(
    service: Service, rabbitmq: RabbitMq, tmp_path: Path
) -> None:
    with pika.BlockingConnection(pika.URLParameters(rabbitmq.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        for number, body in enumerate([*ORDERS[:2], "{no order", *ORDERS[3:]], start=1):
            properties = pika.BasicProperties(message_id=f"order-{number}")
            channel.basic_publish("", "orders", body.encode(), properties)
        own = environment(service, AMQP_URL=rabbitmq.url, JOURNAL_DIR=str(tmp_path / "journal"))
        command = [sys.executable, str(EXAMPLES / "pika_consumer.py"), "orders"]
        consumer = subprocess.Popen(command, env=own, stdout=subprocess.PIPE, text=True)
        said = said_until(consumer, 1 + 5 + 1 + 1)
        consumer.send_signal(signal.SIGTERM)
        assert consumer.communicate(timeout=30)[0] == ""
        assert consumer.returncode == 0
        left = channel.queue_declare("orders", passive=True).method.message_count
    assert said[0] == "consuming orders"
    assert sorted(said[1:]) == [
        "failed order-3: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        *(f"order {number}: {number * 10}" for number in (1, 2, 4, 5, 6)),
        "skipped order-3: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ]
    assert left == 0
    entry = service.entries("orders")["order-3"]
    assert (entry["is_listed"], entry["message_state"], entry["failures"]) == (True, "NDLV", 1)


def said_until(consumer: "subprocess.Popen[str]", lines: int) -> list[str]:
    """Return the first lines that the process prints."""
    assert consumer.stdout is not None
    said: list[str] = []
    while len(said) < lines:
        ready, _, _ = select.select([consumer.stdout], [], [], ANSWER_SECONDS)
        assert ready, said
        line = consumer.stdout.readline()
        assert line, said
        said.append(line.strip())
    return said
