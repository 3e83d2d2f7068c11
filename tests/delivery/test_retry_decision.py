"""What a failure, a success and a crash make of a message, policy by policy."""

from dataclasses import replace

import pytest

from poisonadmin.messages.domain.states import Reason, State, allowed, reasons
from poisonadmin.policies.domain.policy import BUILT_IN, ExceptionDestination, OnExhausted, Policy, preset
from poisonadmin.policies.domain.retry_decision import (
    DeadLetterTarget,
    PlainTry,
    RetryDecision,
    dead_letter_target,
    on_crash,
    on_failure,
)
from poisonadmin.policies.domain.retry_schedule import MAX_RETRY_AFTER_MS, delay_ms, jitter


def failing(policy: Policy, failure: int, *, address: str = "orders", conversation: int | None = None) -> RetryDecision:
    """Return the decision on the `failure`-th failure in a row of message 1."""
    return on_failure(
        policy,
        PlainTry(id=1, attempt_number=failure, failure_count=failure - 1, address=address),
        conversation_failures=conversation,
    )


def test_ten_attempts_are_nine_redeliveries() -> None:
    """ART-f, R1."""
    decisions = [failing(BUILT_IN, failure) for failure in range(1, 11)]
    assert [decision.state for decision in decisions] == [State.TBDL] * 9 + [State.NDLV]
    assert [decision.failure_count for decision in decisions] == list(range(1, 11))
    assert decisions[-1].reason is Reason.ATTEMPTS_EXHAUSTED
    assert decisions[-1].delay_ms is None


@pytest.mark.conformance("R8")
def test_the_wait_has_the_jitter_of_the_failed_attempt() -> None:
    """R8."""
    sign, fraction = jitter(1, 3)
    assert failing(BUILT_IN, 3).delay_ms == delay_ms(BUILT_IN, 3, sign=sign, fraction=fraction)


@pytest.mark.conformance("R3")
def test_the_wait_follows_the_failures_not_the_attempts() -> None:
    """R3: an approved message starts its retry schedule anew while its attempts go on counting."""
    policy = replace(BUILT_IN, redelivery_collision_avoidance_factor=0.0)
    decision = on_failure(policy, PlainTry(id=1, attempt_number=11, failure_count=0, address="orders"))
    assert (decision.delay_ms, decision.failure_count) == (5000, 1)


@pytest.mark.parametrize(
    ("asked", "given"), [(None, 1000), (0, 1000), (999, 1000), (7000, 7000), (10**12, MAX_RETRY_AFTER_MS)]
)
def test_retry_after_is_a_lower_bound_of_the_wait(asked: int | None, given: int) -> None:
    policy = Policy(redelivery_delay=1000, max_redelivery_delay=2000)
    decision = on_failure(
        policy, PlainTry(id=1, attempt_number=1, failure_count=0, address="orders"), retry_after_ms=asked
    )
    assert decision.delay_ms == given


def test_unlimited_attempts_are_never_exhausted() -> None:
    assert failing(Policy(max_delivery_attempts=-1, redelivery_delay=7), 1_000_000).state is State.TBDL


def test_a_count_beyond_a_limit_that_was_lowered_is_exhausted() -> None:
    assert failing(Policy(max_delivery_attempts=3), 9).state is State.NDLV


@pytest.mark.parametrize(
    ("what", "state", "reason"),
    [
        (OnExhausted.PARK, State.NDLV, Reason.ATTEMPTS_EXHAUSTED),
        (OnExhausted.DISCARD, State.FAIL, Reason.DISCARDED_BY_POLICY),
        (OnExhausted.END_CONVERSATION, State.FAIL, Reason.CONVERSATION_ENDED),
        (OnExhausted.LIST, State.NDLV, Reason.LISTED),
        (OnExhausted.STAY, State.TBDL, None),
    ],
)
def test_without_a_dead_letter_address_on_exhausted_decides(
    what: OnExhausted, state: State, reason: Reason | None
) -> None:
    """R9."""
    decision = failing(Policy(max_delivery_attempts=1, on_exhausted=what), 1)
    assert (decision.state, decision.reason, decision.move_to) == (state, reason, None)


@pytest.mark.parametrize("what", OnExhausted)
def test_a_dead_letter_address_in_force_goes_first(what: OnExhausted) -> None:
    """R9, ART-10."""
    decision = failing(Policy(max_delivery_attempts=1, dead_letter_address="dead", on_exhausted=what), 1)
    assert (decision.state, decision.reason) == (State.NDLV, Reason.ATTEMPTS_EXHAUSTED)
    assert (decision.move_to, decision.queue, decision.create_child) == ("dead", None, True)


@pytest.mark.parametrize(
    ("prefix", "suffix", "queue"),
    [("DLQ.", "", "DLQ.stocks"), ("", ".DLQ", "stocks.DLQ"), ("", "", "stocks"), ("a.", ".b", "a.stocks.b")],
)
def test_a_dead_letter_queue_is_named_by_prefix_and_suffix(prefix: str, suffix: str, queue: str) -> None:
    """ART-14, ART-g."""
    policy = Policy(
        max_delivery_attempts=1,
        dead_letter_address="dead",
        auto_create_dead_letter_resources=True,
        dead_letter_queue_prefix=prefix,
        dead_letter_queue_suffix=suffix,
    )
    assert dead_letter_target(policy, "stocks") == DeadLetterTarget("dead", queue)
    assert (failing(policy, 1, address="stocks").move_to, failing(policy, 1, address="stocks").queue) == ("dead", queue)


def test_a_message_exhausted_on_the_dead_letter_address_stays_there() -> None:
    decision = failing(Policy(max_delivery_attempts=1, dead_letter_address="dead"), 1, address="dead")
    assert (decision.state, decision.reason, decision.move_to) == (State.NDLV, Reason.ATTEMPTS_EXHAUSTED, None)


def test_artemis_without_a_dead_letter_address_discards_and_keeps_the_record() -> None:
    """ART-9, R4."""
    assert [failing(preset("artemis"), failure).state for failure in (9, 10)] == [State.TBDL, State.FAIL]


def test_sap_gives_one_delivery_and_three_retries_five_minutes_apart() -> None:
    """SAP-12."""
    decisions = [failing(preset("sap"), failure) for failure in range(1, 5)]
    assert [decision.delay_ms for decision in decisions] == [300_000] * 3 + [None]
    assert decisions[-1].state is State.NDLV


def test_non_delivered_messages_fail_where_the_policy_says_so() -> None:
    """SAP-12."""
    decision = failing(replace(preset("sap"), fail_non_delivered=True), 4)
    assert (decision.state, decision.reason) == (State.FAIL, Reason.DISCARDED_BY_POLICY)


WEBSPHERE = preset("websphere")
MQ = preset("websphere_mq")


@pytest.mark.parametrize(
    ("policy", "failure", "state", "move_to"),
    [
        pytest.param(WEBSPHERE, 4, State.TBDL, None, id="WAS-a"),
        pytest.param(WEBSPHERE, 5, State.NDLV, "_SYSTEM.Exception.Destination.poisonadmin", id="WAS-b"),
        pytest.param(
            replace(
                WEBSPHERE,
                max_failed_deliveries=2,
                exception_destination=ExceptionDestination.SPECIFY,
                exception_destination_address="park.here",
            ),
            2,
            State.NDLV,
            "park.here",
            id="WAS-d",
        ),
        pytest.param(
            replace(MQ, listener_max_retries=3, backout_threshold=2, backout_requeue_queue="BO"),
            2,
            State.NDLV,
            "BO",
            id="WAS-f",
        ),
        pytest.param(
            replace(MQ, listener_max_retries=3, backout_threshold=2),
            2,
            State.NDLV,
            "SYSTEM.DEAD.LETTER.QUEUE",
            id="WAS-i",
        ),
        pytest.param(replace(MQ, listener_max_retries=10**6), 10**5, State.TBDL, None, id="WAS-j"),
    ],
)
def test_websphere_moves_a_message_at_its_limit(
    policy: Policy, failure: int, state: State, move_to: str | None
) -> None:
    decision = failing(policy, failure)
    assert (decision.state, decision.move_to, decision.stop_address) == (state, move_to, False)


def test_without_exception_destination_a_message_waits_and_is_tried_for_ever() -> None:
    """WAS-c, WAS-9."""
    policy = replace(WEBSPHERE, exception_destination=ExceptionDestination.NONE)
    assert failing(policy, 4).delay_ms == 0
    assert [failing(policy, failure).delay_ms for failure in (5, 6, 500)] == [5000] * 3


@pytest.mark.parametrize(
    ("retries", "threshold", "failure"),
    [
        pytest.param(0, 0, 1, id="WAS-e"),
        pytest.param(2, 5, 2, id="WAS-g"),
        pytest.param(2, 2, 2, id="WAS-h"),
    ],
)
def test_a_listener_port_stops_before_anything_else_is_asked(retries: int, threshold: int, failure: int) -> None:
    decision = failing(replace(MQ, listener_max_retries=retries, backout_threshold=threshold), failure)
    assert (decision.state, decision.stop_address, decision.move_to) == (State.TBDL, True, None)


def test_amps_lists_at_the_first_failure() -> None:
    """AMPS-13."""
    assert (failing(preset("amps"), 1).state, failing(preset("amps"), 1).reason) == (State.NDLV, Reason.LISTED)


@pytest.mark.parametrize(
    ("conversation", "state"),
    [
        pytest.param(3, State.TBDL, id="SSB-a"),
        pytest.param(4, State.FAIL, id="SSB-b"),
        pytest.param(None, State.TBDL, id="SSB-f"),
    ],
)
def test_a_conversation_ends_at_its_fourth_failure(conversation: int | None, state: State) -> None:
    """R6."""
    assert failing(preset("service_broker"), 9, conversation=conversation).state is state


def test_every_decision_is_a_transition_that_the_table_has() -> None:
    policies = [BUILT_IN, WEBSPHERE, MQ, *(preset(name) for name in ("sap", "artemis", "amps", "service_broker"))]
    policies += [Policy(max_delivery_attempts=1, on_exhausted=what) for what in OnExhausted]
    decisions = [failing(policy, failure, conversation=failure) for policy in policies for failure in range(1, 12)]
    decisions += [on_crash(policy, PlainTry(failure_count=0), count, True) for policy in policies for count in range(3)]
    for decision in decisions:
        assert decision.state in allowed(State.DLNG, decision.event)
        assert decision.reason is None or decision.reason in reasons(decision.event)
        assert (decision.delay_ms is None) == (decision.state is not State.TBDL)
