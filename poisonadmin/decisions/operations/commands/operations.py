"""Operations: paused, resumed, cancelled, and carried on by a tick until every member is accounted for.

An operation that is cancelled is `cancelling` until no delivery of a member is under way, and what was put up for
delivery waits for a decision again; `end_where_over` then writes that it is cancelled.
"""

import time
from typing import Any

from django.db import connection, transaction

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.commands.locks import retried
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.decisions.commands import payload_versions
from poisonadmin.decisions.operations.commands.carry_out import carry_out_piece, why_not_allowed
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import (
    CHANGES,
    ENDS,
    STAGE_ENDS,
    OperationChange,
    OperationState,
    why_halt,
)
from poisonadmin.decisions.operations.queries.operations import (
    OperationDetail,
    get_operation,
    ledger_of,
    recorded_results,
)
from poisonadmin.delivery.commands import ordered_conversations
from poisonadmin.messages.commands import schedule
from poisonadmin.messages.commands.transitions import StatementParts, move
from poisonadmin.messages.domain.outcomes import MemberOutcome
from poisonadmin.messages.domain.states import Event, State
from poisonadmin.store.models.operation import Operation

# What a tick does not get done the next one goes on with.
SECONDS_A_TICK = 10.0

_OPEN = "SELECT id FROM operation WHERE ended_at IS NULL AND state IN ('running', 'cancelling') ORDER BY id"
_CHANGE = """
UPDATE operation SET state = %(to)s, state_at = now(), halted_why = NULL, is_watched = is_watched AND state <> 'halted',
                     stage = CASE WHEN state = 'halted' THEN %(stages)s ELSE stage END,
                     canary = CASE WHEN state = 'halted' THEN canary[1:walked] ELSE canary END
WHERE id = %(id)s AND state = ANY(%(from)s)
"""
# Of an operation that is over nothing waits or is under way.
_CLEAR_LANES = """
DELETE FROM lane USING operation
WHERE lane.operation_id = operation.id AND operation.ended_at IS NOT NULL AND NOT EXISTS (
    SELECT FROM message WHERE lane_id = lane.id AND due_at IS NOT NULL AND state IN ('TBDL', 'DLNG') OFFSET 0)
"""
_HALT = """
UPDATE operation SET state = 'halted', state_at = now(), halted_why = %(why)s WHERE id = %(id)s AND state = 'running'
"""
# Members of the stage that is tried, behind one of their ordered conversation that waits for a decision.
_HELD = """
SELECT count(*) FROM operation CROSS JOIN LATERAL unnest(canary[1:walked]) AS member (id)
     JOIN message ON message.id = member.id AND message.state = 'TBDL' AND message.operation_id = operation.id
     JOIN address ON address.id = message.address_id AND address.is_ordered
     JOIN envelope ON envelope.id = message.id
WHERE operation.id = %(id)s AND EXISTS (
    SELECT FROM envelope AS its JOIN message AS former ON former.id = its.id
    WHERE its.conversation_id = envelope.conversation_id AND former.address_id = message.address_id
      AND former.state = 'NDLV' AND former.id < message.id)
"""
_NEXT_STAGE = "UPDATE operation SET stage = stage + 1 WHERE id = %(id)s AND stage = %(stage)s AND state = 'running'"
_END = """
UPDATE operation SET ended_at = now(), state = %(to)s, state_at = now()
WHERE id = %(id)s AND ended_at IS NULL AND state = %(from)s
"""


class OperationNotChanged(PoisonAdminError):
    """Raised when an operation is in a state in which it cannot be paused, resumed or cancelled."""

    code = "operation_state_conflict"
    status = 409


def change(operation_id: int, what: OperationChange, *, reason: str, principal: Principal) -> None:
    """Pause, resume or cancel an operation. What is under way ends; nothing more begins while it is paused.

    One of whose members nothing is under way is cancelled at once; another one when a tick has brought them back.

    Errors: `NotAllowed`, `NotFound`, `OperationNotChanged`.
    """
    principal.require(Permission.DECIDE)
    found = get_operation(operation_id, principal=principal.as_reader)
    if what is OperationChange.RESUME and (why := why_not_allowed(found)):
        raise OperationNotChanged(f"{why} Cancel it, and decide on its messages yourself.")
    starts, to = CHANGES[what]
    with transaction.atomic(), connection.cursor() as cursor:
        values: dict[str, Any] = {
            "id": operation_id,
            "from": [str(one) for one in starts],
            "to": str(to),
            "stages": len(STAGE_ENDS),
        }
        cursor.execute(_CHANGE, values)
        if not cursor.rowcount:
            raise OperationNotChanged(f"The operation is {found.state}; it cannot {what} now.")
        schedule.hold_lanes(cursor, operation_id, is_held=to is not OperationState.RUNNING)
        if to is OperationState.RUNNING:
            ordered_conversations.refresh_head(cursor)
        audit.record(principal.name, f"operation.{what}", "operation", str(operation_id), note=reason)
    if what is OperationChange.CANCEL:
        end_where_over(operation_id)


def carry_on(*, seconds: float = SECONDS_A_TICK) -> int:
    """Carry on with the operations that are not over, a piece of each in turn; return how many pieces were decided on.

    Call under `single_flight(Tick.OPERATIONS)`. One in trouble does not keep the others from their turn.
    Errors: the last such one's.
    """
    until = time.monotonic() + seconds
    pieces = 0
    failed: Exception | None = None
    going = set(fetch_values(_OPEN))
    while going and time.monotonic() < until:
        for operation_id in sorted(going):
            try:
                if _step(operation_id):
                    pieces += 1
                    continue
            except Exception as error:
                failed = error
            going.discard(operation_id)
    if failed is not None:
        raise failed
    return pieces


def clear_lanes() -> int:
    """Remove the lanes of operations that are over; return how many."""
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CLAIM)
        cursor.execute(_CLEAR_LANES)
        return int(cursor.rowcount)


def _step(operation_id: int) -> bool:
    """Do a piece of what is left; return whether there may be more of it at once."""
    operation = Operation.objects.get(id=operation_id)
    if operation.state == OperationState.CANCELLING:
        undo(operation, actor=operation.requested_by, note=operation.reason)
    elif why := why_not_allowed(operation):
        _halt(operation.id, why)
        return False
    elif operation.is_watched and _watch(operation):
        return False
    elif carry_out_piece(operation):
        return True
    end_where_over(operation_id)
    return False


def _watch(operation: Operation) -> bool:
    """Halt an operation whose members fail again, begin the next stage of one whose members do not.

    Return whether it was halted. A person who resumes it has seen why: it goes on with all that is left.
    """
    ledger = ledger_of(operation, recorded_results(operation.id))
    is_answered = operation.walked == ledger.done
    is_stage = operation.stage < len(STAGE_ENDS) and operation.walked >= min(
        STAGE_ENDS[operation.stage], len(operation.canary or ())
    )
    held = fetch_values(_HELD, {"id": operation.id})[0] if is_stage and not is_answered else 0
    if why := why_halt(ledger, held):
        _halt(operation.id, why)
        return True
    if is_stage and is_answered:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_NEXT_STAGE, {"id": operation.id, "stage": operation.stage})
    return False


def _halt(operation_id: int, why: str) -> None:
    """Halt a running operation; what is under way ends."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_HALT, {"id": operation_id, "why": why})
        if cursor.rowcount:
            schedule.hold_lanes(cursor, operation_id, is_held=True)
            audit.record("system", "operation.halt", "operation", str(operation_id), details={"why": why})


def end_where_over(operation_id: int) -> None:
    """Write down that an operation that runs, or is being cancelled, is over: where every member is accounted for."""
    operation = Operation.objects.filter(id=operation_id).first()
    if operation is None:
        raise NotFound(f"There is no operation {operation_id}.")
    state = OperationState(operation.state)
    ledger = ledger_of(operation, recorded_results(operation_id))
    if state not in ENDS or ledger.unanswered or ledger.waiting:
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_END, {"id": operation_id, "from": str(state), "to": str(ENDS[state])})


MESSAGES_A_TRANSACTION = 5_000

# It goes back to where it was approved, for the reason that it had there. What it held before is put back as well.
_UNDO = move(
    State.TBDL,
    Event.OPERATION_CANCELLED,
    State.NDLV,
    chosen="""
    SELECT message.id, coalesce(former.id, message.address_id) AS former_address_id, message.address_id, message.state,
           message.reason, message.group_id, message.original_address_id,
           undecided.reason AS former_reason, undecided.at AS former_at,
           here.name AS from_name, former.name AS to_name, lane.id AS former_lane_id
    FROM (
        SELECT * FROM message
        WHERE id = ANY(%(ids)s) AND state = 'TBDL' AND operation_id = %(operation)s
        ORDER BY id FOR UPDATE
    ) AS message
         JOIN address AS here ON here.id = message.address_id
         LEFT JOIN LATERAL (
             SELECT address.id, address.name
             FROM history JOIN hop ON hop.message_id = history.message_id AND hop.at = history.at
                          JOIN address ON address.name = hop.from_address
             WHERE history.message_id = message.id AND history.operation_id = %(operation)s
               AND hop.to_address = here.name
             ORDER BY seq DESC LIMIT 1
         ) AS former ON TRUE
         LEFT JOIN LATERAL (
             SELECT reason, at FROM history
             WHERE message_id = message.id AND to_state = 'NDLV' ORDER BY seq DESC LIMIT 1
         ) AS undecided ON TRUE
         JOIN lane ON lane.address_id = coalesce(former.id, message.address_id) AND lane.is_plain
""",
    sets={
        "reason": "former_reason",
        "state_at": "coalesce(former_at, now())",  # it has waited for a decision since then
        "address_id": "former_address_id",
        "lane_id": "former_lane_id",
        # An approval has brought it home; a redirect has kept where it was first.
        "original_address_id": """CASE WHEN former_address_id = message.address_id THEN message.original_address_id
                                       WHEN message.original_address_id IS NULL THEN message.address_id
                                       ELSE NULLIF(message.original_address_id, former_address_id) END""",
    },
    parts=StatementParts(
        shows=("from_name", "to_name"),
        beside="""hops AS (
    INSERT INTO hop (message_id, from_address, to_address, reason, by)
    SELECT id, from_name, to_name, 'operation_cancelled', %(actor)s FROM changed WHERE to_name IS NOT NULL
), restarts AS (
    UPDATE restart SET times = times - 1 FROM changed, operation
    WHERE operation.id = %(operation)s AND restart.restart_job_id = operation.restart_job_id
      AND restart.message_id = changed.id
)""",
        is_decision=True,
    ),
)
# What waits on the operation's own lanes is found at once, whatever else the selection holds.
_ON_LANES = """
SELECT message.id FROM lane JOIN message ON message.lane_id = lane.id
WHERE lane.operation_id = %(operation)s AND message.state = 'TBDL' AND message.due_at IS NOT NULL
  AND message.operation_id = %(operation)s
LIMIT %(limit)s
"""
_IN_PIECE = """
SELECT message.id FROM selection_piece CROSS JOIN LATERAL unnest(message_ids) AS member (id)
     JOIN message ON message.id = member.id
WHERE selection_id = %(selection)s AND number = %(number)s AND state = 'TBDL' AND operation_id = %(operation)s
"""
# Those that a canary has tried are in any piece.
_IN_CANARY = """
SELECT message.id FROM operation CROSS JOIN LATERAL unnest(canary[1:walked]) AS member (id)
     JOIN message ON message.id = member.id
WHERE operation.id = %(operation)s AND message.state = 'TBDL' AND message.operation_id = operation.id
"""


def undo(operation: Operation, *, actor: str, note: str) -> int:
    """Bring what waits for a delivery by this operation back to NDLV; return how many. Call outside a transaction.

    What is under way ends; what of it is to be tried again comes back with the next call.
    """
    undone = 0
    wanted: dict[str, Any] = {
        "operation": operation.id,
        "selection": operation.selection_id,
        "limit": MESSAGES_A_TRANSACTION,
    }
    values = {"operation": operation.id, "actor": actor, "note": note, "action": operation.action}
    while operation.has_lanes and (ids := fetch_values(_ON_LANES, wanted)):
        undone += retried(lambda ids=ids: _undo(values | {"ids": ids}))  # type: ignore[misc]
    # The last of these pieces is one that a patch is in the middle of.
    pieces = [(_IN_PIECE, wanted | {"number": number}) for number in range(operation.pieces + 1)]
    for query, of in [*pieces, (_IN_CANARY, wanted)]:
        if ids := fetch_values(query, of):
            undone += retried(lambda ids=ids: _undo(values | {"ids": ids}))  # type: ignore[misc]
    return undone


def _undo(values: dict[str, Any]) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        if values["action"] == OperationAction.PATCH:
            payload_versions.put_back(cursor, values["ids"], actor=values["actor"], operation_id=values["operation"])
        cursor.execute(_UNDO, values)
        return int(cursor.fetchone()[0])


def record_export(operation: OperationDetail, outcome: MemberOutcome | None, *, principal: Principal) -> None:
    """Write into the audit log who takes the ledger of an operation out, or one line of it. Errors: `NotAllowed`."""
    principal.require(Permission.EXPORT)
    rows = operation.count if outcome is None else getattr(operation.ledger, outcome)
    details = {"rows": rows} | ({} if outcome is None else {"outcome": str(outcome)})
    audit.record(principal.name, "report.exported", "operation", str(operation.id), details=details)
