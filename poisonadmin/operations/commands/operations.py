"""Operations: begun, paused, resumed, cancelled, and carried on by a tick until every member is accounted for."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.db.models.functions import Now

from poisonadmin.addresses.commands import ensure_addresses
from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.messages.commands import schedule
from poisonadmin.messages.commands.decisions import Decided, only
from poisonadmin.messages.queries import refusals
from poisonadmin.operations.commands.carry_out import carry_out_piece, decide, record
from poisonadmin.operations.commands.selections import freeze
from poisonadmin.operations.commands.undo import undo
from poisonadmin.operations.domain.actions import DELIVERING, OperationAction
from poisonadmin.operations.domain.canary import STAGE_ENDS, why_halt
from poisonadmin.operations.domain.lifecycle import CHANGES, OperationChange, OperationState
from poisonadmin.operations.domain.params import InvalidOperation, checked_params, may_carry_out
from poisonadmin.operations.queries.operations import get_operation, ledger_of, recorded_results
from poisonadmin.operations.queries.selections import get_selection
from poisonadmin.store.models.operation import Operation, OperationPace, Selection, SelectionPiece

MAX_REASON_CHARS = 2000
MAX_RATE = 100_000.0
# Few enough to be decided on at once: they wait for nobody, and nobody waits for them.
DECIDED_AT_ONCE = 100
# What a tick does not get done the next one goes on with.
SECONDS_A_TICK = 10.0

_OPEN = "SELECT id FROM operation WHERE ended_at IS NULL AND state IN ('running', 'cancelled') ORDER BY id"
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
_CANARY = """
UPDATE operation SET is_watched = TRUE, canary = (
    SELECT coalesce(array_agg(id ORDER BY turn, place), '{}') FROM (
        SELECT m.id, row_number() OVER (PARTITION BY m.group_id, m.address_id ORDER BY random()) AS turn,
               random() AS place
        FROM (SELECT unnest(message_ids) AS id FROM selection_piece WHERE selection_id = %(selection)s) AS member
             JOIN message m ON m.id = member.id
        WHERE m.state = 'NDLV' ORDER BY 2, 3 LIMIT %(most)s
    ) AS chosen
) WHERE id = %(operation)s
"""
_HALT = """
UPDATE operation SET state = 'halted', state_at = now(), halted_why = %(why)s WHERE id = %(id)s AND state = 'running'
"""
_NEXT_STAGE = "UPDATE operation SET stage = stage + 1 WHERE id = %(id)s AND stage = %(stage)s AND state = 'running'"
_END = """
UPDATE operation SET ended_at = now(), state = CASE WHEN state = 'running' THEN 'completed' ELSE state END,
                     state_at = CASE WHEN state = 'running' THEN now() ELSE state_at END
WHERE id = %(id)s AND ended_at IS NULL AND state IN ('running', 'cancelled')
"""


class OperationNotChanged(PoisonAdminError):
    """Raised when an operation is in a state in which it cannot be paused, resumed or cancelled."""

    code = "operation_state_conflict"
    status = 409


def begin(
    selection: int | Mapping[str, Sequence[str]],
    action: OperationAction,
    *,
    reason: str,
    principal: Principal,
    rate_per_second: float | None = None,
    has_canary: bool = False,
    until: datetime | None = None,
    params: Mapping[str, Any] | None = None,
) -> int:
    """Begin an operation on a selection, or on what a filter finds now; return its id.

    `rate_per_second`: how many deliveries may begin in a second, on all workers together. `has_canary`: 1 member is
    tried, then 10, then 100, and it halts by itself when they fail again. `until`: for POSTPONE. `params`: as
    operations/domain/params.py says. A small one is decided on before this returns; a tick carries on with others,
    whatever dies meanwhile.
    Errors: `NotAllowed`, `NotFound`, `InvalidFilter`, `InvalidSelection`, `InvalidOperation`, `QueryTooExpensive`.
    """
    require(action, principal)
    kept = _checked(action, reason, rate_per_second, until, params)
    if has_canary and action not in DELIVERING:
        raise InvalidOperation("canary", f"has no meaning for {action}, which delivers nothing.")
    with transaction.atomic():
        selection_id = selection if isinstance(selection, int) else freeze(selection, principal=principal.as_reader)
        operation = _create(selection_id, action, reason, principal, rate_per_second, kept)
        if has_canary:
            _choose_canary(operation)
        elif operation.count <= DECIDED_AT_ONCE:
            carry_out_piece(operation)
    _end_where_over(operation.id)
    return operation.id


def decide_on(
    ids: Sequence[int],
    action: OperationAction,
    *,
    reason: str,
    principal: Principal,
    until: datetime | None = None,
    params: Mapping[str, Any] | None = None,
    is_one: bool = False,
    **expected: Any,
) -> Decided:
    """Carry an action out on a handful of messages, as an operation; return what was decided.

    `expected`: `expected_state` and `expected_attempt`, what the caller has seen. What is not found is refused as such.
    `is_one`: there is one message, and an operation only where the action is carried out on it.
    Errors: `NotAllowed`, `InvalidOperation`; with `is_one` those of `decisions.only`.
    """
    require(action, principal)
    kept = _checked(action, reason, None, until, params)
    with transaction.atomic(), connection.cursor() as cursor:
        operation = _create(freeze(ids=ids, principal=principal.as_reader), action, reason, principal, None, kept)
        decided = decide(operation, ids, **expected)
        record(cursor, operation, decided, _members(operation))
        if is_one:
            only(decided, ids[0])
    _end_where_over(operation.id)
    return decided


def require(action: OperationAction, principal: Principal) -> None:
    """Raise NotAllowed unless the principal may carry the action out."""
    principal.require(Permission.DECIDE)
    if not may_carry_out(action, principal):
        principal.require(Permission.READ_PAYLOAD)


def _members(operation: Operation) -> set[int]:
    return {
        one for piece in SelectionPiece.objects.filter(selection_id=operation.selection_id) for one in piece.message_ids
    }


def _checked(
    action: OperationAction,
    reason: str,
    rate_per_second: float | None,
    until: datetime | None,
    params: Mapping[str, Any] | None,
) -> dict[str, Any]:
    if not reason.strip() or len(reason) > MAX_REASON_CHARS:
        raise InvalidOperation("reason", f"must be 1 to {MAX_REASON_CHARS} characters.")
    if rate_per_second is not None and action not in DELIVERING:
        raise InvalidOperation("rate_per_second", f"has no meaning for {action}, which delivers nothing.")
    if rate_per_second is not None and not 0 < rate_per_second <= MAX_RATE:
        raise InvalidOperation("rate_per_second", f"must be above 0 and at most {MAX_RATE:.0f}.")
    if (until is None) is (action is OperationAction.POSTPONE):
        raise InvalidOperation("until", "is required to postpone, and for nothing else.")
    return checked_params(action, params) | ({} if until is None else {"until": until.isoformat()})


def _create(
    selection_id: int,
    action: OperationAction,
    reason: str,
    principal: Principal,
    rate_per_second: float | None,
    params: Mapping[str, Any],
) -> Operation:
    selection = get_selection(selection_id, principal=principal.as_reader)
    if "payload" in params and selection.count > 1:
        raise InvalidOperation("params.payload", f"is for one message, not for {selection.count}; use a json_patch.")
    if target := refusals.values(action, params, principal):
        _ensure_target(target)
    Selection.objects.filter(id=selection.id, used_at=None).update(used_at=Now())
    operation = Operation.objects.create(
        selection_id=selection.id,
        action=str(action),
        state=str(OperationState.RUNNING),
        reason=reason,
        params=dict(params),
        rate_per_second=rate_per_second,
        has_lanes=action in DELIVERING and (selection.count > DECIDED_AT_ONCE or rate_per_second is not None),
        count=selection.count,
        requested_by=principal.name,
        patterns=[list(some) for some in principal.patterns],
    )
    if rate_per_second is not None:
        OperationPace.objects.create(operation_id=operation.id, rate_per_second=rate_per_second)
    if operation.count > 1:
        details = {"action": str(action), "count": selection.count, "hash": selection.hash, "selection": selection.id}
        audit.record(principal.name, "operation.begun", "operation", str(operation.id), note=reason, details=details)
    return operation


def _ensure_target(target: Mapping[str, Any]) -> None:
    """Make the address that messages are redirected to where there is none, unless it would deliver nowhere."""
    if target["target_destination"] is not None:
        ensure_addresses([target["target"]])


def _choose_canary(operation: Operation) -> None:
    """Choose the members to try first: some of every failure group and address, as far as there are enough."""
    values = {"operation": operation.id, "selection": operation.selection_id, "most": STAGE_ENDS[-1]}
    with connection.cursor() as cursor:
        cursor.execute(_CANARY, values)


def change(operation_id: int, what: OperationChange, *, reason: str, principal: Principal) -> None:
    """Pause, resume or cancel an operation. What is under way ends; nothing more begins while it is paused.

    Errors: `NotAllowed`, `NotFound`, `OperationNotChanged`.
    """
    principal.require(Permission.DECIDE)
    found = get_operation(operation_id, principal=principal.as_reader)
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
        audit.record(principal.name, f"operation.{what}", "operation", str(operation_id), note=reason)


def carry_on(*, seconds: float = SECONDS_A_TICK, clock: Callable[[], float] = time.monotonic) -> int:
    """Carry on with the operations that are not over, a piece of each in turn; return how many pieces were decided on.

    Call under `single_flight(Tick.OPERATIONS)`. One in trouble does not keep the others from their turn.
    Errors: the last such one's.
    """
    until = clock() + seconds
    pieces = 0
    failed: Exception | None = None
    going = set(fetch_values(_OPEN))
    while going and clock() < until:
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
    if operation.state == OperationState.CANCELLED:
        undo(operation, actor=operation.requested_by, note=operation.reason)
    elif operation.is_watched and _watch(operation):
        return False
    elif carry_out_piece(operation):
        return True
    _end_where_over(operation_id)
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
    why = why_halt(ledger)
    with transaction.atomic(), connection.cursor() as cursor:
        if why is not None:
            cursor.execute(_HALT, {"id": operation.id, "why": why})
            if cursor.rowcount:
                schedule.hold_lanes(cursor, operation.id, is_held=True)
                details = {"why": why}
                audit.record("system", "operation.halt", "operation", str(operation.id), details=details)
            return True
        if is_stage and is_answered:
            cursor.execute(_NEXT_STAGE, {"id": operation.id, "stage": operation.stage})
    return False


def _end_where_over(operation_id: int) -> None:
    """Write down that every member is accounted for, where that is so."""
    operation = Operation.objects.filter(id=operation_id).first()
    if operation is None:
        raise NotFound(f"There is no operation {operation_id}.")
    ledger = ledger_of(operation, recorded_results(operation_id))
    if ledger.unanswered or ledger.waiting:
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_END, {"id": operation_id})
