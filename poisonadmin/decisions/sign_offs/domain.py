"""Sign-off: from a number of messages on, an operation needs the consent of another person."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from poisonadmin.core.domain import settings
from poisonadmin.core.domain.addresses import MAX_ADDRESS_CHARS, PatternIndex, validate_pattern
from poisonadmin.core.domain.settings import one_of, whole
from poisonadmin.decisions.operations.domain.actions import ACTIONS

MAX_ABOVE = 10_000_000


class SignOffDecision(StrEnum):
    """A second person's decision on an operation that waits."""

    CONSENT = "consent"
    REFUSE = "refuse"


@settings.configuration
class SignOffLimit:
    """An operation with this action (None: with any) on more than `above` messages at `match` needs a sign-off."""

    match: str = settings.text("Addresses", validate_pattern, most=MAX_ADDRESS_CHARS, hint="invoices.*")
    action: str | None = settings.choice(
        "Action",
        one_of(ACTIONS, ", or left out for any."),
        default=None,
        hint="any",
        words={one.key: one.verb for one in ACTIONS.values()},
    )
    above: int = settings.number(
        "Sign-off above so many messages",
        whole(0, MAX_ABOVE, wrong="must be a whole number within {}..{}."),
        note="Messages that the same person decided on in the last hour, with the same action, count too.",
    )


class MessagesAt(NamedTuple):
    """Counts of members by `addresses` (where they are, return to or are redirected to), and of `earlier` messages.

    Earlier ones are those of other operations of the same person, with the same action, in the last hour.
    """

    addresses: frozenset[str]
    members: int
    earlier: int = 0


@dataclass(frozen=True)
class SignOffNeeded:
    """The limit that an operation exceeds, and by what: `count` members, and `earlier` messages (`MessagesAt`)."""

    match: str
    action: str | None
    above: int
    count: int
    earlier: int

    @property
    def excess(self) -> str:
        """Return by how much the limit is exceeded.

        >>> SignOffNeeded("invoices.*", None, 500, 1, 500).excess
        '1 message after 500 in the last hour, the limit at invoices.* is 500'
        """
        earlier = f" after {self.earlier:,} in the last hour" if self.earlier else ""
        messages = f"{self.count:,} message{'' if self.count == 1 else 's'}{earlier}"
        return f"{messages}, the limit at {self.match} is {self.above:,}"

    @property
    def sentence(self) -> str:
        """Return why another person has to sign off.

        >>> SignOffNeeded("invoices.*", None, 500, 1700, 0).sentence
        'Another person has to sign off: 1,700 messages, the limit at invoices.* is 500.'
        """
        return f"Another person has to sign off: {self.excess}."


def strictest(limits: Sequence[SignOffLimit], messages: Iterable[MessagesAt]) -> SignOffNeeded | None:
    """Return the lowest of the limits that are exceeded, None where none is.

    A message counts for a pattern that matches one of its addresses.

    >>> limits = [SignOffLimit(match="#", above=5), SignOffLimit(match="a.*", action="fail", above=2)]
    >>> strictest(limits, [MessagesAt(frozenset({"a.dlq", "a.x"}), 2), MessagesAt(frozenset({"b"}), 3)]) is None
    True
    >>> strictest(limits, [MessagesAt(frozenset({"dlq", "a.x"}), 2, earlier=1), MessagesAt(frozenset({"b"}), 3)])
    SignOffNeeded(match='a.*', action='fail', above=2, count=2, earlier=1)
    """
    index = PatternIndex(limit.match for limit in limits)
    counts = dict.fromkeys(index.patterns, (0, 0))
    for one in messages:
        for pattern in {pattern for address in one.addresses for pattern in index.matching(address)}:
            members, earlier = counts[pattern]
            counts[pattern] = (members + one.members, earlier + one.earlier)
    exceeded = [
        SignOffNeeded(limit.match, limit.action, limit.above, *counts[limit.match])
        for limit in limits
        if counts[limit.match][0] and sum(counts[limit.match]) > limit.above
    ]
    return min(exceeded, key=lambda one: (one.above, one.match, one.action or ""), default=None)
