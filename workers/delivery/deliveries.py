"""A claimed message on its way, the row of its attempt, and the counts of a run that delivers such messages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from poisonadmin.core.domain.addresses import ANY_WORDS
from poisonadmin.groups.domain.failures import Failure, fingerprint, title
from poisonadmin.messages.domain.attempt import AttemptRecord
from poisonadmin.messages.domain.outcomes import Outcome
from poisonadmin.policies.domain.retry_decision import TOO_MANY_FAILURES
from poisonadmin.rules.domain.content_rules import FilterDecision
from poisonadmin.rules.domain.rules import Before


@dataclass(slots=True, eq=False)
class Delivery:
    """One claimed message, from its claim to its outcome. Times are Unix seconds by the database's clock.

    `start_at`: its slot, never begun earlier (None: at once); `rate_per_second`: the rate that the slot is of.
    `start_before`: where the slots of its claim end; not begun from then on, nor from `expires_at` on.
    `chain`: the ordered conversation it belongs to, delivered one after the other, up to the first that is not.
    `delivery_count`: failures so far, deliveries whose outcome was lost, and this one; `is_redelivered`: it was begun
    before. `original_address`: where it was before it was moved, `original_queue` its queue there, where it is the
    child of a dead letter. `decision`: a content rule's; then it is not delivered. `is_begun`: a handler has it.
    `transport`: the report of the broker that it came from, as JSON (workers/brokers/contract.py), for a destination
    that is a broker.
    """

    message_id: int
    attempt_number: int
    destination_id: int
    address: str
    producer_message_id: str
    content_type: str
    conversation_id: str | None = None
    payload_bytes: int = 0
    start_at: float | None = None
    rate_per_second: float | None = None
    operation_id: int | None = None
    expires_at: float | None = None
    bookmark: str | None = None
    chain: int | None = None
    delivery_count: int = 1
    is_redelivered: bool = False
    original_address: str | None = None
    is_child: bool = False
    # These are read a slice at a time, when it is soon to begin.
    headers: dict[str, str] = field(default_factory=dict)
    payload: bytes = b""
    transport: bytes | None = None
    original_queue: str | None = None
    start_before: float | None = None
    decision: FilterDecision | None = None
    is_begun: bool = False

    @property
    def origin(self) -> dict[str, str]:
        """The headers that say where a moved message comes from (R12, ART-11)."""
        if self.original_address is None:
            return {}
        found = {"PoisonAdmin-Original-Address": self.original_address}
        if self.original_queue is not None:
            found |= {"_AMQ_ORIG_ADDRESS": self.original_address, "_AMQ_ORIG_QUEUE": self.original_queue}
        return found


class ConfiguredDestination(NamedTuple):
    """A destination as it is configured. `owner`: the pattern of the addresses that its consumer may move messages to.

    `slots`: the part of its concurrency that a task has; None: all of it.
    """

    id: int = 0
    name: str = ""
    owner: str = ANY_WORDS
    kind: str = ""
    config: Mapping[str, Any] = {}
    secrets: Mapping[str, str] | None = None
    slots: int | None = None


@dataclass(frozen=True)
class TaskDestination:
    """A destination as a task uses it.

    `owner`: as its row has it. `broken`: why it cannot be used; each delivery then fails with that.
    """

    id: int
    name: str
    owner: str = field(default=ANY_WORDS, kw_only=True)
    broken: str | None = field(default=None, kw_only=True)


@dataclass(slots=True)
class Tally:
    """Counts of one destination in one run; `transport_failures` are those without an HTTP status.

    `seconds`: how long the deliveries took, together. `ruled`: messages that content rules kept from being delivered.
    """

    begun: int = 0
    delivered: int = 0
    failed: int = 0
    transport_failures: int = 0
    seconds: float = 0.0
    not_begun: int = 0
    ruled: int = 0


ROLLED_BACK = "RolledBack"
CONVERSATION_ERROR = "ConversationError"

MAX_CLASS_CHARS = 255
MAX_MESSAGE_CHARS = 4096
MAX_STACK_CHARS = 64 * 1024
MAX_TITLE_CHARS = 300
MAX_VERSION_CHARS = 100


@dataclass(slots=True)
class RunIdentity:
    """The shard and the clock of deliveries: those of a run, or of a lost one whose journal is read.

    `offset`: what added to the monotonic clock gives the database's Unix time.
    """

    claim_id: int | None
    shard: int | None
    offset: float


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


def end_conversation(attempt: AttemptRecord, code: int | None, why: str | None) -> AttemptRecord:
    """Write into an attempt that it ended its conversation; with an error, which has a code, that is a failure (R6)."""
    if code is not None:
        fail(attempt, Failure(f"{CONVERSATION_ERROR} {code}", why or ""), Outcome(attempt.outcome))
    attempt.error_message, attempt.error_code = why, code
    return attempt


def row_of_rule(run: RunIdentity, delivery: Delivery, *, finished_at: datetime) -> AttemptRecord:
    """Return the row of a message that a content rule keeps from being delivered."""
    decision = delivery.decision
    assert decision is not None
    attempt = attempt_row(
        run,
        delivery,
        Outcome.RULED,
        (None, finished_at),
        error_message=storable(decision.note, MAX_MESSAGE_CHARS),
        move_to=decision.address,
        rule_id=decision.rule_id,
        rule_action=decision.action,
    )
    if decision.action != Before.END_CONVERSATION:
        return attempt
    return end_conversation(attempt, TOO_MANY_FAILURES.code, attempt.error_message)


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
