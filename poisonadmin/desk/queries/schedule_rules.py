"""Rules after failures in a message's schedule: the wait that one gave, and the decisions to come."""

from collections.abc import Sequence
from dataclasses import dataclass

from poisonadmin.messages.domain.outcome import Outcome
from poisonadmin.messages.domain.states import Event, State
from poisonadmin.messages.queries.detail_rows import AttemptRow, HistoryRow, MessageDetail
from poisonadmin.policies.domain import hot_loops
from poisonadmin.policies.domain.policy import Policy
from poisonadmin.policies.domain.retry_decision import RetryDecision
from poisonadmin.policies.domain.retry_limits import policy_wait
from poisonadmin.policies.domain.retry_series import Override
from poisonadmin.rules.domain.failure_rules import FailureRule, first_match, overridden


@dataclass(frozen=True)
class _Again:
    """A failure to come that is like the last one."""

    address: str
    destination: str | None
    error_class: str | None
    cause_class: str | None
    error_message: str | None
    status_code: int | None
    attempt_number: int
    failures: int
    tags: Sequence[str]


def retry_rule(row: HistoryRow) -> str | None:
    """Return the note of the rule that had a failed message wait, None where the policy decided.

    Nothing but a rule and the pace of R11 writes a note beside a failure that waits again.
    """
    if row.event != Event.FAILED or row.to_state != State.TBDL or row.note is None:
        return None
    return row.note.removesuffix(hot_loops.NOTE).removesuffix("; ") or None


def covering(rules: Sequence[FailureRule], address: str) -> list[FailureRule]:
    """Return the rules whose address column matches this address."""
    return [one for one in rules if one.rule.covers(address)]


def rules_sentence(rules: Sequence[FailureRule], address: str) -> list[str]:
    """Return a sentence on the rules that cover an address, or none."""
    match len(rules):
        case 0:
            return []
        case 1:
            return [f"1 rule on failures covers {address}; where it matches, it decides instead of the policy"]
        case many:
            return [f"{many} rules on failures cover {address}; the first that matches decides instead of the policy"]


def as_the_last(
    rules: Sequence[FailureRule], policy: Policy, message: MessageDetail, made: Sequence[AttemptRow], *, hops: int
) -> Override | None:
    """Return what the rules decide if each failure to come is like the last; None where nothing has failed yet."""
    last = next((one for one in made if one.outcome == Outcome.FAILED), None)
    if last is None or not rules:
        return None

    def override(attempt: int, failure: int, by_policy: RetryDecision) -> RetryDecision:
        again = _Again(
            address=message.address,
            destination=last.destination,
            error_class=last.error_class,
            cause_class=last.cause_class,
            error_message=last.error_message,
            status_code=last.status_code,
            attempt_number=attempt,
            failures=failure,
            tags=message.tags,
        )
        found = first_match(rules, again)
        if found is None:
            return by_policy
        wait = policy_wait(policy, by_policy, message_id=message.id, attempt_number=attempt)
        return overridden(by_policy, found, delay_ms=wait, hops=hops)

    return override
