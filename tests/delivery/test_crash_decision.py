"""What a crash makes of a message (R2)."""

from dataclasses import replace

from poisonadmin.messages.domain.states import Event, Reason, State
from poisonadmin.policies.domain.policy import BUILT_IN, preset
from poisonadmin.policies.domain.retry_decision import PlainTry, on_crash


def test_the_second_crash_blacklists() -> None:
    """SAP-b, SAP-d, R2."""
    first = on_crash(BUILT_IN, PlainTry(failure_count=1), 0, False)
    assert (first.state, first.candidate, first.crash_count, first.delay_ms) == (State.TBDL, True, 1, 0)
    second = on_crash(BUILT_IN, PlainTry(failure_count=2), 1, True)
    assert (second.state, second.reason, second.crash_count) == (State.NDLV, Reason.BLACKLISTED, 2)
    assert second.failure_count == 2


def test_a_crash_that_is_not_counted_only_casts_suspicion() -> None:
    """R2: the loss of a whole node."""
    decision = on_crash(BUILT_IN, PlainTry(failure_count=0), 1, False, is_counted=False, event=Event.NODE_LOST)
    assert (decision.state, decision.event) == (State.TBDL, Event.NODE_LOST)
    assert (decision.candidate, decision.crash_count) == (True, 1)


def test_while_blacklisting_is_off_a_crash_only_returns_the_message() -> None:
    """SAP-j, SAP-11."""
    decision = on_crash(replace(BUILT_IN, blacklisting_enabled=False), PlainTry(failure_count=0), 7, False)
    assert (decision.state, decision.candidate, decision.crash_count) == (State.TBDL, False, 7)


def test_a_message_approved_with_its_flag_is_blacklisted_by_one_more_crash() -> None:
    """R3, SAP-e."""
    assert on_crash(BUILT_IN, PlainTry(failure_count=0), 2, True).state is State.NDLV


def test_amps_lists_at_the_first_crash() -> None:
    """R10's table."""
    assert on_crash(preset("amps"), PlainTry(failure_count=0), 0, False).reason is Reason.LISTED
