"""The two ends of AMQP 1.0 links: what a sender may send and was answered, what a receiver has and asked for."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from workers.brokers.contract import BrokerError


class LinkRefused(BrokerError):
    """Raised when the broker does not let a link be, or ends it; `condition` is its code for why."""

    def __init__(self, detail: str, condition: str) -> None:
        super().__init__(detail)
        self.condition = condition


@dataclass
class Link:
    """One end. `address`: as the broker says it, which names those that it makes for the link."""

    name: str
    handle: int
    address: str | None = None
    is_attached: bool = False
    # Only the broker's answer to the wish for a link that it does not want has no address of any kind.
    is_unwanted: bool = False
    refused: LinkRefused | None = None

    def check(self) -> None:
        """Return while the link is alive; raise `LinkRefused` when the broker has ended it."""
        if self.refused is not None:
            raise self.refused


@dataclass
class Sender(Link):
    """`credit`: how many messages may still be sent. `answers`: the broker's word by delivery id, until it is taken."""

    credit: int = 0
    sent_count: int = 0
    answers: dict[int, tuple[int, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that was given out: what settles it, and its bytes."""

    delivery_id: int
    message: bytes


@dataclass
class Receiver(Link):
    """`credit`: how many messages may still come. `arrived`: whole messages that nobody has taken yet."""

    credit: int = 0
    received_count: int = 0
    is_drained: bool = False
    arrived: deque[Delivery] = field(default_factory=deque)
    # A message that comes in more frames than one.
    _started: tuple[int, list[bytes]] | None = None

    def take_in(self, delivery_id: int | None, body: bytes, *, is_last: bool, is_aborted: bool) -> None:
        """Add a frame's part of a message; raise ValueError when it belongs to none."""
        if self._started is None:
            if delivery_id is None:
                raise ValueError("a message has no delivery id")
            self._started = (delivery_id, [])
        number, parts = self._started
        parts.append(body)
        if is_last or is_aborted:
            self._started = None
            self.received_count += 1
            self.credit -= 1
            if not is_aborted:
                self.arrived.append(Delivery(number, b"".join(parts)))
