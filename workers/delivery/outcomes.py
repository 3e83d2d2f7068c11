"""An answer as the row that `settle` reads and an administrator sees."""

from datetime import datetime
from functools import lru_cache
from typing import Any, Protocol

from poisonadmin.groups.domain.failures import Failure, fingerprint, title
from poisonadmin.messages.domain.attempt import AttemptRecord
from poisonadmin.messages.domain.outcome import Outcome
from workers.delivery.deliveries import Delivery

ROLLED_BACK = "RolledBack"

MAX_CLASS_CHARS = 255
MAX_MESSAGE_CHARS = 4096
MAX_STACK_CHARS = 64 * 1024
MAX_TITLE_CHARS = 300
MAX_VERSION_CHARS = 100


class RunIdentity(Protocol):
    """The shard and the clock of deliveries: those of a run, or of a lost one whose journal is read."""

    @property
    def claim_id(self) -> int | None: ...
    @property
    def shard(self) -> int | None: ...
    @property
    def offset(self) -> float: ...


def attempt_row(
    run: RunIdentity, delivery: Delivery, outcome: Outcome, times: tuple[datetime | None, datetime], **columns: Any
) -> AttemptRecord:
    """Return the row of an attempt; `times` are when it was begun and when it ended."""
    return AttemptRecord(
        message_id=delivery.message_id,
        attempt_number=delivery.attempt_number,
        claim_id=run.claim_id,
        shard=run.shard,
        destination_id=delivery.destination_id,
        started_at=times[0],
        finished_at=times[1],
        outcome=outcome,
        **columns,
    )


def fail(attempt: AttemptRecord, failure: Failure, outcome: Outcome = Outcome.FAILED) -> AttemptRecord:
    """Write into an attempt that it failed, crashed or was rolled back, and why; return it."""
    mark, line = _group_of(failure)
    attempt.outcome = outcome
    attempt.error_class = storable(failure.exception_class, MAX_CLASS_CHARS)
    attempt.cause_class = None if failure.cause_class is None else storable(failure.cause_class, MAX_CLASS_CHARS)
    attempt.error_message = storable(failure.message, MAX_MESSAGE_CHARS)
    attempt.stack = storable(failure.stack, MAX_STACK_CHARS) or None
    attempt.fingerprint = mark
    attempt.title = storable(line, MAX_TITLE_CHARS)
    return attempt


def roll_back(attempt: AttemptRecord, why: str | None) -> AttemptRecord:
    """Write into an attempt that its consumer rolled it back; a policy may count that as a failure (R3)."""
    failure = Failure(ROLLED_BACK, why or "The consumer rolled the message back.")
    return fail(attempt, failure, Outcome.ROLLED_BACK)


def row_of_rule(run: RunIdentity, delivery: Delivery, *, finished_at: datetime) -> AttemptRecord:
    """Return the row of a message that a content rule keeps from being delivered."""
    decision = delivery.decision
    assert decision is not None
    return attempt_row(
        run,
        delivery,
        Outcome.RULED,
        (None, finished_at),
        error_message=storable(decision.note, MAX_MESSAGE_CHARS),
        move_to=decision.address,
        rule_id=decision.rule_id,
        ruling=decision.action,
    )


@lru_cache(maxsize=4096)
def _group_of(failure: Failure) -> tuple[str, str]:
    """Return fingerprint and title; a destination that is down fails with the same words a thousand times."""
    return fingerprint(failure), title(failure)


def storable(text: str, max_chars: int) -> str:
    """Return `text` cut, and without what PostgreSQL cannot keep: NUL and lone surrogates.

    >>> storable("a\\0b\\udcff", 10)
    'a�b?'
    """
    return text[:max_chars].replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
