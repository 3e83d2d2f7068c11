"""Queues of dead letters are found at a real RabbitMQ with its management plugin: by arguments, policies and names."""

from collections.abc import Iterator

import pika
import pytest

from tests.brokers.rabbitmq import ManagedRabbitMq
from tests.brokers.server import running
from workers.brokers.contract import BrokerError, Login
from workers.brokers.sources import check_broker

LOGIN = {"username": "guest", "password": "guest"}


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedRabbitMq]:
    """Yield a RabbitMQ with queues: some hold dead letters by an argument, by a policy, by their name alone."""
    with running(ManagedRabbitMq(tmp_path_factory.mktemp("managed"))) as server:
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


def test_queues_with_a_sign_of_dead_letters_come_first(managed: ManagedRabbitMq) -> None:
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


def test_the_management_refuses_a_wrong_password_and_it_is_not_repeated(managed: ManagedRabbitMq) -> None:
    config = {"url": f"amqp://127.0.0.1:{managed.port}", "queues": [], "management_url": managed.management}
    with pytest.raises(BrokerError, match="401") as refused:
        check_broker("queues", "rabbitmq", config, LOGIN | {"password": "canary"})
    assert "canary" not in refused.value.detail
    assert "canary" not in repr(Login("amqp://x", "guest", "canary"))
