"""The ledger of an operation: every member of its selection is counted under exactly one outcome."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from poisonadmin.messages.domain.member_outcomes import RECORDED, MemberOutcome


@dataclass(frozen=True)
class Ledger:
    """Counts of members by outcome."""

    delivered: int = 0
    confirmed: int = 0
    failed_same: int = 0
    failed_new: int = 0
    blacklisted: int = 0
    skipped: int = 0
    waiting: int = 0
    unanswered: int = 0
    cancelled: int = 0
    changed: int = 0

    @property
    def total(self) -> int:
        """Return how many members there are."""
        return sum(getattr(self, field.name) for field in fields(self))

    @property
    def done(self) -> int:
        """Return how many members are accounted for."""
        return self.total - self.waiting - self.unanswered


def ledger(recorded: Mapping[str, int], *, count: int, walked: int, changed: int, is_cancelled: bool = False) -> Ledger:
    """Return the ledger of an operation on `count` members, of which it has looked at `walked`.

    `recorded`: how many members have a row of each outcome. `changed`: those that had nothing to wait for, and have
    none.

    >>> cancelled = ledger({"delivered": 3, "skipped": 1}, count=10, walked=6, changed=0, is_cancelled=True)
    >>> (cancelled.delivered, cancelled.unanswered, cancelled.cancelled, cancelled.total)
    (3, 2, 4, 10)
    """
    known = {str(one): recorded.get(one, 0) for one in RECORDED}
    known[MemberOutcome.CHANGED] += changed
    known[MemberOutcome.CANCELLED] += count - walked if is_cancelled else 0
    return Ledger(**known, unanswered=count - sum(known.values()))
