"""The whole way of RabbitMQ's messages: dead-lettered, drained, returned, received; and what is killed on the way."""

import time
from collections.abc import Callable, Iterator

import pytest
from pika.exceptions import AMQPError

from tests.brokers.proxy import proxy_to
from tests.brokers.rabbitmq import RabbitMq, running_rabbitmq
from tests.brokers.rabbitmq_rig import ClassicQueues, QuorumQueues
from tests.brokers.received import Received, Sent
from tests.brokers.shop import (
    COUNT,
    SECONDS,
    Shop,
    assert_all_come_back,
    assert_all_return_though_the_broker_is_killed,
    assert_nothing_is_lost_before_it_is_acknowledged,
    kill_broker,
    kill_worker,
)
from tests.whole_system.installation import Installation

# What is said to settle messages: class 60, method 80.
ACKNOWLEDGEMENT = b"\x00\x3c\x00\x50"


class RabbitMqShop(Shop):
    """A shop with a queue of RabbitMQ."""

    kind = "rabbitmq"
    acknowledgement = ACKNOWLEDGEMENT
    settles_seconds = 6.0
    login = ("guest", "guest")

    def url(self) -> str:
        """Return where PoisonAdmin finds the broker, through the proxy."""
        return f"amqp://127.0.0.1:{self.proxy.port}"

    def waiting(self) -> int | None:
        """Return how many dead letters are ready."""
        try:
            return self.rig.depth(self.dead)
        except AMQPError:
            return None

    def received(self, count: int) -> list[Received]:
        """Return what a healthy consumer gets now, up to so many messages."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                return self.rig.receive(self.queue, count, seconds=5.0)
            except AMQPError:  # a queue that has no leader yet
                time.sleep(0.5)
        raise AssertionError("the queue does not come back")

    def hold_confirms(self) -> None:
        """Hold back the broker's confirms: it says them in the words of an acknowledgement."""
        self.proxy.hold_back(ACKNOWLEDGEMENT, by_broker=True)

    def assert_kept(self, sent: Sent, came: Received) -> None:
        """Fail unless the properties came back."""
        assert dict(came.properties) == {"delivery_mode": 2, **sent.properties}


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMq]:
    """Yield a RabbitMQ that may be killed."""
    with running_rabbitmq(tmp_path_factory.mktemp("mortal")) as server:
        yield server


@pytest.fixture(params=[ClassicQueues, QuorumQueues], ids=["classic", "quorum"])
def shop(request: pytest.FixtureRequest, system: Installation, mortal: RabbitMq) -> Iterator[Shop]:
    """Yield a shop whose consumer has just failed at a thousand messages."""
    rig: ClassicQueues = request.param(mortal)
    with proxy_to(mortal.port) as proxy:
        sent = orders()
        queue, dead = rig.dead_letter(sent)
        made = RabbitMqShop(system, mortal, rig, proxy, queue, dead, sent)
        yield made
        made.stop_draining()


def orders() -> list[Sent]:
    """Return messages of all kinds: with and without ids, binary, with typed headers, with properties."""
    return [
        Sent(
            b"\x00\xff order %d" % n,
            message_id=f"order-{n}" if n % 2 else None,
            headers={"tenant": "eu", "n": n, "nested": {"deep": [n, "x"]}, "raw": b"\xff\x00"},
            properties={"content_type": "application/x-order", "correlation_id": f"c-{n}", "priority": n % 3},
        )
        for n in range(COUNT)
    ]


def test_a_thousand_dead_letters_come_back_as_they_were_sent(shop: Shop) -> None:
    assert_all_come_back(shop)


@pytest.mark.parametrize("kill", [kill_worker, kill_broker], ids=["worker", "broker"])
def test_killed_between_storing_and_acknowledging(shop: Shop, kill: Callable[[Shop], None]) -> None:
    assert_nothing_is_lost_before_it_is_acknowledged(shop, kill)


def test_the_broker_killed_while_messages_return(shop: Shop) -> None:
    assert_all_return_though_the_broker_is_killed(shop)
