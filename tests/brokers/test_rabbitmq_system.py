"""The whole way through everything that `make up` starts: dead-lettered, drained, returned, received.

And with the broker killed while it is drained and while it takes back, and PoisonAdmin's worker between storing and
acknowledging.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import psutil
import pytest
from pika.exceptions import AMQPError

from tests.brokers.proxy import Proxy, proxy_to
from tests.brokers.rabbitmq import RabbitMq, running_rabbitmq
from tests.brokers.rabbitmq_rig import ClassicQueues, QuorumQueues
from tests.brokers.received import Received, Sent
from tests.faults.invariants import all_broken
from tests.system.installation import Installation, until

COUNT = 1000
SECONDS = 180
# What is said to settle messages: class 60, method 80.
ACKNOWLEDGEMENT = b"\x00\x3c\x00\x50"
# A broker may itself forget, or repeat, what it dead-lettered so shortly before it is killed.
BROKER_SETTLES_SECONDS = 6.0


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Yield a running PoisonAdmin whose workers may be killed."""
    running = Installation(tmp_path_factory.mktemp("installation"))
    try:
        running.until_ready()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMq]:
    """Yield a RabbitMQ that may be killed."""
    with running_rabbitmq(tmp_path_factory.mktemp("mortal")) as server:
        yield server


@dataclass
class Shop:
    """A queue with its consumers on one side, PoisonAdmin on the other, and a proxy in between."""

    system: Installation
    rig: ClassicQueues
    proxy: Proxy
    queue: str
    dead: str

    def drain(self) -> None:
        """Have PoisonAdmin drain the dead-letter queue."""
        config = {"url": f"amqp://127.0.0.1:{self.proxy.port}", "queues": [self.dead], "readers": 1}
        wanted = {"name": self.queue, "kind": "rabbitmq", "config": config}
        self.system.post("sources/", wanted | {"secrets": {"username": "guest", "password": "guest"}})

    def return_where_it_came_from(self) -> None:
        """Have what is approved go back, and be tried again soon when the broker does not confirm it."""
        config = {"url": f"amqp://127.0.0.1:{self.proxy.port}", "timeout_ms": 3000, "batch": 100}
        wanted = {"name": self.queue, "kind": "rabbitmq", "config": config}
        self.system.post("destinations/", wanted | {"secrets": {"username": "guest", "password": "guest"}})
        settings = {"redelivery_delay": 500, "max_delivery_attempts": -1}
        self.system.post("policies/", {"match": self.queue, "settings": settings, "destination": self.queue})

    def states(self) -> Counter[str]:
        """Return how many messages of the queue are in which state."""
        query = """SELECT state FROM message JOIN envelope USING (id) JOIN address ON address.id = intake_address_id
                   WHERE address.name = %s"""
        return Counter(state for (state,) in self.system.rows(query, [self.queue]))

    def distinct_payloads(self) -> int:
        """Return how many different payloads the messages of the queue have."""
        query = """SELECT count(DISTINCT payload) FROM body JOIN envelope USING (id) JOIN message USING (id)
                   JOIN address ON address.id = intake_address_id WHERE address.name = %s"""
        return int(self.system.rows(query, [self.queue])[0][0])

    def staged_bodies(self) -> int:
        """Return how many bodies are stored, whatever became of them."""
        return int(self.system.rows("SELECT count(*) FROM body")[0][0])

    def approve_all(self) -> None:
        """Decide on each message through the API."""
        query = """SELECT message.id FROM message JOIN address ON address.id = address_id
                   WHERE address.name = %s AND state = 'NDLV'"""
        ids = [row[0] for row in self.system.rows(query, [self.queue])]
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda one: self.system.post(f"messages/{one}/approve/", {"reason": "it is well"}), ids))

    def until_all(self, state: str) -> None:
        """Return when all messages are in the state."""
        until(lambda: self.states() == Counter({state: COUNT}), SECONDS, lambda: (self.states(), self.trouble()))

    def trouble(self) -> object:
        """Return what source and deliveries complain of."""
        query = "SELECT error_class, error_message, count(*) FROM attempt WHERE outcome = 'failed' GROUP BY 1, 2"
        return self.system.rows("SELECT name, last_error FROM source"), self.system.rows(query)[:5]


@pytest.fixture(params=[ClassicQueues, QuorumQueues], ids=["classic", "quorum"])
def shop(request: pytest.FixtureRequest, system: Installation, mortal: RabbitMq) -> Iterator[Shop]:
    """Yield a shop whose consumer has just failed at a thousand messages."""
    rig: ClassicQueues = request.param(mortal)
    with proxy_to(mortal.port) as proxy:
        queue, dead = rig.dead_letter(orders())
        made = Shop(system, rig, proxy, queue, dead)
        yield made
        for row in system.get("sources/?limit=500")["results"]:
            system.post(f"sources/{row['id']}/disable/", {"reason": "the test is over"})


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


def assert_all_received(shop: Shop, *, most_twice: int) -> None:
    """Fail unless a healthy consumer gets each message as it was sent; `most_twice` of them may come again."""
    received = _received(shop, COUNT + most_twice)
    by_payload = {one.payload: one for one in received}
    assert by_payload.keys() == {one.payload for one in orders()}
    assert len(received) - len(by_payload) <= most_twice
    for sent in orders():
        came = by_payload[sent.payload]
        assert came.message_id == sent.message_id
        kept = {name: value for name, value in came.headers.items() if not name.startswith("PoisonAdmin-")}
        assert kept == sent.headers
        assert dict(came.properties) == {"delivery_mode": 2, **sent.properties}
    # Each says who it is: what comes twice is recognised.
    assert len({one.headers["PoisonAdmin-Message-Id"] for one in received}) == COUNT


def _received(shop: Shop, count: int) -> list[Received]:
    found: list[Received] = []
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            return found + shop.rig.receive(shop.queue, count, seconds=5.0)
        except AMQPError:  # a queue that has no leader yet
            time.sleep(0.5)
    raise AssertionError("the queue does not come back")


def test_a_thousand_dead_letters_come_back_as_they_were_sent(shop: Shop) -> None:
    shop.drain()
    shop.return_where_it_came_from()
    shop.until_all("NDLV")
    groups = [row for row in shop.system.get("groups/?limit=500")["results"] if row["counts"].get("NDLV")]

    assert [row["counts"]["NDLV"] for row in groups] == [COUNT]
    shop.approve_all()
    shop.until_all("DLVD")

    assert_all_received(shop, most_twice=0)
    assert shop.rig.depth(shop.dead) == 0


def _kill_worker(shop: Shop) -> None:
    worker = shop.system.process_of("spark-batch")
    for process in [worker, *worker.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    shop.proxy.cut()


def _kill_broker(shop: Shop) -> None:
    shop.rig.server.kill()
    shop.proxy.cut()
    shop.rig.server.start()


@pytest.mark.parametrize("kill", [_kill_worker, _kill_broker], ids=["worker", "broker"])
def test_killed_between_storing_and_acknowledging(shop: Shop, kill: Callable[[Shop], Any]) -> None:
    time.sleep(BROKER_SETTLES_SECONDS)
    before = shop.staged_bodies()
    shop.proxy.hold_back(ACKNOWLEDGEMENT)
    shop.drain()
    assert shop.proxy.is_holding.wait(SECONDS), shop.trouble()
    assert shop.staged_bodies() > before

    kill(shop)
    shop.proxy.heal()

    until(lambda: sum(shop.states().values()) >= COUNT, SECONDS, lambda: (shop.states(), shop.trouble()))
    until(lambda: _depth(shop) == 0, SECONDS, shop.trouble)
    shop.until_all("NDLV")
    assert shop.distinct_payloads() == COUNT


def _depth(shop: Shop) -> int | None:
    try:
        return shop.rig.depth(shop.dead)
    except AMQPError:
        return None


def test_the_broker_killed_while_messages_return(shop: Shop) -> None:
    shop.drain()
    shop.return_where_it_came_from()
    shop.until_all("NDLV")
    before = COUNT - shop.states()["DLVD"]

    # Its confirms are what it says in the words of an acknowledgement.
    shop.proxy.hold_back(ACKNOWLEDGEMENT, by_broker=True)
    shop.approve_all()
    assert shop.proxy.is_holding.wait(SECONDS), shop.trouble()
    shop.rig.server.kill()
    shop.proxy.cut()
    shop.rig.server.start()
    shop.proxy.heal()

    shop.until_all("DLVD")
    assert before == COUNT
    failed = shop.system.rows("SELECT count(*) FROM attempt WHERE error_class = 'ConfirmLost'")[0][0]
    assert failed >= 1
    assert_all_received(shop, most_twice=failed)
    until(lambda: not all_broken(shop.system.rows), SECONDS, lambda: all_broken(shop.system.rows))
