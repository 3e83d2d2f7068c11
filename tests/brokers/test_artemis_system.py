"""The whole way of Artemis's messages: rolled back until they are dead letters, drained, returned, received."""

import re
from collections.abc import Callable, Iterator

import pytest

from tests.brokers.artemis import PASSWORD, USER, Artemis, running_artemis
from tests.brokers.artemis_rig import ArtemisQueues
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

# Messages have receipts of digits alone, a hundred of them in the second hundred.
CONFIRM = re.compile(rb"^receipt-id:1\d\d$", re.MULTILINE)


class ArtemisShop(Shop):
    """A shop with a queue of Artemis."""

    kind = "artemis"
    acknowledgement = re.compile(rb"^ACK\n", re.MULTILINE)
    login = (USER, PASSWORD)

    def url(self) -> str:
        """Return where PoisonAdmin finds the broker, through the proxy."""
        return f"stomp://127.0.0.1:{self.proxy.port}"

    def waiting(self) -> int | None:
        """Return how many dead letters the queue holds."""
        try:
            return self.rig.depth(self.dead)
        except BrokerError:
            return None

    def received(self, count: int) -> list[Received]:
        """Return what a healthy consumer gets now, up to so many messages."""
        return self.rig.receive(self.queue, min(count, self.rig.depth(self.queue)), seconds=SECONDS)

    def hold_confirms(self) -> None:
        """Hold back the broker's receipts."""
        self.proxy.hold_back(CONFIRM, by_broker=True)

    def assert_kept(self, sent: Sent, came: Received) -> None:
        """Fail unless the properties came back."""
        wanted = {name: value for name, value in sent.properties.items() if name != "text"}
        assert {name: came.properties[name] for name in wanted} == wanted
        assert came.properties["persistent"] == "true"


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Artemis]:
    """Yield an Artemis that may be killed."""
    with running_artemis(tmp_path_factory.mktemp("mortal")) as server:
        yield server


@pytest.fixture
def shop(system: Installation, mortal: Artemis) -> Iterator[Shop]:
    """Yield a shop whose JMS consumer has just rolled back a thousand messages for the last time."""
    rig = ArtemisQueues(mortal)
    with proxy_to(mortal.port) as proxy:
        sent = orders()
        queue, dead = rig.dead_letter(sent)
        made = ArtemisShop(system, mortal, rig, proxy, queue, dead, sent)
        yield made
        made.stop_draining()


def orders() -> list[Sent]:
    """Return texts and bytes, with and without ids, with headers that have to be escaped, with properties."""
    return [
        Sent(
            f"Grüße {n}".encode() if n % 2 else b"\x00\xff order %d" % n,
            message_id=f"order-{n}" if n % 3 else None,
            headers={"tenant": "eu", "n": str(n), "odd": "a\\b:c\r\nd"},
            properties={
                "text": bool(n % 2),
                "content-type": "text/plain" if n % 2 else "application/x-order",
                "correlation-id": f"c:{n}",
                "priority": str(n % 10),
            },
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
