"""The contract of adapters, one for each kind of broker: read dead letters, settle them, publish with confirm.

Everything here blocks; each object belongs to one thread.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, Protocol, cast

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.groups.domain.failures import Failure
from poisonadmin.messages.domain.dead_letter import DeadLetter
from poisonadmin.sources.domain.broker_checks import FoundQueue

READ_BYTES = 8 * 1024 * 1024
_QUIET_SECONDS = 0.5
_SIGNS_OF_DEAD_LETTERS = ("dlq", "dead", "error", "poison", "parking")

Results = list[Failure | None]
"""Place by place None, or why the message is not confirmed."""


class BrokerError(PoisonAdminError):
    """Raised when a broker cannot be used: unreachable, refuses the login, has no such queue, closed the channel.

    After it the reader or publisher is closed. The text is for administrators and holds no secret.
    """

    code = "broker_error"
    status = 502


@dataclass(frozen=True)
class Login:
    """The URL of a broker, and an account. `options`: the rest of the configuration, checked, with its defaults."""

    url: str
    username: str = ""
    password: str = field(default="", repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def verifies_tls(self) -> bool:
        """True where the broker's certificate is checked."""
        return self.options.get("verify_tls", True) is not False


@dataclass(frozen=True, slots=True)
class Shard:
    """The part that one task drains: a queue, or a partition of a topic; `place` tells tasks at one queue apart."""

    queue: str
    partition: int | None = None
    place: int = 0


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message that the broker has given out and that is not acknowledged yet.

    `token`: what settles it, meant for its reader alone. `message_id`: the producer's, where there is one. `broker_id`:
    what the broker itself knows this message by however often it delivers it ("topic/partition/offset"); None where it
    knows it by nothing. `is_redelivered`: it may have been given out before. `queue`: where it was read.
    `headers`: all of them as texts, the broker's dead-letter headers too, for people, rules and keys.
    `transport`: JSON for the way back: `{"broker": kind, …}` with routing, typed headers and properties, key; bytes in
    it as `encoded`. `dead_letter.original_address` is the broker's own name of the original queue or topic.
    """

    token: Any
    queue: str
    message_id: str | None
    broker_id: str | None
    is_redelivered: bool
    payload: bytes
    content_type: str
    headers: dict[str, str]
    conversation_id: str | None
    bookmark: str | None
    dead_letter: DeadLetter
    transport: Mapping[str, Any]


class Reader(Protocol):
    """Reads one shard. What is not acknowledged is given out again, to this reader's successor."""

    def read(self, limit: int, wait_seconds: float) -> list[Incoming]:
        """Return up to `limit` messages, or `READ_BYTES` of them; none only when none came for `wait_seconds`.

        Errors: `BrokerError`.
        """

    def finish(self) -> None:
        """Ask for no more. What the broker has given out already is still read and acknowledged.

        Left alone it would go back, which some queues count as a failed delivery. Errors: `BrokerError`.
        """

    def acknowledge(self, taken: Sequence[Incoming]) -> None:
        """Settle messages that are stored; returns once the broker has done so. Errors: `BrokerError`."""

    def close(self) -> None:
        """Give back what is not acknowledged, without an error."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message on its way to a broker.

    `own_headers`: PoisonAdmin-Message-Id, -Attempt, -Operation; they win over any other. `route`: the queue or topic it
    goes to, empty where only the broker's own routing is known. `headers` are the message's as texts: used where
    `transport` is None or of another kind of broker, for then nothing typed is known. Dead-letter headers are left out
    either way.
    """

    payload: bytes
    content_type: str
    headers: Mapping[str, str]
    own_headers: Mapping[str, str]
    route: str
    message_id: str
    conversation_id: str | None = None
    transport: Mapping[str, Any] | None = None

    @property
    def target(self) -> str:
        """The queue or topic it goes to: its route, else where it was; empty when neither is known."""
        return self.route or str((self.transport or {}).get("queue") or "")

    @property
    def edited_headers(self) -> dict[str, str | None]:
        """The headers that a person has changed, which the typed ones do not know of; None for one that was removed."""
        found = (self.transport or {}).get("edited_headers")
        return dict(found) if isinstance(found, Mapping) else {}

    def transport_of(self, kind: str) -> Mapping[str, Any] | None:
        """Return the transport where it is of this kind of broker."""
        return self.transport if self.transport and self.transport.get("broker") == kind else None


class Publisher(Protocol):
    """Publishes to one broker over one connection."""

    def publish(self, batch: Sequence[Outgoing], timeout_seconds: float) -> Results:
        """Send all, then wait for each one's confirm; return place by place None, or why it is not confirmed.

        A message that the broker takes but cannot route is a failure (`Unroutable`); so are one that it refuses
        (`BrokerRefused`), and one whose answer has not come in time or before the connection went (`ConfirmLost`: the
        broker may have it). One that cannot be written is `NotSent`. Never raises for the connection's sake; a broken
        one is opened anew at the next call.
        """

    def close(self) -> None:
        """Close the connection, without an error."""


class Adapter(Protocol):
    """One kind of broker."""

    def shards(self, login: Login) -> list[Shard]:
        """Return what may be drained side by side for the configuration. Errors: `BrokerError`."""

    def depth(self, login: Login) -> int | None:
        """Return how many messages wait in all that is drained, None where nobody can say. Errors: `BrokerError`."""

    def open_reader(self, login: Login, shard: Shard) -> Reader:
        """Connect. Errors: `BrokerError`."""

    def open_publisher(self, login: Login) -> Publisher:
        """Return a publisher; it connects when it first publishes."""

    def browse(self, login: Login, limit: int) -> Iterator[Incoming]:
        """Yield the first messages of what is drained, and leave them there. Errors: `BrokerError`."""

    def queues(self, login: Login) -> list[FoundQueue]:
        """Return the queues or topics there are, those with signs of dead letters first. Errors: `BrokerError`."""


def first_messages(reader: Reader, limit: int) -> Iterator[Incoming]:
    """Yield what a reader gives until nothing more comes for a moment, `limit` at most. Errors: `BrokerError`."""
    while limit and (some := reader.read(limit, _QUIET_SECONDS)):
        yield from some
        limit -= len(some)


def is_named_for_dead_letters(name: str, *more_signs: str) -> bool:
    """Return whether a queue's name has one of the usual signs of dead letters, or one of this broker's own.

    >>> [is_named_for_dead_letters(name, "dlt") for name in ("Orders.DLQ", "orders-dlt", "orders")]
    [True, True, False]
    """
    return any(sign in name.lower() for sign in (*_SIGNS_OF_DEAD_LETTERS, *more_signs))


def encoded(value: bytes) -> dict[str, str]:
    """Return bytes as a `transport` holds them."""
    return {"base64": base64.b64encode(value).decode()}


def decoded(value: object) -> bytes | None:
    """Return the bytes again, None for what is none.

    >>> decoded(encoded(b"\\xff")), decoded({"base64": "x"}), decoded("text")
    (b'\\xff', None, None)
    """
    text = value.get("base64") if isinstance(value, Mapping) else None
    try:
        return base64.b64decode(text) if isinstance(text, str) else None
    except ValueError:
        return None


@cache
def adapter(kind: str) -> Adapter:
    """Return the adapter of a kind; each `workers/brokers/<kind>/adapter.py` has one, named ADAPTER."""
    if kind not in BROKERS:
        raise LookupError(f"{kind} is no kind of broker; known are {', '.join(BROKERS)}.")
    return cast("Adapter", import_module(f"workers.brokers.{kind}.adapter").ADAPTER)
