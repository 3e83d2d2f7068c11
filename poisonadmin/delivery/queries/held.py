"""What keeps a message that is due from being delivered: its address, or its predecessors (SEMANTICS SAP-14)."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.queries.rows import QueryTooExpensive, bounded, fetch, fetch_one, fetch_values
from poisonadmin.messages.domain.states import State
from poisonadmin.messages.queries.detail import MessageDetail

SHOWN_PREDECESSORS = 20
COUNTED = 1_000
SECONDS_TO_READ = 2


@dataclass(frozen=True)
class Predecessor:
    """A message of the same conversation that must be delivered, or given up, before this one."""

    id: int
    message_id: str
    state: str
    reason: str | None
    attempt_number: int
    due_at: datetime | None


@dataclass(frozen=True)
class HoldReasons:
    """`reasons`: sentences, empty when nothing holds it. `predecessors` are the first of `predecessor_count`, in order.

    `successor_count`: so many messages wait behind this one. Counts go no further than 1,000.
    """

    reasons: list[str]
    predecessors: list[Predecessor]
    predecessor_count: int
    successor_count: int


@dataclass(frozen=True)
class _AddressState:
    status: str
    status_by: str | None
    status_message_id: int | None
    is_ordered: bool
    rollbacks_in_row: int
    has_destination: bool
    is_destination_enabled: bool | None
    conversation_failures: int | None


_PLACE = """SELECT a.status, a.status_by, a.status_message_id, a.is_ordered, a.rollbacks_in_row,
 d.id IS NOT NULL AS has_destination, d.is_enabled AS is_destination_enabled, c.failures AS conversation_failures
 FROM message m JOIN envelope e ON e.id = m.id JOIN address a ON a.id = m.address_id
 LEFT JOIN destination d ON d.id = a.destination_id
 LEFT JOIN conversation c ON c.address_id = a.id AND c.conversation_id = e.conversation_id WHERE m.id = %s"""

_OTHERS = """FROM envelope e JOIN message o ON o.id = e.id JOIN message m ON m.id = %s
 WHERE e.conversation_id = %s AND o.address_id = m.address_id AND o.state IN ('TBDL', 'DLNG', 'NDLV')"""


def place_of(message: MessageDetail) -> _AddressState:
    """Return what its address and its conversation say of the message."""
    found = fetch_one(_AddressState, _PLACE, [message.id])
    assert found is not None
    return found


def held(message: MessageDetail, place: _AddressState) -> HoldReasons:
    """Return what holds the message, and what it holds."""
    if message.state not in (State.TBDL, State.DLNG, State.NDLV):
        return HoldReasons([], [], 0, 0)
    reasons = _reasons(message, place) if message.state == State.TBDL else []
    before: list[Predecessor] = []
    counts = [0, 0]
    if place.is_ordered and message.conversation_id is not None:
        try:
            before, counts = _line(message.id, message.conversation_id)
        except QueryTooExpensive:
            reasons.append("its conversation is too long to be looked through here")
    if before and message.state == State.TBDL:
        first = before[0]
        waits = f"{first.state} {first.reason}" if first.reason else first.state
        reasons.append(f"held behind message {first.id} of its conversation, which is {waits}")
        stopped = next((one for one in before[1:] if one.state == State.NDLV), None)
        if stopped is not None and first.state != State.NDLV:
            reasons.append(f"and behind message {stopped.id}, which waits for a decision: NDLV {stopped.reason}")
    return HoldReasons(reasons, before, *counts)


def _line(message_id: int, conversation_id: str) -> tuple[list[Predecessor], list[int]]:
    with bounded(SECONDS_TO_READ):
        before = fetch(
            Predecessor,
            f"SELECT o.id, e.message_id, o.state, o.reason, o.attempt_number,"
            f" CASE WHEN o.state = 'TBDL' THEN o.due_at END AS due_at {_OTHERS} AND o.id < m.id ORDER BY o.id LIMIT"
            f" {SHOWN_PREDECESSORS}",
            [message_id, conversation_id],
        )
        counts = [
            fetch_values(
                f"SELECT count(*) FROM (SELECT {_OTHERS} AND o.id {comparison} m.id LIMIT {COUNTED}) AS counted",  # noqa: S608
                [message_id, conversation_id],
            )[0]
            for comparison in ("<", ">")
        ]
    return before, counts


def _reasons(message: MessageDetail, place: _AddressState) -> list[str]:
    found = []
    if place.status != "ON":
        why = f" because of message {place.status_message_id}" if place.status_message_id else ""
        found.append(f"{message.address} is {place.status}, by {place.status_by or 'system'}{why}")
    if not place.has_destination:
        found.append(f"{message.address} delivers nowhere")
    elif not place.is_destination_enabled:
        found.append(f"the destination of {message.address} is switched off")
    return found
