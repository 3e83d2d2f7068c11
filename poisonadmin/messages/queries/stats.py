"""Counts of messages, exact at any moment."""

from dataclasses import dataclass

from poisonadmin.core.domain.access import Principal
from poisonadmin.messages.queries.confirmations import unconfirmed
from poisonadmin.messages.queries.counts import ByState, Counts, counts

__all__ = ["ByState", "Counts", "ScopeCounts", "counts", "stats"]


@dataclass(frozen=True)
class ScopeCounts(Counts):
    """How many messages there are in the caller's scope; pairs that count none are left out, states never.

    `awaited`, `unanswered`: delivered to a broker, and the consumer's confirmation is awaited, or overdue; to 10,000.
    """

    awaited: int
    unanswered: int


def stats(principal: Principal) -> ScopeCounts:
    """Return the exact counts, and how many wait for their consumer's confirmation."""
    found, waiting = counts(principal), unconfirmed(principal)
    return ScopeCounts(
        found.by_state, found.by_reason, found.by_address, found.by_group, waiting.awaited, waiting.unanswered
    )
