"""Ruling R11: what nothing ends is not delivered again and again without a pause."""

from itertools import islice
from typing import Any

import pytest
from django.db import connection

from poisonadmin.delivery.commands.settle import settle
from poisonadmin.messages.domain.states import Event
from poisonadmin.policies.domain.answer_decision import on_rolled_back
from poisonadmin.policies.domain.hot_loops import NOTE, is_endless, paced
from poisonadmin.policies.domain.policy import ExceptionDestination, OnExhausted, Policy, preset
from poisonadmin.policies.domain.retry_decision import PlainTry, on_crash, on_failure
from poisonadmin.policies.domain.retry_series import series
from poisonadmin.store.models.history import History
from tests.fixtures.delivery import answer, claim, enqueue, make_destination
from tests.rules.ruled import rule

STAYS = Policy(max_failed_deliveries=1, exception_destination=ExceptionDestination.NONE, blocked_retry_timeout=0)


def waits_in_s(message: int, times: int) -> list[float]:
    """Let a message fail so often, at once each time; return the waits that the settles decided on."""
    waits = []
    for _ in range(times):
        with connection.cursor() as cursor:  # the test does not wait; what paces it is what the settle decided
            cursor.execute("UPDATE message SET due_at = now() WHERE due_at > now()")
            cursor.execute("UPDATE lane SET next_due = now() WHERE next_due > now()")
        claim()
        answer([message], "failed")
        settle()
        with connection.cursor() as cursor:
            cursor.execute("SELECT extract(epoch FROM due_at - state_at)::float8 FROM message")
            waits.append(cursor.fetchone()[0])
    return waits


@pytest.mark.conformance("R11")
@pytest.mark.parametrize("policy", [Policy(), STAYS, Policy(max_delivery_attempts=2, on_exhausted=OnExhausted.STAY)])
def test_the_eleventh_immediate_redelivery_and_each_later_one_wait_a_second(policy: Policy) -> None:
    if policy.on_exhausted is OnExhausted.STAY:
        policy = Policy(max_delivery_attempts=2, on_exhausted=OnExhausted.STAY, blocked_retry_timeout=0)
    waits = [step.wait_ms for step in islice(series(policy), 15)]
    assert waits == [0] * 10 + [1000] * 5


@pytest.mark.conformance("R11")
def test_what_has_an_end_or_a_wait_is_left_alone() -> None:
    for policy in (Policy(max_delivery_attempts=100), Policy(listener_max_retries=50), Policy(redelivery_delay=1)):
        assert max(step.wait_ms for step in islice(series(policy), 20)) < 1000
    assert [step.wait_ms for step in islice(series(Policy(), conversation_failures=0), 12)][-1] == 1000
    limited = Policy(conversation_failure_limit=50)
    assert max(step.wait_ms for step in islice(series(limited, conversation_failures=0), 20)) == 0


@pytest.mark.conformance("R11")
def test_crashes_and_roll_backs_without_an_end_are_paced_too() -> None:
    crashed = on_crash(Policy(), PlainTry(failure_count=0), 0, False)
    rolled_back = on_rolled_back(Policy(), PlainTry(id=1, attempt_number=12, failure_count=0))
    for decision in (crashed, rolled_back):
        cold = paced(decision, Policy(), "orders", is_hot=False, is_in_conversation=False)
        hot = paced(decision, Policy(), "orders", is_hot=True, is_in_conversation=False)
        assert (cold.delay_ms, hot.delay_ms) == (0, 1000)
    assert not is_endless(preset("sap"), Event.CRASHED, "orders", is_in_conversation=False)
    assert not is_endless(preset("service_broker"), Event.ROLLED_BACK, "orders", is_in_conversation=False)
    assert not is_endless(preset("artemis"), Event.CRASHED, "orders", is_in_conversation=False)


def test_a_message_that_moves_on_is_not_held_back() -> None:
    policy = Policy(max_failed_deliveries=1)
    moved = on_failure(policy, PlainTry(id=1, attempt_number=20, failure_count=19, address="orders"))
    assert paced(moved, policy, "orders", is_hot=True, is_in_conversation=False) is moved


@pytest.mark.conformance("R11")
@pytest.mark.parametrize("action", [{"delay_ms": 0}, {"factor": 0}])
def test_a_rule_that_retries_without_a_wait_is_paced_whatever_the_policy_ends(db: None, action: dict[str, Any]) -> None:
    make_destination(redelivery_delay=5000, max_delivery_attempts=10)
    rule("at once", {}, {"do": "retry", **action}, stage="after")
    [message] = enqueue()
    assert waits_in_s(message, 14) == [0] * 10 + [1] * 4
    assert History.objects.filter(message_id=message, note=f"rule at once: retry; {NOTE}").count() == 4


@pytest.mark.conformance("R11")
def test_a_rule_decides_on_the_policy_s_wait_and_not_on_the_second(db: None) -> None:
    make_destination(redelivery_delay=0, max_delivery_attempts=-1)
    rule("longer", {}, {"do": "retry", "factor": 5}, stage="after")
    [message] = enqueue()
    assert waits_in_s(message, 12) == [0] * 10 + [1] * 2


@pytest.mark.conformance("R11", "SSB-f")
def test_a_settle_paces_what_was_delivered_eleven_times_within_ten_seconds(db: None) -> None:
    make_destination(
        redelivery_delay=0, max_delivery_attempts=-1, conversation_failure_limit=4, blacklisting_enabled=False
    )
    [message] = enqueue()
    assert waits_in_s(message, 14) == [0] * 10 + [1] * 4
    assert History.objects.filter(message_id=message, note=NOTE).count() == 4
