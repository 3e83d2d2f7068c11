"""Operations: begun, paused, resumed, cancelled, and carried on by a tick until every member is accounted for."""

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.core.domain.locks import Lock, lock_key
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
from poisonadmin.operations.queries.selections import SelectionRow, get_selection
from poisonadmin.sign_offs.domain.sign_off import SignOffNeeded
from poisonadmin.sign_offs.queries.needed import limits_of, sign_off_needed
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


@dataclass(frozen=True)
class RunOf:
    """The restart job whose run an operation is. `spares_crashed`: what has crashed its consumer is left alone."""

    restart_job_id: int
    spares_crashed: bool


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
    break_glass: bool = False,
    run_of: RunOf | None = None,
) -> int:
    """Begin an operation on a selection, or on what a filter finds now; return its id.

    `rate_per_second`: how many deliveries may begin in a second, on all workers together. `has_canary`: 1 member is
    tried, then 10, then 100, and it halts by itself when they fail again. `until`: for POSTPONE. `params`: as
    operations/domain/params.py says. `break_glass`: an administrator begins it without the sign-off that it needs. A
    small one is decided on before this returns; a tick carries on with others, whatever dies meanwhile. One that needs
    a sign-off waits, and nothing of it is done.
    Errors: `NotAllowed`, `NotFound`, `InvalidFilter`, `InvalidSelection`, `InvalidOperation`, `QueryTooExpensive`.
    """
    require(action, principal)
    if break_glass:
        principal.require(Permission.BREAK_GLASS)
    kept = _checked(action, reason, rate_per_second, until, params)
    if has_canary and action not in DELIVERING:
        raise InvalidOperation("canary", f"has no meaning for {action}, which delivers nothing.")
    with transaction.atomic():
        selection_id = selection if isinstance(selection, int) else freeze(selection, principal=principal.as_reader)
        operation = _create(
            selection_id, action, reason, principal, rate_per_second, kept, break_glass=break_glass, run_of=run_of
        )
        if has_canary:
            _choose_canary(operation)
        elif operation.state == OperationState.RUNNING:
            _decide_at_once(operation)
    end_where_over(operation.id)
    return operation.id


def start(operation: Operation) -> None:
    """Begin with an operation that was signed off. Call in the transaction in which it was."""
    if operation.canary is not None:
        _choose_canary(operation)  # anew: its messages have waited, and may have changed
    else:
        _decide_at_once(operation)


def _decide_at_once(operation: Operation) -> None:
    if operation.count <= DECIDED_AT_ONCE:
        carry_out_piece(operation)


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
    `is_one`: there is one message, and an operation only where the action is carried out on it, or could be.
    One that needs a sign-off waits: `awaits` of what is returned names it, and nothing was changed.
    Errors: `NotAllowed`, `InvalidOperation`; with `is_one` those of `decisions.only`.
    """
    require(action, principal)
    kept = _checked(action, reason, None, until, params)
    with transaction.atomic(), connection.cursor() as cursor:
        operation = _create(freeze(ids=ids, principal=principal.as_reader), action, reason, principal, None, kept)
        if operation.state == OperationState.RUNNING:
            decided = decide(operation, ids, **expected)
            record(cursor, operation, decided, _members(operation))
        else:
            with transaction.atomic():
                decided = replace(decide(operation, ids, **expected), changed=(), handed_back=(), awaits=operation.id)
                transaction.set_rollback(True)
        if is_one:
            only(decided, ids[0])
    end_where_over(operation.id)
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


def require_reason(reason: str) -> None:
    """Do nothing where there is a reason; raise InvalidOperation."""
    if not reason.strip() or len(reason) > MAX_REASON_CHARS:
        raise InvalidOperation("reason", f"must be 1 to {MAX_REASON_CHARS} characters.")


def _checked(
    action: OperationAction,
    reason: str,
    rate_per_second: float | None,
    until: datetime | None,
    params: Mapping[str, Any] | None,
) -> dict[str, Any]:
    require_reason(reason)
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
    *,
    break_glass: bool = False,
    run_of: RunOf | None = None,
) -> Operation:
    selection = get_selection(selection_id, principal=principal.as_reader)
    if "payload" in params and selection.count > 1:
        raise InvalidOperation("params.payload", f"is for one message, not for {selection.count}; use a json_patch.")
    refusals.values(action, params, principal)  # raises for a target out of scope
    needed = _sign_off_of(selection, action, params, principal)
    waits = needed is not None and not break_glass
    Selection.objects.filter(id=selection.id, used_at=None).update(used_at=Now())
    operation = Operation.objects.create(
        selection_id=selection.id,
        action=str(action),
        state=str(OperationState.WAITING_FOR_SIGN_OFF if waits else OperationState.RUNNING),
        reason=reason,
        params=dict(params),
        rate_per_second=rate_per_second,
        has_lanes=action in DELIVERING and (selection.count > DECIDED_AT_ONCE or rate_per_second is not None),
        count=selection.count,
        requested_by=principal.name,
        requester=principal.person,
        patterns=[list(some) for some in principal.patterns],
        sign_off=None if needed is None else asdict(needed),
        sign_off_expires_at=Now() + timedelta(hours=settings.SIGN_OFF_HOURS) if waits else None,
        broke_glass_at=Now() if needed is not None and break_glass else None,
        **(asdict(run_of) if run_of else {}),
    )
    if rate_per_second is not None:
        OperationPace.objects.create(operation_id=operation.id, rate_per_second=rate_per_second)
    if operation.count > 1 or needed is not None:
        details: dict[str, Any] = {"action": str(action), "count": selection.count, "hash": selection.hash}
        details |= {"selection": selection.id} | ({} if needed is None else {"sign_off": asdict(needed)})
        word = "begun" if needed is None else "sign_off_asked" if waits else "broke_glass"
        audit.record(principal.name, f"operation.{word}", "operation", str(operation.id), note=reason, details=details)
    return operation


def _sign_off_of(
    selection: SelectionRow, action: OperationAction, params: Mapping[str, Any], principal: Principal
) -> SignOffNeeded | None:
    """Return the limit that the operation exceeds. Of two that one person begins at once, the second counts both."""
    limits = limits_of(action)
    if limits:
        with connection.cursor() as cursor:
            locks.hold(cursor, Lock.SIGN_OFF, lock_key(zlib.crc32(principal.person.encode())))
    return sign_off_needed(
        limits,
        action,
        principal=principal,
        count=selection.count,
        selection_id=selection.id,
        target=params.get("address"),
    )


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
    if found.state == OperationState.WAITING_FOR_SIGN_OFF:
        end_where_over(operation_id)


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


def end_where_over(operation_id: int) -> None:
    """Write down that every member is accounted for, where that is so."""
    operation = Operation.objects.filter(id=operation_id).first()
    if operation is None:
        raise NotFound(f"There is no operation {operation_id}.")
    ledger = ledger_of(operation, recorded_results(operation_id))
    if ledger.unanswered or ledger.waiting:
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_END, {"id": operation_id})
