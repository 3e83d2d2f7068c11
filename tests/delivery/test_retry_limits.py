"""What lies ahead of a message agrees with what the decisions do."""

from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.messages.domain.states import State
from poisonadmin.policies.domain.policy import ExceptionDestination, OnExhausted, Policy
from poisonadmin.policies.domain.retry_decision import PlainTry, on_failure
from poisonadmin.policies.domain.retry_limits import attempts_in_all, breakers

LIMITS = st.integers(0, 6)
POLICIES = st.builds(
    Policy,
    max_delivery_attempts=st.sampled_from([-1, 1, 2, 5]),
    max_failed_deliveries=LIMITS,
    exception_destination=st.sampled_from(list(ExceptionDestination)),
    backout_threshold=LIMITS,
    failures_to_list=LIMITS,
    dead_letter_address=st.sampled_from([None, "dead", "orders"]),
    on_exhausted=st.sampled_from(list(OnExhausted)),
)
TRIED = 10


@given(POLICIES)
def test_the_last_attempt_is_the_one_after_which_no_other_follows(policy: Policy) -> None:
    ends = None
    for count in range(TRIED):
        decision = on_failure(policy, PlainTry(id=1, attempt_number=count + 1, failure_count=count, address="orders"))
        if decision.state is not State.TBDL:
            ends = count + 1
            break
    assert attempts_in_all(policy, "orders") == ends


@given(st.integers(0, 6), st.integers(0, 6))
def test_a_breaker_that_needs_one_more_failure_falls_with_it(retries: int, count: int) -> None:
    policy = Policy(listener_max_retries=retries)
    [breaker] = breakers(policy, failure_count=count, rollbacks_in_row=0, conversation_failures=None)
    decision = on_failure(policy, PlainTry(id=1, attempt_number=1, failure_count=count, address="orders"))
    assert decision.stop_address is (breaker.left == 1)


def test_only_the_breakers_in_force_are_named() -> None:
    assert breakers(Policy(), failure_count=3, rollbacks_in_row=3, conversation_failures=3) == ()
    policy = Policy(queue_off_after_rollbacks=5, conversation_failure_limit=4)
    found = breakers(policy, failure_count=0, rollbacks_in_row=4, conversation_failures=2)
    assert [one.sentence for one in found] == [
        "one more roll-back stops the address (4 counted, queue_off_after_rollbacks 5)",
        "2 more failures end the conversation (2 counted, conversation_failure_limit 4)",
    ]
    alone = breakers(policy, failure_count=0, rollbacks_in_row=0, conversation_failures=None)
    assert [one.setting for one in alone] == ["queue_off_after_rollbacks"]
