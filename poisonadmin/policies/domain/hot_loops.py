"""No hot loops: what nothing ends is not delivered again and again without a pause (R11)."""

from dataclasses import replace

from poisonadmin.messages.domain.states import Event, State
from poisonadmin.policies.domain.policy import Policy
from poisonadmin.policies.domain.retry_decision import RetryDecision, counted_events
from poisonadmin.policies.domain.retry_limits import attempts_in_all

IMMEDIATE_REDELIVERIES = 10
WITHIN_SECONDS = 10
WAIT_MS = 1000
NOTE = (
    f"delivered again {IMMEDIATE_REDELIVERIES} times without a wait within {WITHIN_SECONDS} s, "
    f"and nothing ends this: the next delivery waits {WAIT_MS} ms"
)
AT_LEAST = f"at least {WAIT_MS} since nothing ends the redeliveries"  # how a formula says it


def is_endless(policy: Policy, event: Event, address: str, *, is_in_conversation: bool) -> bool:
    """Return whether a message that goes on ending its deliveries with `event` is delivered for ever.

    >>> is_endless(Policy(), Event.FAILED, "orders", is_in_conversation=False)
    True
    >>> is_endless(Policy(conversation_failure_limit=4), Event.FAILED, "orders", is_in_conversation=True)
    False
    """
    if event in counted_events(policy):
        if attempts_in_all(policy, address) is not None or policy.listener_max_retries is not None:
            return False
        if event is Event.FAILED:
            return not (policy.conversation_failure_limit > 0 and is_in_conversation)
    if policy.queue_off_after_rollbacks > 0:
        return False
    return event is Event.ROLLED_BACK or not (policy.blacklisting_enabled or policy.crashes_to_list > 0)


def paced(
    decision: RetryDecision,
    policy: Policy,
    address: str,
    *,
    is_hot: bool,
    is_in_conversation: bool,
    is_by_rule: bool = False,
) -> RetryDecision:
    """Return the decision; with a wait of one second where it would go on an endless series without any.

    `is_hot`: ten immediate redeliveries lie within the last ten seconds, or the delivery before waited that second.
    `is_by_rule`: a rule has decided in place of the policy, none of whose limits then ends the series.
    """
    is_immediate = decision.state is State.TBDL and decision.delay_ms == 0
    if not is_hot or not is_immediate or decision.stop_address or decision.move_to is not None:
        return decision
    if not is_by_rule and not is_endless(policy, decision.event, address, is_in_conversation=is_in_conversation):
        return decision
    return replace(decision, delay_ms=WAIT_MS, note=f"{decision.note}; {NOTE}" if decision.note else NOTE)


def is_paced(note: str | None) -> bool:
    """Return whether the history's note says that the second was waited."""
    return note is not None and note.endswith(NOTE)
