"""The policy's decision on a message after an attempt that failed or crashed.

Each limit is one function that says nothing or gives the decision; they are asked in a fixed order, and the threshold
is compared before any delay is computed (ART-19, WAS-13).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from poisonadmin.messages.domain.states import Event, Reason, State
from poisonadmin.policies.domain.policy import (
    SYSTEM_DEAD_LETTER_QUEUE,
    ExceptionDestination,
    OnExhausted,
    Policy,
    system_exception_destination,
)
from poisonadmin.policies.domain.retry_schedule import MAX_RETRY_AFTER_MS, delay_ms, jitter

BACKOUT_THRESHOLD_REACHED = "MQRC_BACKOUT_THRESHOLD_REACHED (2362)"


@dataclass(frozen=True)
class ConversationEnd:
    """The error with which a conversation ends."""

    code: int
    description: str

    @property
    def note(self) -> str:
        """The note in the history."""
        return f"conversation ended with error {self.code}: {self.description}"


TOO_MANY_FAILURES = ConversationEnd(500, "Unable to process message.")  # SSB-10


@dataclass(frozen=True)
class RetryDecision:
    """The values to write for one message. None in `candidate` and `crash_count` leaves the stored value alone."""

    state: State
    event: Event
    reason: Reason | None
    delay_ms: int | None  # wait before it is due; None in every state but TBDL
    move_to: str | None  # the address it is on from now; None: where it was
    failure_count: int  # to be stored
    stop_address: bool = False  # nothing more is claimed from its address until a person resumes it
    create_child: bool = False  # enqueue a child at `move_to` when that address has a destination of its own
    queue: str | None = None  # the queue auto-created for its origin under `move_to`
    candidate: bool | None = None
    crash_count: int | None = None
    reason_code: str | None = None  # why it was moved, in the words of the system that the policy follows
    note: str | None = None  # which rule gave it in place of the policy, or its system's words; kept in the history
    conversation_error: ConversationEnd | None = None  # the error with which it ends its conversation


@dataclass(frozen=True)
class DeadLetterTarget:
    """The address to which an exhausted message goes; `queue` is auto-created there for its origin, or None."""

    address: str
    queue: str | None


class TriedMessage(Protocol):
    """A message that was tried, as decisions see it; `failure_count` is the count before this try."""

    @property
    def id(self) -> int: ...
    @property
    def attempt_number(self) -> int: ...
    @property
    def failure_count(self) -> int: ...
    @property
    def address(self) -> str: ...


class PlainTry(NamedTuple):
    """A `TriedMessage` of which nothing else is known."""

    id: int = 0
    attempt_number: int = 0
    failure_count: int = 0
    address: str = ""


@dataclass(frozen=True)
class _Failed:
    """A failure that is decided on; `count` includes it."""

    policy: Policy
    address: str
    count: int
    conversation_failures: int | None
    wait: int
    event: Event


def on_failure(
    policy: Policy,
    tried: TriedMessage,
    *,
    retry_after_ms: int | None = None,
    conversation_failures: int | None = None,
    event: Event = Event.FAILED,
) -> RetryDecision:
    """Return the decision on a begun attempt that failed.

    `conversation_failures` is the conversation's count with this failure, None outside a conversation.
    `retry_after_ms` is the destination's own lower bound of the wait, heeded up to a day. `event`: how it failed, where
    the policy counts crashes or roll-backs as failures (R3).

    >>> from poisonadmin.policies.domain.policy import BUILT_IN
    >>> decision = on_failure(BUILT_IN, PlainTry(id=1, attempt_number=10, failure_count=9, address="orders"))
    >>> str(decision.state), str(decision.reason), decision.failure_count
    ('NDLV', 'attempts_exhausted', 10)
    """
    count = tried.failure_count + 1
    sign, fraction = jitter(tried.id, tried.attempt_number)
    wait = max(delay_ms(policy, count, sign=sign, fraction=fraction), min(retry_after_ms or 0, MAX_RETRY_AFTER_MS))
    failed = _Failed(policy, tried.address, count, conversation_failures, wait, event)
    for limit in LIMITS:
        decision = limit(failed)
        if decision is not None:
            return decision
    return _again(failed)


def on_crash(
    policy: Policy,
    tried: TriedMessage,
    crash_count: int,
    candidate: bool,
    *,
    is_counted: bool = True,
    event: Event = Event.CRASHED,
) -> RetryDecision:
    """Return the decision on a message that was begun when its process died (R2, SAP-4 to SAP-11).

    `crash_count` is the count before. `is_counted` is false for the loss of a whole node that only casts suspicion.
    `event` is `Event.CRASHED` or `Event.NODE_LOST`. The message is due at once and its `failure_count` stays, unless
    the policy counts crashes as failures: then it waits, and is exhausted, like any other failure (R3).
    """
    crashes = crash_count + int(is_counted)
    if is_counted and 0 < policy.crashes_to_list <= crashes:
        return RetryDecision(
            State.NDLV, event, Reason.LISTED, None, None, tried.failure_count, candidate=True, crash_count=crashes
        )
    if is_counted and policy.blacklisting_enabled and crashes >= policy.crash_limit:
        return RetryDecision(
            State.NDLV, event, Reason.BLACKLISTED, None, None, tried.failure_count, candidate=True, crash_count=crashes
        )
    if policy.crashes_count_as_failures:
        decision = on_failure(policy, tried, event=event)
    else:
        decision = RetryDecision(State.TBDL, event, None, 0, None, tried.failure_count)
    if policy.blacklisting_enabled:
        return replace(decision, candidate=True, crash_count=crashes)
    return replace(decision, candidate=candidate, crash_count=crash_count)


def counted_events(policy: Policy) -> frozenset[Event]:
    """Return the events that the policy counts as failures of a message (R3)."""
    crashes = (Event.CRASHED, Event.NODE_LOST) if policy.crashes_count_as_failures else ()
    rollbacks = (Event.ROLLED_BACK,) if policy.rollbacks_count_as_failures else ()
    return frozenset((Event.FAILED, *crashes, *rollbacks))


def dead_letter_target(policy: Policy, address: str) -> DeadLetterTarget | None:
    """Return where a message that is exhausted on `address` goes; None: nowhere (ART-13, ART-14).

    A message that fails on the dead-letter address itself stays there.

    >>> policy = Policy(dead_letter_address="dead", auto_create_dead_letter_resources=True)
    >>> dead_letter_target(policy, "stocks")
    DeadLetterTarget(address='dead', queue='DLQ.stocks')
    """
    target = policy.dead_letter_address
    if target is None or target == address:
        return None
    if not policy.auto_create_dead_letter_resources:
        return DeadLetterTarget(target, None)
    return DeadLetterTarget(target, f"{policy.dead_letter_queue_prefix}{address}{policy.dead_letter_queue_suffix}")


def _listener_retries(failed: _Failed) -> RetryDecision | None:
    retries = failed.policy.listener_max_retries
    if retries is None or failed.count < retries:
        return None
    return RetryDecision(State.TBDL, failed.event, None, failed.wait, None, failed.count, stop_address=True)


def _backout_threshold(failed: _Failed) -> RetryDecision | None:
    if not 0 < failed.policy.backout_threshold <= failed.count:
        return None
    queue = failed.policy.backout_requeue_queue
    if queue is not None:
        return _moved(failed, queue)
    return replace(_moved(failed, SYSTEM_DEAD_LETTER_QUEUE), reason_code=BACKOUT_THRESHOLD_REACHED)


def _failed_deliveries(failed: _Failed) -> RetryDecision | None:
    policy = failed.policy
    if not 0 < policy.max_failed_deliveries <= failed.count:
        return None
    if policy.exception_destination is ExceptionDestination.NONE:
        return _stays(failed)
    if policy.exception_destination is ExceptionDestination.SPECIFY and policy.exception_destination_address:
        return _moved(failed, policy.exception_destination_address)
    return _moved(failed, system_exception_destination(policy.messaging_engine))


def _delivery_attempts(failed: _Failed) -> RetryDecision | None:
    if not 0 < failed.policy.max_delivery_attempts <= failed.count:
        return None
    target = dead_letter_target(failed.policy, failed.address)
    if target is not None:
        return _moved(failed, target.address, target.queue)
    return ON_EXHAUSTED[failed.policy.on_exhausted](failed)


def _failures_to_list(failed: _Failed) -> RetryDecision | None:
    return _listed(failed) if 0 < failed.policy.failures_to_list <= failed.count else None


def _conversation_failures(failed: _Failed) -> RetryDecision | None:
    if failed.conversation_failures is None:
        return None
    reached = 0 < failed.policy.conversation_failure_limit <= failed.conversation_failures
    return _ends_conversation(failed) if reached else None


def _again(failed: _Failed) -> RetryDecision:
    return RetryDecision(State.TBDL, failed.event, None, failed.wait, None, failed.count)


def _stays(failed: _Failed) -> RetryDecision:
    wait = max(failed.wait, failed.policy.blocked_retry_timeout)
    return RetryDecision(State.TBDL, failed.event, None, wait, None, failed.count)


def _moved(failed: _Failed, address: str, queue: str | None = None) -> RetryDecision:
    if address == failed.address:
        return _parked(failed)
    reason = Reason.ATTEMPTS_EXHAUSTED
    return RetryDecision(State.NDLV, failed.event, reason, None, address, failed.count, create_child=True, queue=queue)


def _parked(failed: _Failed) -> RetryDecision:
    if failed.policy.fail_non_delivered:
        return _discarded(failed)
    return RetryDecision(State.NDLV, failed.event, Reason.ATTEMPTS_EXHAUSTED, None, None, failed.count)


def _discarded(failed: _Failed) -> RetryDecision:
    return RetryDecision(State.FAIL, failed.event, Reason.DISCARDED_BY_POLICY, None, None, failed.count)


def _listed(failed: _Failed) -> RetryDecision:
    return RetryDecision(State.NDLV, failed.event, Reason.LISTED, None, None, failed.count)


def _ends_conversation(failed: _Failed) -> RetryDecision:
    end, reason = TOO_MANY_FAILURES, Reason.CONVERSATION_ENDED
    return RetryDecision(
        State.FAIL, failed.event, reason, None, None, failed.count, note=end.note, conversation_error=end
    )


LIMITS: tuple[Callable[[_Failed], RetryDecision | None], ...] = (
    _listener_retries,
    _backout_threshold,
    _failed_deliveries,
    _delivery_attempts,
    _failures_to_list,
    _conversation_failures,
)

ON_EXHAUSTED: dict[OnExhausted, Callable[[_Failed], RetryDecision]] = {
    OnExhausted.PARK: _parked,
    OnExhausted.DISCARD: _discarded,
    OnExhausted.STAY: _stays,
    OnExhausted.END_CONVERSATION: _ends_conversation,
    OnExhausted.LIST: _listed,
}
