"""The life of an operation: its states and what may follow what, its ledger, and the canary that halts it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import accumulate

from poisonadmin.messages.domain.outcomes import RECORDED, MemberOutcome


class OperationState(StrEnum):
    """WAITING_FOR_SIGN_OFF: nothing is done before another person consents. WAITING_FOR_VERSION: nothing is done before
    a version of its consumer is seen alive. HALTED: its canary stopped it, or who asked for it may not decide any more.

    CANCELLING: nothing more begins; what is under way ends, and the rest waits for a decision again. CANCELLED: that
    is so of every member.
    """

    WAITING_FOR_SIGN_OFF = "waiting_for_sign_off"
    WAITING_FOR_VERSION = "waiting_for_version"
    RUNNING = "running"
    PAUSED = "paused"
    HALTED = "halted"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    COMPLETED = "completed"


class OperationChange(StrEnum):
    """Changes that a person makes to an operation."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


WAITING, AWAITING, RUNNING, PAUSED, HALTED, CANCELLING, CANCELLED, COMPLETED = OperationState

# Their operations have not ended.
OPEN_STATES = (WAITING, AWAITING, RUNNING, PAUSED, HALTED, CANCELLING)
# The states that a tick carries on with, and what each ends in.
ENDS = {RUNNING: COMPLETED, CANCELLING: CANCELLED}
CHANGES: dict[OperationChange, tuple[tuple[OperationState, ...], OperationState]] = {
    OperationChange.PAUSE: ((AWAITING, RUNNING), PAUSED),
    # One that still waits for a version goes on waiting.
    OperationChange.RESUME: ((PAUSED, HALTED), RUNNING),
    OperationChange.CANCEL: ((WAITING, AWAITING, RUNNING, PAUSED, HALTED), CANCELLING),
}


def changes_of(state: OperationState) -> tuple[OperationChange, ...]:
    """Return what a person may do to an operation in this state.

    >>> [str(change) for change in changes_of(OperationState.PAUSED)]
    ['resume', 'cancel']
    """
    return tuple(change for change, (starts, _) in CHANGES.items() if state in starts)


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


# How many members each stage of a canary tries, and how many have been decided on at its end.
STAGE_SIZES = (1, 10, 100)
STAGE_ENDS = tuple(accumulate(STAGE_SIZES))


@dataclass(frozen=True)
class CanaryStep:
    """A stage of a canary and how many members it tries; the last one is all that is left. `state`: done or
    waiting, and in between that of the operation."""

    size: int
    state: str


def canary_steps(state: str, *, count: int, walked: int, answered: int) -> list[CanaryStep]:
    """Return the stages of an operation in a state that has decided on `walked` of `count` members.

    >>> [(step.size, step.state) for step in canary_steps(RUNNING, count=5000, walked=111, answered=11)]
    [(1, 'done'), (10, 'done'), (100, 'running'), (4889, 'waiting')]
    >>> [(step.size, step.state) for step in canary_steps(HALTED, count=7, walked=1, answered=1)]
    [(1, 'halted'), (6, 'waiting')]
    """
    steps = []
    for start, stage_end in zip((0, *STAGE_ENDS), (*STAGE_ENDS, count), strict=True):
        end = min(stage_end, count)
        if start >= end:
            break
        is_over = walked > end or (answered >= end and state != HALTED)
        has_begun = walked > start or (start == 0 and state == RUNNING)
        steps.append(CanaryStep(end - start, "done" if is_over else str(state) if has_begun else "waiting"))
    return steps


# Of those that were answered. One alone may fail by chance once there are enough others.
MOST_FAILED_SHARE = 0.1


def why_halt(ledger: Ledger, held: int = 0) -> str | None:
    """Return why the operation should stop by itself, None when it should not.

    `held`: how many of those that its canary tries wait behind one that was stopped again, and would do so for ever.

    >>> why_halt(Ledger(delivered=10, unanswered=5)), why_halt(Ledger(delivered=20, failed_same=1))
    (None, None)
    >>> why_halt(Ledger(delivered=4, failed_same=1))
    '1 of 5 failed again (20 %).'
    >>> why_halt(Ledger(delivered=99, failed_new=1))
    '1 failed with another failure than before.'
    >>> why_halt(Ledger(delivered=10, failed_same=1, unanswered=2), held=2)
    '2 wait behind messages of their conversations that were stopped again.'
    """
    if ledger.blacklisted:
        return f"{ledger.blacklisted:,} crashed the consumer."
    if ledger.failed_new:
        return f"{ledger.failed_new:,} failed with another failure than before."
    answered = ledger.delivered + ledger.confirmed + ledger.failed_same
    if answered and ledger.failed_same / answered > MOST_FAILED_SHARE:
        share = 100 * ledger.failed_same / answered
        return f"{ledger.failed_same:,} of {answered:,} failed again ({share:.0f} %)."
    if held:
        return f"{held:,} wait behind messages of their conversations that were stopped again."
    return None
