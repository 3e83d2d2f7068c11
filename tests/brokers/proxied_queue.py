"""A broker's queue in the whole system: its consumers, PoisonAdmin as `make up` starts it, and a proxy in between.

What is a broker's own is in a class of its own.
"""

import re
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from pika.exceptions import AMQPError

from tests.brokers.artemis import PASSWORD, USER
from tests.brokers.kafka_topics import request_of
from tests.brokers.messages import Received, Sent
from tests.brokers.proxy import Proxy, proxy_to
from tests.brokers.queues import Queues
from tests.whole_system.installation import Installation, until
from workers.brokers.contract import BrokerError, adapter

COUNT = 1000
SECONDS = 180
_GROUP = "poisonadmin-system"


@dataclass
class ProxiedQueue(ABC):
    """A queue at which a consumer has just failed to process a thousand messages.

    `acknowledgement`: the bytes with which clients settle messages; `settles_seconds`: so long after it dead-lettered
    messages a broker that is killed may lose, or repeat, some of them.
    """

    installation: Installation
    queues: Queues
    proxy: Proxy

    scheme: ClassVar[str]
    acknowledgement: ClassVar[bytes | re.Pattern[bytes]]
    settles_seconds: ClassVar[float] = 0.0
    login: ClassVar[tuple[str, str] | None] = None

    def __post_init__(self) -> None:
        self.sent = self.messages()
        self.queue, self.dead = self.queues.dead_letter(self.sent)

    @classmethod
    def proxied(cls, server: Any) -> AbstractContextManager[Proxy]:
        """Return the context of a proxy to the broker."""
        return proxy_to(server.port)

    @abstractmethod
    def messages(self) -> list[Sent]:
        """Return messages of all kinds, each with a payload of its own."""

    @abstractmethod
    def waiting(self) -> int | None:
        """Return how many dead letters are not drained yet, None where the broker does not say."""

    @abstractmethod
    def received(self, count: int) -> list[Received]:
        """Return what a healthy consumer gets now, up to so many messages."""

    @abstractmethod
    def hold_confirms(self) -> None:
        """Have the broker's answers be held back from the first time on that it has messages to confirm."""

    @abstractmethod
    def assert_kept(self, sent: Sent, came: Received) -> None:
        """Fail unless the broker's own properties of a message came back."""

    def drained(self) -> dict[str, Any]:
        """Return what a source's configuration says of what it drains."""
        return {"queues": [self.dead], "readers": 1}

    def drain(self) -> None:
        """Have PoisonAdmin drain the dead-letter queue."""
        wanted = {"name": self.queue, "kind": self.queues.kind, "config": {"url": self._url(), **self.drained()}}
        self.installation.post("sources/", wanted | self._secrets())

    def return_approved(self) -> None:
        """Have approved messages return to the queue, and be tried again soon when the broker does not confirm them."""
        config = {"url": self._url(), "timeout_ms": 3000, "batch": 100}
        wanted = {"name": self.queue, "kind": self.queues.kind, "config": config}
        self.installation.post("destinations/", wanted | self._secrets())
        settings = {"redelivery_delay": 500, "max_delivery_attempts": -1}
        self.installation.post("policies/", {"match": self.queue, "settings": settings, "destination": self.queue})

    def _url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.proxy.port}"

    def _secrets(self) -> dict[str, Any]:
        return {"secrets": dict(zip(("username", "password"), self.login, strict=True))} if self.login else {}

    def stop_draining(self) -> None:
        """Leave the broker alone."""
        for row in self.installation.get("sources/?limit=500")["results"]:
            self.installation.post(f"sources/{row['id']}/disable/", {"reason": "the test is over"})

    def states(self) -> Counter[str]:
        """Return how many messages of the queue are in which state."""
        query = """SELECT state FROM message JOIN envelope USING (id) JOIN address ON address.id = intake_address_id
                   WHERE address.name = %s"""
        return Counter(state for (state,) in self.installation.rows(query, [self.queue]))

    def groups(self) -> list[dict[str, Any]]:
        """Return the failure groups of the queue's messages; those of other queues may be in them as well."""
        query = """SELECT DISTINCT group_id FROM message JOIN address ON address.id = address_id
                   WHERE address.name = %s"""
        return [self.installation.get(f"groups/{group}/") for (group,) in self.installation.rows(query, [self.queue])]

    def distinct_payloads(self) -> int:
        """Return how many different payloads the messages of the queue have."""
        query = """SELECT count(DISTINCT payload) FROM body JOIN envelope USING (id) JOIN message USING (id)
                   JOIN address ON address.id = intake_address_id WHERE address.name = %s"""
        return int(self.installation.rows(query, [self.queue])[0][0])

    def staged_bodies(self) -> int:
        """Return how many bodies are stored, whatever the states of their messages."""
        return int(self.installation.rows("SELECT count(*) FROM body")[0][0])

    def approve_all(self) -> None:
        """Have an operation approve each message."""
        selection = {"filter": {"address": self.queue, "state": "NDLV"}}
        self.installation.post("operations/", {"selection": selection, "action": "approve", "reason": "a test"})

    def until_all(self, state: str) -> None:
        """Return when all messages are in the state."""
        until(lambda: self.states() == Counter({state: COUNT}), SECONDS, lambda: (self.states(), self.errors()))

    def until_drained(self) -> None:
        """Return when no dead letter is left at the broker."""
        until(lambda: self.waiting() == 0, SECONDS, self.errors)

    def errors(self) -> object:
        """Return the errors of source and deliveries."""
        query = "SELECT error_class, error_message, count(*) FROM attempt WHERE outcome = 'failed' GROUP BY 1, 2"
        return self.installation.rows("SELECT name, last_error FROM source"), self.installation.rows(query)[:5]


class ProxiedRabbitMq(ProxiedQueue):
    """A classic or quorum queue of RabbitMQ."""

    scheme = "amqp"
    acknowledgement = b"\x00\x3c\x00\x50"  # class 60, method 80
    settles_seconds = 6.0
    login = ("guest", "guest")

    def messages(self) -> list[Sent]:
        """Return messages with and without ids, binary, with typed headers, with properties."""
        return [
            Sent(
                b"\x00\xff order %d" % n,
                message_id=f"order-{n}" if n % 2 else None,
                headers={"tenant": "eu", "n": n, "nested": {"deep": [n, "x"]}, "raw": b"\xff\x00"},
                properties={"content_type": "application/x-order", "correlation_id": f"c-{n}", "priority": n % 3},
            )
            for n in range(COUNT)
        ]

    def waiting(self) -> int | None:
        """Return how many dead letters are ready."""
        try:
            return self.queues.depth(self.dead)
        except AMQPError:
            return None

    def received(self, count: int) -> list[Received]:
        """Return what a healthy consumer gets now, up to so many messages."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                return self.queues.receive(self.queue, count, seconds=5.0)
            except AMQPError:  # a queue that has no leader yet
                time.sleep(0.5)
        raise AssertionError("the queue does not come back")

    def hold_confirms(self) -> None:
        """Hold back the broker's confirms, which are written as acknowledgements are."""
        self.proxy.hold_back(self.acknowledgement, by_broker=True)

    def assert_kept(self, sent: Sent, came: Received) -> None:
        """Fail unless the properties came back."""
        assert dict(came.properties) == {"delivery_mode": 2, **sent.properties}


class ProxiedArtemis(ProxiedQueue):
    """A queue of Artemis."""

    scheme = "stomp"
    acknowledgement = re.compile(rb"^ACK\n", re.MULTILINE)
    login = (USER, PASSWORD)

    def messages(self) -> list[Sent]:
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

    def waiting(self) -> int | None:
        """Return how many dead letters the queue holds."""
        try:
            return self.queues.depth(self.dead)
        except BrokerError:
            return None

    def received(self, count: int) -> list[Received]:
        """Return what a healthy consumer gets now, up to so many messages."""
        return self.queues.receive(self.queue, min(count, self.queues.depth(self.queue)), seconds=SECONDS)

    def hold_confirms(self) -> None:
        """Hold back the broker's receipts: those of messages are digits alone."""
        self.proxy.hold_back(re.compile(rb"^receipt-id:\d+$", re.MULTILINE), by_broker=True)

    def assert_kept(self, sent: Sent, came: Received) -> None:
        """Fail unless the properties came back."""
        wanted = {name: value for name, value in sent.properties.items() if name != "text"}
        assert {name: came.properties[name] for name in wanted} == wanted
        assert came.properties["persistent"] == "true"


class ProxiedKafka(ProxiedQueue):
    """A topic of Kafka."""

    scheme = "kafka"
    acknowledgement = request_of(8)  # OffsetCommit

    @classmethod
    def proxied(cls, server: Any) -> AbstractContextManager[Proxy]:
        """Return a proxy where the broker says that it is."""
        return proxy_to(server.behind_proxy, port=server.proxy_port)

    def messages(self) -> list[Sent]:
        """Return records with keys of bytes, texts and none, in two partitions, with and without ids."""
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

    def drained(self) -> dict[str, Any]:
        """Return what a source's configuration says of what it drains."""
        return {"topics": [self.dead], "group": _GROUP}

    def waiting(self) -> int | None:
        """Return how many dead letters are behind what the group has committed."""
        try:
            return adapter("kafka").depth(self.queues.login(self.dead, group=_GROUP))
        except BrokerError:
            return None

    def received(self, count: int) -> list[Received]:
        """Return what a healthy consumer gets that was returned, up to so many records."""
        return self.queues.receive(self.queue, count, seconds=SECONDS)

    def hold_confirms(self) -> None:
        """Hold back what the broker says from the first record on."""
        self.proxy.hold_answers_to(request_of(0))  # Produce

    def assert_kept(self, sent: Sent, came: Received) -> None:
        """Fail unless the key is the same, and the partition."""
        assert {name: came.properties[name] for name in ("key", "partition")} == sent.properties


PROXIED: Mapping[str, type[ProxiedQueue]] = {
    "rabbitmq": ProxiedRabbitMq,
    "artemis": ProxiedArtemis,
    "kafka": ProxiedKafka,
}


@contextmanager
def proxied_queue(installation: Installation, queues: Queues) -> Iterator[ProxiedQueue]:
    """Yield a queue with dead letters; PoisonAdmin drains it no more afterwards."""
    kind = PROXIED[queues.kind]
    with kind.proxied(queues.server) as proxy:
        made = kind(installation, queues, proxy)
        yield made
        made.stop_draining()
