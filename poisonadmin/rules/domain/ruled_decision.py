"""The decision on a message that a content rule kept from being delivered."""

from dataclasses import replace

from poisonadmin.messages.domain.states import Event, Reason, State
from poisonadmin.policies.domain.answer_decision import MAX_HOPS, on_conversation_ended
from poisonadmin.policies.domain.retry_decision import TOO_MANY_FAILURES, ConversationEnd, RetryDecision
from poisonadmin.rules.domain.rules import Before


def on_ruled(do: Before, address: str | None, *, failure_count: int, hops: int, why: str = "") -> RetryDecision:
    """Return the decision on a message that a content rule kept from being delivered. What it is suspected of stays.

    `address`: where it is redirected to; `hops`: its moves before. Redirections that go round end with a person.
    `why`: the rule, in words.
    """
    match do:
        case Before.REDIRECT if address is not None and hops < MAX_HOPS:
            return RetryDecision(State.TBDL, Event.REDIRECTED, None, 0, address, 0)
        case Before.REDIRECT:
            return RetryDecision(State.NDLV, Event.REDIRECTED, Reason.RULE, None, None, failure_count)
        case Before.END_CONVERSATION:
            return replace(
                on_conversation_ended(failure_count, ConversationEnd(TOO_MANY_FAILURES.code, why)),
                candidate=None,
                crash_count=None,
            )
        case Before.DISCARD:
            return RetryDecision(State.FAIL, Event.REJECTED, Reason.DISCARDED_BY_POLICY, None, None, failure_count)
    return RetryDecision(State.NDLV, Event.REJECTED, Reason.REJECTED, None, None, failure_count)
