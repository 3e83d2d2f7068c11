"""Where a message has been: every move is kept, and brokers are told of the last (SEMANTICS ART-11)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

ORIG_ADDRESS = "_AMQ_ORIG_ADDRESS"
ORIG_QUEUE = "_AMQ_ORIG_QUEUE"
ORIG_MESSAGE_ID = "_AMQ_ORIG_MESSAGE_ID"


@dataclass(frozen=True)
class Hop:
    """One move of a message away from `address`: why, when and by whom."""

    address: str
    queue: str | None
    message_id: str
    reason: str
    at: datetime
    by: str


def append_hop(hops: Sequence[Hop], hop: Hop) -> tuple[Hop, ...]:
    """Return all hops, first to last, with `hop` at the end; none is ever replaced."""
    return (*hops, hop)


def first_address(hops: Sequence[Hop], address: str) -> str:
    """Return where a message that is now on `address` was before it was first moved."""
    return hops[0].address if hops else address


def origin_properties(address: str, message_id: str, queue: str | None = None) -> dict[str, str]:
    """Return the properties that Artemis stamps on a message moved to a dead-letter address.

    They describe the last move only; the list of hops has them all. Without a queue of its own an address is one.

    >>> origin_properties("stocks", "order-7")
    {'_AMQ_ORIG_ADDRESS': 'stocks', '_AMQ_ORIG_QUEUE': 'stocks', '_AMQ_ORIG_MESSAGE_ID': 'order-7'}
    """
    return {ORIG_ADDRESS: address, ORIG_QUEUE: queue or address, ORIG_MESSAGE_ID: message_id}
