"""The one writer of states refuses what the table of states does not have, and nobody else writes a state."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from poisonadmin.messages.commands.transitions import StatementParts, enter, move, stay
from poisonadmin.messages.domain.states import Event, Reason, State, TransitionNotAllowed

ROOT = Path(__file__).parents[2]
WRITER = "poisonadmin/messages/commands/transitions.py"
WAITING = "SELECT id, address_id, state, reason, group_id FROM message WHERE state = 'TBDL'"
_ENTERS = re.compile(r"INSERT\s+INTO\s+message\b", re.IGNORECASE)
_MOVES = re.compile(r"UPDATE\s+(?:ONLY\s+)?message\b(?:(?!WHERE|FROM).)*?\bstate\s*=", re.IGNORECASE | re.DOTALL)
_SAVES = re.compile(r"\bMessage\.objects\.(?:create|bulk_create|.*update\([^)]*\bstate=)|\bmessage\.save\(")


def writes_a_state(source: str) -> bool:
    """Return whether the text of a module has a statement that makes a message or changes its state."""
    return any(pattern.search(source) for pattern in (_ENTERS, _MOVES, _SAVES))


def modules() -> Iterator[Path]:
    """Yield every module of the product but migrations."""
    for folder in ("poisonadmin", "workers"):
        yield from (path for path in (ROOT / folder).rglob("*.py") if "migrations" not in path.parts)


def test_nobody_else_writes_a_state() -> None:
    writers = {path.relative_to(ROOT).as_posix() for path in modules() if writes_a_state(path.read_text())}
    assert writers == {WRITER}


@pytest.mark.parametrize(
    "source",
    [
        "INSERT INTO message (id, state) VALUES (1, 'TBDL')",
        "insert into message select 1",
        "UPDATE message SET state = 'FAIL'",
        "UPDATE message SET due_at = now(),\n    state = 'FAIL' WHERE id = 1",
        "Message.objects.create(state='TBDL')",
        "Message.objects.filter(id=1).update(state='FAIL')",
    ],
)
def test_a_statement_that_writes_a_state_is_noticed(source: str) -> None:
    assert writes_a_state(source)


@pytest.mark.parametrize(
    "source",
    [
        "UPDATE message SET lane_id = lane.id FROM lane WHERE message.state = 'TBDL'",
        "INSERT INTO message_copy (message_id) VALUES (1)",
        "UPDATE message SET group_id = 1 WHERE id = 1",
    ],
)
def test_what_leaves_states_alone_is_not_taken_for_a_writer(source: str) -> None:
    assert not writes_a_state(source)


@pytest.mark.parametrize(
    ("start", "event", "to", "reason"),
    [
        (State.TBDL, Event.EXPIRED, State.NDLV, None),
        (State.TBDL, Event.APPROVED, State.TBDL, None),
        (State.TBDL, Event.EXPIRED, State.FAIL, Reason.LISTED),
    ],
)
def test_what_the_table_does_not_have_is_refused(start: State, event: Event, to: State, reason: Reason | None) -> None:
    with pytest.raises(TransitionNotAllowed):
        move(start, event, to, reason=reason, chosen=WAITING)


def test_a_message_does_not_enter_in_a_state_that_the_table_does_not_have() -> None:
    with pytest.raises(TransitionNotAllowed):
        enter(Event.IMPORTED, State.TBDL, columns={"id": "1"}, chosen="generate_series(1, 1)")


def test_a_statement_that_does_not_ask_for_the_state_it_starts_from_is_refused() -> None:
    with pytest.raises(ValueError, match="TBDL"):
        move(State.TBDL, Event.EXPIRED, State.FAIL, chosen="SELECT id FROM message")


@pytest.mark.parametrize(("event", "start"), [(Event.ASSIGNED, State.DLNG), (Event.APPROVED, State.NDLV)])
def test_an_event_that_leads_elsewhere_or_nowhere_leaves_no_state_as_it_is(event: Event, start: State) -> None:
    with pytest.raises(TransitionNotAllowed):
        stay(event, [start], chosen=WAITING, parts=StatementParts(then="SELECT 1"))
