"""Operations: paused, resumed, cancelled, and carried on by a tick until every member is accounted for.

An operation that is cancelled is `cancelling` until no delivery of a member is under way, and what was put up for
delivery waits for a decision again; `end_where_over` then writes that it is cancelled.
"""

import time
from collections.abc import Sequence
from typing import Any

import structlog
from django.db import connection, transaction

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.decisions.operations.commands.carry_out import carry_out_piece, why_not_allowed
from poisonadmin.decisions.operations.commands.taking_back import put_back, undo
from poisonadmin.decisions.operations.domain.awaited_version import BeginWhen, FailedOn, FailuresOn, without_older
from poisonadmin.decisions.operations.domain.lifecycle import (
    CHANGES,
    ENDS,
    STAGE_ENDS,
    OperationChange,
    OperationState,
    why_halt,
)
from poisonadmin.decisions.operations.queries.failed_on import failed_on
from poisonadmin.decisions.operations.queries.operations import (
    OperationDetail,
    get_operation,
    ledger_of,
    recorded_results,
)
from poisonadmin.delivery.commands import ordered_conversations
from poisonadmin.groups.commands import regressions
from poisonadmin.messages.commands import schedule
from poisonadmin.messages.domain.outcomes import MemberOutcome
from poisonadmin.store.models.operation import Operation

# What a tick does not get done the next one goes on with.
SECONDS_A_TICK = 10.0

_OPEN = "SELECT id FROM operation WHERE ended_at IS NULL AND state IN ('running', 'cancelling') ORDER BY id"
_CHANGE = """
UPDATE operation SET state = CASE WHEN %(to)s = 'running' AND begin_when IS NOT NULL AND version_seen IS NULL
                                  THEN 'waiting_for_version' ELSE %(to)s END,
                     state_at = now(), is_watched = is_watched AND state <> 'halted',
                     halted_why = CASE WHEN %(to)s = 'cancelling' THEN halted_why END,
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
# Nothing is put back any more: what it had taken away, which may quote a failure, is not kept.
_END = """
WITH over AS (
    UPDATE operation SET ended_at = now(), state = %(to)s, state_at = now()
    WHERE id = %(id)s AND ended_at IS NULL AND state = %(from)s RETURNING id
)
DELETE FROM lifted_exclusion USING over WHERE operation_id = over.id
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
            structlog.contextvars.bind_contextvars(operation_id=operation_id)
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
        undo(operation)
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
    counted, awaited = FailuresOn(ledger, []), None
    if operation.begin_when is not None:
        awaited = BeginWhen(**operation.begin_when)
        counted = without_older(ledger, failed_on(operation.id), awaited)
    if why := (awaited and counted.why_halt(awaited)) or why_halt(counted.ledger, held):
        _halt(operation.id, why, counted.regressed)
        return True
    if is_stage and is_answered:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_NEXT_STAGE, {"id": operation.id, "stage": operation.stage})
    return False


def _halt(operation_id: int, why: str, regressed: Sequence[FailedOn] = ()) -> None:
    """Halt a running operation; what is under way ends, and the groups that have regressed are reopened."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_HALT, {"id": operation_id, "why": why})
        if cursor.rowcount:
            schedule.hold_lanes(cursor, operation_id, is_held=True)
            versions = {one.group_id: one.version for one in regressed if one.group_id and one.version}
            regressions.reopen(cursor, versions, why=f"operation {operation_id}")
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
    if state is OperationState.CANCELLING:
        put_back(operation)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_END, {"id": operation_id, "from": str(state), "to": str(ENDS[state])})


def record_export(operation: OperationDetail, outcome: MemberOutcome | None, *, principal: Principal) -> None:
    """Write into the audit log who takes the ledger of an operation out, or one line of it. Errors: `NotAllowed`."""
    principal.require(Permission.EXPORT)
    rows = operation.count if outcome is None else getattr(operation.ledger, outcome)
    details = {"rows": rows} | ({} if outcome is None else {"outcome": str(outcome)})
    audit.record(principal.name, "report.exported", "operation", str(operation.id), details=details)
