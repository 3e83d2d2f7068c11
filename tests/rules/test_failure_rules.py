"""Which failures a rule overrides, and what with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from poisonadmin.messages.domain.states import State, check
from poisonadmin.policies.domain.policy import BUILT_IN
from poisonadmin.policies.domain.retry_decision import PlainTry, RetryDecision, on_failure
from poisonadmin.rules.domain.failure_rules import compile_failure_rule, first_match, overridden
from poisonadmin.rules.domain.rules import RuleDefinition


@dataclass(frozen=True)
class Failure:
    """A failed attempt."""

    address: str = "orders.eu"
    destination: str | None = "shop"
    error_class: str | None = "HttpStatusError"
    cause_class: str | None = "DeadlockDetected"
    error_message: str | None = "503 Service Unavailable\nbusy"
    status_code: int | None = 503
    attempt_number: int = 5
    failures: int = 3
    tags: Sequence[str] = ("large", "push")


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        ({}, True),
        ({"address": "orders.#"}, True),
        ({"address": "returns.#"}, False),
        ({"destination": "sh*"}, True),
        ({"destination": "bank"}, False),
        ({"exception_class": "Http*"}, True),
        ({"exception_class": "Deadlock*"}, True),
        ({"exception_class": "*Timeout"}, False),
        ({"message": "503*busy"}, True),
        ({"message": "busy"}, False),
        ({"status_code": {"min": 500, "max": 599}}, True),
        ({"status_code": {"max": 499}}, False),
        ({"attempts": {"min": 5}}, True),
        ({"attempts": {"min": 6}}, False),
        ({"failures": {"min": 3, "max": 3}}, True),
        ({"failures": {"max": 2}}, False),
        ({"tags": ["push"]}, True),
        ({"tags": ["push", "odd"]}, False),
        ({"status_code": {"min": 500}, "tags": ["odd"]}, False),
    ],
)
def test_a_condition_holds(match: dict[str, Any], holds: bool) -> None:
    assert compile_failure_rule(RuleDefinition(1, "r", 1, match, {"do": "park"})).holds(Failure()) is holds


@pytest.mark.parametrize("match", [{"status_code": {"min": 100}}, {"destination": "*x"}, {"message": "*x"}])
def test_what_is_not_there_meets_no_condition(match: dict[str, Any]) -> None:
    silent = Failure(destination=None, error_message=None, status_code=None)
    assert not compile_failure_rule(RuleDefinition(1, "r", 1, match, {"do": "park"})).holds(silent)


def given(action: dict[str, Any]) -> RetryDecision:
    """Return what becomes of the policy's decision on the last failure of all."""
    exhausted = on_failure(BUILT_IN, PlainTry(id=1, attempt_number=10, failure_count=9, address="orders.eu"))
    rule = compile_failure_rule(RuleDefinition(1, "busy", 1, {}, action))
    decision = overridden(exhausted, rule, delay_ms=40_000)
    check(State.DLNG, decision.event, decision.state)
    return decision


@pytest.mark.parametrize(
    ("action", "state", "reason", "delay_ms", "move_to", "count"),
    [
        ({"do": "retry", "delay_ms": 1000}, "TBDL", None, 1000, None, 10),
        ({"do": "retry", "factor": 1.5}, "TBDL", None, 60_000, None, 10),
        ({"do": "park"}, "NDLV", "rule", None, None, 10),
        ({"do": "fail"}, "FAIL", "discarded_by_policy", None, None, 10),
        ({"do": "redirect", "address": "orders.slow"}, "TBDL", None, 0, "orders.slow", 0),
        ({"do": "end_conversation"}, "FAIL", "conversation_ended", None, None, 10),
    ],
)
def test_a_rule_overrides_the_policy_and_says_so(
    action: dict[str, Any],
    state: str,
    reason: str | None,
    delay_ms: int | None,
    move_to: str | None,
    count: int,
) -> None:
    decision = given(action)
    assert (str(decision.state), decision.reason) == (state, reason)
    assert (decision.delay_ms, decision.move_to, decision.failure_count) == (delay_ms, move_to, count)
    assert decision.note == f"rule busy: {action['do']}"


def test_the_first_match_decides() -> None:
    rules = [
        compile_failure_rule(RuleDefinition(1, "other", 1, {"address": "returns.#"}, {"do": "fail"})),
        compile_failure_rule(RuleDefinition(2, "busy", 1, {"status_code": {"min": 500}}, {"do": "park"})),
        compile_failure_rule(RuleDefinition(3, "all", 1, {}, {"do": "fail"})),
    ]
    found = first_match(rules, Failure())
    assert found is not None
    assert found.rule.id == 2
    assert first_match(rules[:1], Failure()) is None
