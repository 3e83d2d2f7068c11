"""The series of a message that goes on failing: one step a failure, as the policy decides on each."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from poisonadmin.policies.domain.hot_loops import AT_LEAST, IMMEDIATE_REDELIVERIES, WAIT_MS, is_paced, paced
from poisonadmin.policies.domain.policy import Policy
from poisonadmin.policies.domain.retry_decision import PlainTry, RetryDecision, TriedMessage, on_failure
from poisonadmin.policies.domain.retry_schedule import Explanation, explain


@dataclass(frozen=True)
class FailureStep:
    """The decision on the `failure`-th failure, which attempt `attempt_number` was. `terms`: of the wait after it.

    `rule_note`: the rule that decided in place of the policy, None for none.
    """

    attempt_number: int
    failure: int
    decision: RetryDecision
    terms: Explanation
    rule_note: str | None = None

    @property
    def wait_ms(self) -> int:
        """The wait until the next attempt; after the last one, what it would be if there were another."""
        return self.terms.delay if self.decision.delay_ms is None else self.decision.delay_ms

    @property
    def formula(self) -> str:
        """The terms of the wait in one line, with what makes it longer.

        >>> from poisonadmin.policies.domain.policy import ExceptionDestination
        >>> policy = Policy(max_failed_deliveries=1, exception_destination=ExceptionDestination.NONE)
        >>> next(series(policy)).formula
        '0 ms x 1^0 = 0, cap 0, at least blocked_retry_timeout 5000'
        """
        if self.rule_note is not None:
            return paced_formula(self.rule_note, self.decision.note)
        return wait_formula(self.terms, self.decision.delay_ms)


def paced_formula(formula: str, note: str | None) -> str:
    """Return the formula, with the second that R11 adds where the history's note says so.

    >>> paced_formula("", None)
    ''
    """
    if not is_paced(note):
        return formula
    return f"{formula}, {AT_LEAST}" if formula else AT_LEAST


def wait_formula(terms: Explanation, delay_ms: int | None) -> str:
    """Return the terms in one line, and why the wait that was decided on is longer than they give."""
    if delay_ms is None or delay_ms <= terms.delay:
        return terms.formula()
    if terms.delay == 0 and delay_ms == WAIT_MS:
        return f"{terms.formula()}, {AT_LEAST}"
    return f"{terms.formula()}, at least blocked_retry_timeout {delay_ms}"


# Asked with the attempt, the failure and the policy's decision; returns that one, or a rule's in its place.
Override = Callable[[int, int, RetryDecision], RetryDecision]


def series(
    policy: Policy,
    first: TriedMessage | None = None,
    *,
    conversation_failures: int | None = None,
    is_hot: bool = False,
    override: Override | None = None,
) -> Iterator[FailureStep]:
    """Yield a step for each failure to come, without end; what follows the last one of a limit repeats it.

    `first`: the first try to fail; None: of no message, and without jitter. `conversation_failures`: the count so far;
    None outside a conversation. `is_hot`: as for `paced`, before the first of these failures. `override`: the rules
    after failures.
    """
    tried = PlainTry(attempt_number=1) if first is None else first
    if first is None:
        policy = replace(policy, redelivery_collision_avoidance_factor=0.0)
    immediate = IMMEDIATE_REDELIVERIES if is_hot else 0
    for number in itertools.count():
        one = PlainTry(tried.id, tried.attempt_number + number, tried.failure_count + number, tried.address)
        failure = one.failure_count + 1
        in_conversation = None if conversation_failures is None else conversation_failures + number + 1
        by_policy = on_failure(policy, one, conversation_failures=in_conversation)
        decision = override(one.attempt_number, failure, by_policy) if override else by_policy
        rule_note = None if decision is by_policy else decision.note
        decision = paced(
            decision,
            policy,
            one.address,
            is_hot=immediate >= IMMEDIATE_REDELIVERIES,
            is_in_conversation=in_conversation is not None,
            is_by_rule=decision is not by_policy,
        )
        immediate += decision.delay_ms == 0
        terms = explain(policy, failure, one.id, one.attempt_number)
        yield FailureStep(one.attempt_number, failure, decision, terms, rule_note)
