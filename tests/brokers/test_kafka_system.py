"""The whole way of Kafka's records: a listener throws, its error handler dead-letters, drained, returned, received."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.brokers.kafka import Kafka, running_kafka
from tests.brokers.kafka_rig import KafkaTopics
from tests.brokers.proxy import proxy_to
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
from workers.brokers.contract import BrokerError
from workers.brokers.registry import adapter


def request(key: int) -> re.Pattern[bytes]:
    """Return how a request of PoisonAdmin's begins: its key, a version, a number, and who asks."""
    return re.compile(re.escape(key.to_bytes(2)) + rb"\x00[\x00-\x14]....\x00\x0bpoisonadmin", re.DOTALL)


PRODUCE, OFFSET_COMMIT = request(0), request(8)
GROUP = "poisonadmin-system"


class KafkaShop(Shop):
    """A shop with a topic of Kafka."""

    kind = "kafka"
    acknowledgement = OFFSET_COMMIT

    def url(self) -> str:
        """Return where PoisonAdmin finds the broker, through the proxy."""
        return f"kafka://127.0.0.1:{self.proxy.port}"

    def drained(self) -> dict[str, Any]:
        """Return what a source's configuration says of what it drains."""
        return {"topics": [self.dead], "group": GROUP}

    def waiting(self) -> int | None:
        """Return how many dead letters are behind what the group has committed."""
        try:
            return adapter("kafka").depth(self.rig.login(self.dead, group=GROUP))
        except BrokerError:
            return None

    def received(self, count: int) -> list[Received]:
        """Return what a healthy consumer gets that was returned, up to so many records."""
        return self.rig.receive(self.queue, count, seconds=SECONDS)

    def hold_confirms(self) -> None:
        """Hold back what the broker says from the first record on."""
        self.proxy.hold_answers_to(PRODUCE)

    def assert_kept(self, sent: Sent, came: Received) -> None:
        """Fail unless the key is the same, and the partition."""
        assert {name: came.properties[name] for name in ("key", "partition")} == sent.properties


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Yield a Kafka that may be killed."""
    with running_kafka(tmp_path_factory.mktemp("mortal")) as server:
        yield server


@pytest.fixture
def shop(system: Installation, mortal: Kafka) -> Iterator[Shop]:
    """Yield a shop whose listener has just thrown at a thousand records."""
    rig = KafkaTopics(mortal)
    with proxy_to(mortal.behind_proxy, port=mortal.proxy_port) as proxy:
        sent = orders()
        queue, dead = rig.dead_letter(sent)
        made = KafkaShop(system, mortal, rig, proxy, queue, dead, sent)
        yield made
        made.stop_draining()


def orders() -> list[Sent]:
    """Return records with keys of bytes, texts and none, in all partitions, with and without ids."""
    keys = (b"customer-7", b"\x00\xff\xfe", None)
    return [
        Sent(
            b"\x00\xff order %d" % n,
            message_id=f"order-{n}" if n % 2 else None,
            headers={"tenant": "eu", "n": str(n)},
            properties={"key": keys[n % 3], "partition": n % 2},
        )
        for n in range(COUNT)
    ]


def test_a_thousand_dead_letters_come_back_as_they_were_sent(shop: Shop) -> None:
    group = assert_all_come_back(shop)
    # By the cause, not by what the listener's container wraps it in.
    assert group["title"] == "NoSuchCustomer in com.example.shop.Billing.bill"


@pytest.mark.parametrize("kill", [kill_worker, kill_broker], ids=["worker", "broker"])
def test_killed_between_storing_and_acknowledging(shop: Shop, kill: Callable[[Shop], None]) -> None:
    assert_nothing_is_lost_before_it_is_acknowledged(shop, kill)


def test_the_broker_killed_while_messages_return(shop: Shop) -> None:
    assert_all_return_though_the_broker_is_killed(shop)
