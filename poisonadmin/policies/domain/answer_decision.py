"""Decisions on messages that neither succeeded nor failed: those of their consumers, and of content rules."""

from collections.abc import Sequence

from poisonadmin.messages.domain.states import Event, Reason, State
from poisonadmin.policies.domain.policy import Policy
from poisonadmin.policies.domain.retry_decision import (
    ConversationEnd,
    RetryDecision,
    TriedMessage,
    on_failure,
)
from poisonadmin.policies.domain.retry_schedule import delay_ms, jitter

# A way that is longer ends with a person, whether or not it leads back.
MAX_HOPS = 32


def on_discarded(failure_count: int) -> RetryDecision:
    """Return the decision on a message that its handler discarded (R4)."""
    reason = Reason.DISCARDED_BY_POLICY
    return RetryDecision(State.FAIL, Event.DISCARDED, reason, None, None, failure_count, candidate=False, crash_count=0)


def on_moved(address: str) -> RetryDecision:
    """Return the decision on a message that its handler moved: due at once there, where nothing has failed yet."""
    return RetryDecision(State.TBDL, Event.MOVED, None, 0, address, 0, candidate=False, crash_count=0)


def parked_in_circle(decision: RetryDecision, tried: TriedMessage, left: Sequence[str]) -> RetryDecision:
    """Return the decision, or, where it would move the message in a circle, one that parks it where it is (R15).

    `left`: the addresses that it was moved away from since a person last decided on it, in their order.
    """
    if decision.move_to is None or (decision.move_to not in left and len(left) < MAX_HOPS):
        return decision
    why = "it would be moved in a circle" if decision.move_to in left else f"it was moved {len(left)} times"
    way = f"{why}: {' > '.join([*left, tried.address, decision.move_to])}"
    return RetryDecision(
        State.NDLV,
        decision.event,
        Reason.DEAD_LETTER_LOOP,
        None,
        None,
        max(decision.failure_count, tried.failure_count),
        candidate=decision.candidate,
        crash_count=decision.crash_count,
        note=f"{decision.note}; {way}" if decision.note else way,
    )


def on_rolled_back(policy: Policy, tried: TriedMessage) -> RetryDecision:
    """Return the decision on a message that its handler put back.

    Where the policy counts roll-backs, it is a failure of the message (R3). Else nothing is counted, and it
    waits as after its first failure.
    """
    if policy.rollbacks_count_as_failures:
        return on_failure(policy, tried, event=Event.ROLLED_BACK)
    sign, fraction = jitter(tried.id, tried.attempt_number)
    wait = delay_ms(policy, 1, sign=sign, fraction=fraction)
    return RetryDecision(State.TBDL, Event.ROLLED_BACK, None, wait, None, tried.failure_count)


def on_conversation_ended(failure_count: int, error: ConversationEnd | None) -> RetryDecision:
    """Return the decision on the message with which its consumer ended a conversation (R6).

    Without an error the message is delivered, with one it is given up.
    """
    event = Event.CONVERSATION_ENDED
    if error is None:
        return RetryDecision(State.DLVD, event, None, None, None, 0, candidate=False, crash_count=0)
    return RetryDecision(
        State.FAIL,
        event,
        Reason.CONVERSATION_ENDED,
        None,
        None,
        failure_count,
        candidate=False,
        crash_count=0,
        note=error.note,
        conversation_error=error,
    )
