"""The transition table, and the page that is printed from it."""

from pathlib import Path

import pytest

from poisonadmin.messages.domain import states
from poisonadmin.messages.domain.states import (
    TRANSITIONS,
    Event,
    Reason,
    State,
    TransitionNotAllowed,
    allowed,
    check,
    sources,
)

PAGE = Path(__file__).parents[2] / "docs" / "use" / "states.md"

LEGAL = {
    (None, Event.ENQUEUED): "TBDL NDLV FAIL",
    (None, Event.IMPORTED): "NDLV",
    (None, Event.RESTORED_FROM_ARCHIVE): "NDLV",
    (State.TBDL, Event.CLAIMED): "DLNG",
    (State.DLNG, Event.DELIVERED): "DLVD",
    (State.DLNG, Event.FAILED): "TBDL NDLV FAIL",
    (State.DLNG, Event.REJECTED): "NDLV FAIL",
    (State.DLNG, Event.REDIRECTED): "TBDL NDLV",
    (State.DLNG, Event.DISCARDED): "FAIL",
    (State.DLNG, Event.ROLLED_BACK): "TBDL NDLV FAIL",
    (State.DLNG, Event.MOVED): "TBDL NDLV FAIL",
    (State.DLNG, Event.CONVERSATION_ENDED): "DLVD FAIL",
    (State.DLNG, Event.RELEASED): "TBDL",
    (State.DLNG, Event.OUTCOME_LOST): "TBDL",
    (State.DLNG, Event.CRASHED): "TBDL NDLV FAIL",
    (State.DLNG, Event.NODE_LOST): "TBDL NDLV FAIL",
    (State.TBDL, Event.DELIVERED_NOW): "TBDL",
    (State.TBDL, Event.POSTPONED): "TBDL",
    (State.TBDL, Event.OPERATION_CANCELLED): "NDLV",
    (State.TBDL, Event.REJECTED): "NDLV FAIL",
    (State.TBDL, Event.LISTED): "NDLV",
    (State.TBDL, Event.QUARANTINED): "NDLV",
    (State.TBDL, Event.REDIRECTED): "TBDL",
    (State.TBDL, Event.CONVERSATION_ENDED): "NDLV",
    (State.TBDL, Event.EXPIRED): "FAIL",
    (State.NDLV, Event.APPROVED): "TBDL",
    (State.NDLV, Event.REDIRECTED): "TBDL",
    (State.NDLV, Event.PATCHED): "TBDL",
    (State.NDLV, Event.HANDED_BACK): "DLVD",
    (State.NDLV, Event.MARKED_FAIL): "FAIL",
    (State.FAIL, Event.RESTORED): "NDLV",
    (State.DLVD, Event.RETURNED): "NDLV",
    (State.DLVD, Event.LISTED): "NDLV",
    **{(state, Event.ASSIGNED): str(state) for state in (State.TBDL, State.DLVD, State.NDLV, State.FAIL)},
}

EVERYWHERE = [(state, event) for state in (None, *State) for event in Event]


@pytest.mark.parametrize(("state", "event"), EVERYWHERE)
def test_an_event_leads_where_the_design_says_and_nowhere_else(state: State | None, event: Event) -> None:
    assert " ".join(allowed(state, event)) == LEGAL.get((state, event), "")


@pytest.mark.parametrize("event", Event)
def test_the_sources_of_an_event_are_the_states_that_allow_it(event: Event) -> None:
    assert sources(event) == tuple(state for state in State if allowed(state, event))


def test_the_table_has_each_state_and_event_once() -> None:
    keys = [(transition.from_state, transition.event) for transition in TRANSITIONS]
    assert len(keys) == len(set(keys))


def test_every_event_and_every_reason_is_in_the_table() -> None:
    assert {transition.event for transition in TRANSITIONS} == set(Event)
    assert {reason for transition in TRANSITIONS for reason in transition.reasons} == set(Reason)


def test_every_state_but_fail_and_delivered_can_be_left_without_a_person() -> None:
    people = {Event.APPROVED, Event.PATCHED, Event.HANDED_BACK, Event.MARKED_FAIL, Event.RESTORED, Event.RETURNED}
    by_people = people | {Event.REDIRECTED}
    left = {
        t.from_state
        for t in TRANSITIONS
        if t.from_state is not None
        and t.event is not Event.ASSIGNED
        and t.event not in (by_people if t.from_state is State.NDLV else people)
    }
    assert left == {State.TBDL, State.DLNG, State.DLVD}, "DLVD: what was handed back and is reported again"


def test_only_a_decision_or_a_return_leaves_a_state_that_retention_may_prune() -> None:
    leaving = {t.event for t in TRANSITIONS if t.from_state in {State.DLVD, State.FAIL} and t.event != Event.ASSIGNED}
    assert leaving == {Event.RESTORED, Event.RETURNED, Event.LISTED}


def test_a_refused_transition_names_the_state_and_what_the_event_needs() -> None:
    with pytest.raises(TransitionNotAllowed) as refused:
        check(State.DLVD, Event.APPROVED, State.TBDL)
    assert refused.value.state is State.DLVD
    assert (refused.value.code, refused.value.status) == ("transition_not_allowed", 409)
    assert refused.value.detail == "The message is DLVD; approved needs NDLV."


def test_a_legal_transition_passes_the_check() -> None:
    check(State.NDLV, Event.APPROVED, State.TBDL)


def test_a_new_message_is_refused_an_event_of_stored_ones() -> None:
    with pytest.raises(TransitionNotAllowed, match="The message is new; approved needs NDLV"):
        check(None, Event.APPROVED, State.TBDL)


def test_the_reasons_of_a_failure_are_those_of_the_policies_and_rules() -> None:
    assert [str(reason) for reason in states.reasons(Event.FAILED)] == [
        "attempts_exhausted",
        "dead_letter_loop",
        "listed",
        "discarded_by_policy",
        "conversation_ended",
        "rule",
    ]


def test_each_state_has_a_label() -> None:
    assert set(states.LABELS) == set(State)


def test_the_page_in_docs_is_what_the_table_prints() -> None:
    assert PAGE.read_text(encoding="utf-8") == states.page(), (
        "run: python -m poisonadmin.messages.domain.states > docs/use/states.md"
    )


def test_the_diagram_has_an_arrow_for_every_transition() -> None:
    diagram = states.mermaid()
    for transition in TRANSITIONS:
        for to_state in transition.to_states:
            start = transition.from_state or "[*]"
            arrow = next(line for line in diagram.splitlines() if line.strip().startswith(f"{start} --> {to_state}:"))
            assert transition.event.replace("_", " ") in arrow
