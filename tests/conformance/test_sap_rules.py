"""Conformance SAP-4 to SAP-13, vectors SAP-a to SAP-m by the pure rules; test_sap.py takes them through the system.

What is accused of a crash is decided where the dead process is seen: the message whose turn it was, and when a node is
lost what it had begun: that counts under the plain rule, and under the exact one where it ran alone. A message that was
only claimed gets no verdict.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest

from poisonadmin.messages.domain.states import TRANSITIONS, Event, Reason, State, Transition
from poisonadmin.policies.domain.policy import Policy, preset
from poisonadmin.policies.domain.retry_decision import PlainTry, RetryDecision, on_crash, on_failure

SAP = preset("sap")


@dataclass(frozen=True)
class Stand:
    """Where a message stands."""

    state: State = State.TBDL
    candidate: bool = False
    crash_count: int = 0
    failure_count: int = 0
    reason: Reason | None = None


def after(events: Iterable[str], policy: Policy = SAP) -> Stand:
    """Return where a message stands after deliveries that ended so."""
    stand = Stand()
    for attempt, event in enumerate(events, start=1):
        assert stand.state is State.TBDL, f"{event} after it had ended"
        if event in {"claimed", "stopped"}:
            continue
        verdict = _verdict(policy, stand, event, attempt)
        stand = Stand(
            verdict.state,
            stand.candidate if verdict.candidate is None else verdict.candidate,
            stand.crash_count if verdict.crash_count is None else verdict.crash_count,
            verdict.failure_count,
            verdict.reason,
        )
    return stand


def _verdict(policy: Policy, stand: Stand, event: str, attempt: int) -> RetryDecision:
    match event:
        case "ok":
            return RetryDecision(State.DLVD, Event.DELIVERED, None, None, None, 0, candidate=False, crash_count=0)
        case "exception":
            return on_failure(
                policy, PlainTry(id=1, attempt_number=attempt, failure_count=stand.failure_count, address="orders")
            )
        case "node lost" | "node lost, counted":
            return on_crash(
                policy,
                PlainTry(failure_count=stand.failure_count),
                stand.crash_count,
                stand.candidate,
                is_counted=event.endswith("counted"),
                event=Event.NODE_LOST,
            )
    return on_crash(policy, PlainTry(failure_count=stand.failure_count), stand.crash_count, stand.candidate)


BLACKLISTED = Stand(State.NDLV, candidate=True, crash_count=2, reason=Reason.BLACKLISTED)
ONCE = Stand(State.TBDL, candidate=True, crash_count=1)
DELIVERED = Stand(State.DLVD)


@pytest.mark.conformance(
    "SAP-a", "SAP-b", "SAP-c", "SAP-d", "SAP-g", "SAP-h", "SAP-i", "SAP-k", "SAP-l", "SAP-m", "SAP-4", "SAP-9"
)
@pytest.mark.parametrize(
    ("events", "stand"),
    [
        pytest.param(["ok"], DELIVERED, id="SAP-a"),
        pytest.param(["crash"], ONCE, id="SAP-b"),
        pytest.param(["crash", "ok"], DELIVERED, id="SAP-c"),
        pytest.param(["crash", "crash"], BLACKLISTED, id="SAP-d"),
        pytest.param(["node lost, counted"] * 2, BLACKLISTED, id="SAP-g, B by the plain rule"),
        pytest.param(["node lost", "ok"], DELIVERED, id="SAP-g, B by the exact rule"),
        pytest.param(["node lost", *["node lost, counted"] * 2], BLACKLISTED, id="SAP-g, A by the exact rule"),
        pytest.param(["crash", "crash"], BLACKLISTED, id="SAP-h, A"),
        pytest.param(["crash", "ok"], DELIVERED, id="SAP-h, B"),
        pytest.param(["exception"], Stand(failure_count=1), id="SAP-i"),
        pytest.param(["node lost"], Stand(candidate=True), id="SAP-k, A"),
        pytest.param(["claimed"], Stand(), id="SAP-k, B"),
        pytest.param(["crash", "exception", "crash"], replace(BLACKLISTED, failure_count=1), id="SAP-l"),
        pytest.param(["stopped"], Stand(), id="SAP-m"),
    ],
)
def test_crashes_and_only_crashes_make_a_candidate_and_the_second_blacklists_it(
    events: list[str], stand: Stand
) -> None:
    assert after(events) == stand


@pytest.mark.conformance("SAP-j", "SAP-11")
@pytest.mark.parametrize("crashes", [1, 2, 100])
def test_with_blacklisting_off_any_number_of_crashes_only_returns_the_message(crashes: int) -> None:
    assert after(["crash"] * crashes, replace(SAP, blacklisting_enabled=False)) == Stand()


@pytest.mark.conformance("SAP-e", "R3")
def test_an_approved_message_has_one_crash_left_or_two_as_its_flag_was_kept_or_cleared() -> None:
    kept = on_crash(SAP, PlainTry(failure_count=0), 2, True)
    assert (kept.state, kept.reason) == (State.NDLV, Reason.BLACKLISTED)
    cleared = on_crash(SAP, PlainTry(failure_count=0), 0, False)
    assert (cleared.state, cleared.candidate, cleared.crash_count) == (State.TBDL, True, 1)
    assert on_crash(SAP, PlainTry(failure_count=0), 1, True).state is State.NDLV


@pytest.mark.conformance("SAP-f", "SAP-10")
def test_only_a_person_leads_on_from_ndlv_and_nothing_but_a_person_from_fail() -> None:
    def leaving(state: State) -> list[Transition]:
        return [one for one in TRANSITIONS if one.from_state is state and one.event is not Event.ASSIGNED]

    assert {(one.event, one.to_states) for one in leaving(State.NDLV)} == {
        (Event.APPROVED, (State.TBDL,)),
        (Event.HANDED_BACK, (State.DLVD,)),
        (Event.REDIRECTED, (State.TBDL,)),
        (Event.PATCHED, (State.TBDL,)),
        (Event.MARKED_FAIL, (State.FAIL,)),
    }
    assert {one.event for one in leaving(State.FAIL)} == {Event.RESTORED}
