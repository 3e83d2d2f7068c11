"""The whole way of a broker's messages through everything that `make up` starts, and what is killed on the way.

A real consumer has failed at a thousand messages; PoisonAdmin drains, groups and returns them through a proxy. What is
a broker's own is in the `Shop` of its test file.
"""

import contextlib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import psutil

from tests.brokers.proxy import Proxy
from tests.brokers.received import Received, Sent
from tests.brokers.rigs import Rig
from tests.brokers.server import Server
from tests.faults.invariants import all_broken
from tests.whole_system.installation import Installation, until

COUNT = 1000
SECONDS = 180


@contextlib.contextmanager
def mortal_installation(home: Path) -> Iterator[Installation]:
    """Yield a running PoisonAdmin whose workers may be killed."""
    running = Installation(home)
    try:
        running.until_ready()
        yield running
    finally:
        running.stop()


@dataclass
class Shop:
    """A queue with its consumers on one side, PoisonAdmin on the other, and a proxy in between.

    `orders`: what was sent, each with a payload of its own. `acknowledgement`: what clients say to settle messages;
    `settles_seconds`: how long the broker may itself forget, or repeat, what it has dead-lettered before it is killed.
    """

    system: Installation
    server: Server
    rig: Rig
    proxy: Proxy
    queue: str
    dead: str
    orders: Sequence[Sent]

    kind: ClassVar[str]
    acknowledgement: ClassVar[bytes | re.Pattern[bytes]]
    settles_seconds: ClassVar[float] = 0.0
    login: ClassVar[tuple[str, str] | None] = None

    def url(self) -> str:
        """Return where PoisonAdmin finds the broker, through the proxy."""
        raise NotImplementedError

    def drained(self) -> dict[str, Any]:
        """Return what a source's configuration says of what it drains."""
        return {"queues": [self.dead], "readers": 1}

    def waiting(self) -> int | None:
        """Return how many dead letters are not drained yet, None where the broker does not say."""
        raise NotImplementedError

    def received(self, count: int) -> list[Received]:
        """Return what a healthy consumer gets now, up to so many messages."""
        raise NotImplementedError

    def hold_confirms(self) -> None:
        """Have the broker's word be held back from the first time on that it has messages to confirm."""
        raise NotImplementedError

    def assert_kept(self, sent: Sent, came: Received) -> None:
        """Fail unless what is a message's own came back, but for payload, id and headers."""
        raise NotImplementedError

    def drain(self) -> None:
        """Have PoisonAdmin drain the dead-letter queue."""
        wanted = {"name": self.queue, "kind": self.kind, "config": {"url": self.url(), **self.drained()}}
        self.system.post("sources/", wanted | self._secrets())

    def return_where_it_came_from(self) -> None:
        """Have what is approved go back, and be tried again soon when the broker does not confirm it."""
        config = {"url": self.url(), "timeout_ms": 3000, "batch": 100}
        wanted = {"name": self.queue, "kind": self.kind, "config": config}
        self.system.post("destinations/", wanted | self._secrets())
        settings = {"redelivery_delay": 500, "max_delivery_attempts": -1}
        self.system.post("policies/", {"match": self.queue, "settings": settings, "destination": self.queue})

    def _secrets(self) -> dict[str, Any]:
        return {"secrets": dict(zip(("username", "password"), self.login, strict=True))} if self.login else {}

    def stop_draining(self) -> None:
        """Leave the broker alone."""
        for row in self.system.get("sources/?limit=500")["results"]:
            self.system.post(f"sources/{row['id']}/disable/", {"reason": "the test is over"})

    def states(self) -> Counter[str]:
        """Return how many messages of the queue are in which state."""
        query = """SELECT state FROM message JOIN envelope USING (id) JOIN address ON address.id = intake_address_id
                   WHERE address.name = %s"""
        return Counter(state for (state,) in self.system.rows(query, [self.queue]))

    def groups(self) -> list[dict[str, Any]]:
        """Return the failure groups of the queue's messages; those of other queues may be in them as well."""
        query = """SELECT DISTINCT group_id FROM message JOIN address ON address.id = address_id
                   WHERE address.name = %s"""
        return [self.system.get(f"groups/{group}/") for (group,) in self.system.rows(query, [self.queue])]

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

    def until_drained(self) -> None:
        """Return when no dead letter is left at the broker."""
        until(lambda: self.waiting() == 0, SECONDS, self.trouble)

    def trouble(self) -> object:
        """Return what source and deliveries complain of."""
        query = "SELECT error_class, error_message, count(*) FROM attempt WHERE outcome = 'failed' GROUP BY 1, 2"
        return self.system.rows("SELECT name, last_error FROM source"), self.system.rows(query)[:5]


def kill_worker(shop: Shop) -> None:
    """Kill what drains, its tasks as well."""
    worker = shop.system.process_of("spark-batch")
    for process in [worker, *worker.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    shop.proxy.cut()


def kill_broker(shop: Shop) -> None:
    """Kill the broker, and start it again."""
    shop.server.kill()
    shop.proxy.cut()
    shop.server.start()


def assert_all_come_back(shop: Shop) -> dict[str, Any]:
    """Fail unless all are drained, grouped, approved and received once; return the group of what failed."""
    shop.drain()
    shop.return_where_it_came_from()
    shop.until_all("NDLV")
    (group,) = shop.groups()

    shop.approve_all()
    shop.until_all("DLVD")
    assert_all_received(shop, most_twice=0)
    shop.until_drained()
    return group


def assert_nothing_is_lost_before_it_is_acknowledged(shop: Shop, kill: Callable[[Shop], None]) -> None:
    """Fail unless each message is stored once, though something is killed between storing and acknowledging."""
    time.sleep(shop.settles_seconds)
    before = shop.staged_bodies()
    shop.proxy.hold_back(shop.acknowledgement)
    shop.drain()
    assert shop.proxy.is_holding.wait(SECONDS), shop.trouble()
    assert shop.staged_bodies() > before

    kill(shop)
    shop.proxy.heal()

    until(lambda: sum(shop.states().values()) >= COUNT, SECONDS, lambda: (shop.states(), shop.trouble()))
    shop.until_drained()
    shop.until_all("NDLV")
    assert shop.distinct_payloads() == COUNT


def assert_all_return_though_the_broker_is_killed(shop: Shop) -> None:
    """Fail unless each message is received, though the broker is killed with confirms unsaid."""
    shop.drain()
    shop.return_where_it_came_from()
    shop.until_all("NDLV")

    shop.hold_confirms()
    shop.approve_all()
    assert shop.proxy.is_holding.wait(SECONDS), shop.trouble()
    kill_broker(shop)
    shop.proxy.heal()

    shop.until_all("DLVD")
    query = """SELECT count(*) FROM attempt JOIN envelope ON envelope.id = attempt.message_id
               JOIN address ON address.id = intake_address_id
               WHERE error_class = 'ConfirmLost' AND address.name = %s"""
    failed = shop.system.rows(query, [shop.queue])[0][0]
    assert failed >= 1
    assert_all_received(shop, most_twice=failed)
    until(lambda: not all_broken(shop.system.rows), SECONDS, lambda: all_broken(shop.system.rows))


def assert_all_received(shop: Shop, *, most_twice: int) -> None:
    """Fail unless a healthy consumer gets each message as it was sent; `most_twice` of them may come again."""
    received = shop.received(COUNT + most_twice)
    by_payload = {one.payload: one for one in received}
    assert by_payload.keys() == {one.payload for one in shop.orders}
    assert len(received) - len(by_payload) <= most_twice
    for sent in shop.orders:
        came = by_payload[sent.payload]
        assert came.message_id == sent.message_id
        kept = {name: value for name, value in came.headers.items() if not name.startswith("PoisonAdmin-")}
        assert kept == sent.headers
        shop.assert_kept(sent, came)
    # Each says who it is: what comes twice is recognised.
    assert len({one.headers["PoisonAdmin-Message-Id"] for one in received}) == COUNT
