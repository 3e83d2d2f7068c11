"""Queues of dead letters are found at a real RabbitMQ with its management plugin: by arguments, policies and names."""

import base64
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from poisonadmin.embedded.ports import free_port
from tests.brokers.rabbitmq import RabbitMq
from tests.brokers.server import running
from workers.brokers.contract import BrokerError, Login
from workers.brokers.sources import check_broker

LOGIN = {"username": "guest", "password": "guest"}


class Managed(RabbitMq):
    """A RabbitMQ that answers questions over HTTP too."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.management = f"http://127.0.0.1:{(port := free_port())}"
        (home / "plugins").write_text("[rabbitmq_management].\n")
        with (home / "rabbitmq.conf").open("a") as configuration:
            configuration.write(f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {port}\n")

    def put(self, path: str, body: dict[str, object]) -> None:
        """Set something through the management's API."""
        request = urllib.request.Request(f"{self.management}/api{path}", json.dumps(body).encode(), method="PUT")
        request.add_header("Authorization", f"Basic {base64.b64encode(b'guest:guest').decode()}")
        request.add_header("Content-Type", "application/json")
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10).close()


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    """Yield a RabbitMQ with queues: some hold dead letters by an argument, by a policy, by their name alone."""
    with running(Managed(tmp_path_factory.mktemp("managed"))) as server:
        channel = pika.BlockingConnection(pika.URLParameters(server.url)).channel()
        channel.queue_declare("orders.set-aside", durable=True)
        way = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.set-aside"}
        channel.queue_declare("orders", durable=True, arguments=way)
        channel.exchange_declare("graves", "fanout", durable=True)
        channel.queue_declare("bills.late", durable=True)
        channel.queue_bind("bills.late", "graves")
        channel.queue_declare("bills", durable=True)
        channel.queue_declare("labels.dlq", durable=True)
        channel.basic_publish("", "labels.dlq", b"x")
        channel.connection.close()
        server.put(
            "/policies/%2F/dead",
            {"pattern": "^bills$", "definition": {"dead-letter-exchange": "graves"}, "apply-to": "queues"},
        )
        yield server


def test_queues_with_a_sign_of_dead_letters_come_first(managed: Managed) -> None:
    config = {"url": f"amqp://127.0.0.1:{managed.port}", "queues": [], "management_url": managed.management}
    found = {one.name: one.why for one in check_broker("queues", "rabbitmq", config, LOGIN).queues}
    assert found == {
        "bills.late": "a policy sends dead letters here",
        "labels.dlq": "its name says so",
        "orders.set-aside": "dead letters of orders go here",
        "bills": "",
        "orders": "",
    }
    assert list(found)[3:] == ["bills", "orders"]


def test_the_management_refuses_a_wrong_password_and_it_is_not_repeated(managed: Managed) -> None:
    config = {"url": f"amqp://127.0.0.1:{managed.port}", "queues": [], "management_url": managed.management}
    with pytest.raises(BrokerError, match="401") as refused:
        check_broker("queues", "rabbitmq", config, LOGIN | {"password": "canary"})
    assert "canary" not in refused.value.detail
    assert "canary" not in repr(Login("amqp://x", "guest", "canary"))
