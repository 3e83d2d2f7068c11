"""Carrying an operation out: one piece of its selection after the other, each in one transaction with how far it is."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.addresses.commands import ensure_addresses
from poisonadmin.core.commands.authentication import principal_of_account
from poisonadmin.core.commands.locks import retried
from poisonadmin.core.domain.access import Permission, Principal, Role
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.core.queries.scope import visible_ids
from poisonadmin.core.queries.sql import Sql
from poisonadmin.decisions.commands import decisions
from poisonadmin.decisions.commands.decisions import Decided, OperationRef
from poisonadmin.decisions.operations.domain.actions import DELIVERING, OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import STAGE_ENDS
from poisonadmin.decisions.operations.domain.params import may_carry_out
from poisonadmin.decisions.operations.queries.operations import OperationRow
from poisonadmin.decisions.operations.queries.preview import refusal_of
from poisonadmin.decisions.queries import refusals
from poisonadmin.decisions.queries.payload_changes import MAX_PATCHED_BYTES, PayloadChange
from poisonadmin.messages.domain.outcomes import MemberOutcome
from poisonadmin.messages.domain.states import State
from poisonadmin.store.models.operation import Operation

# What is parsed and written in a second or so: who cancels waits for no longer.
BYTES_AT_ONCE = 2 * 1024 * 1024

_LOCK = """
SELECT message_ids, canary, stage, walked, place
FROM operation LEFT JOIN selection_piece AS piece
     ON piece.selection_id = operation.selection_id AND piece.number = operation.pieces
WHERE operation.id = %(operation)s AND operation.state = 'running'
FOR NO KEY UPDATE OF operation SKIP LOCKED
"""
_RESULTS = """
INSERT INTO operation_result (operation_id, message_id, outcome, code, detail)
SELECT %(operation)s, id, %(outcome)s, code, detail
FROM unnest(%(ids)s::bigint[], %(codes)s::text[], %(details)s::text[]) AS skipped (id, code, detail)
"""
_SIZES = "SELECT id, least(payload_bytes, %s) FROM envelope WHERE id = ANY(%s)"
_MOVE_ON = """
UPDATE operation SET pieces = pieces + %(pieces)s, walked = walked + %(walked)s, changed = changed + %(changed)s,
                     place = %(place)s
WHERE id = %(operation)s
"""
_CRASHED = partial(
    Sql,
    "SELECT m.id FROM message m WHERE m.id = ANY({ids}) AND NOT ({nothing})",
    nothing=refusals.CRASHED_NOTHING,
)
_LOCK_MEMBERS = "SELECT FROM message WHERE id = ANY(%s) ORDER BY id FOR UPDATE"
_COUNT_RESTARTS = """
INSERT INTO restart (restart_job_id, message_id, times)
SELECT restart_job.id, changed.id, 1
FROM restart_job, unnest(%(ids)s::bigint[]) AS changed (id)
WHERE restart_job.id = %(restart_job)s ORDER BY changed.id FOR KEY SHARE OF restart_job
ON CONFLICT (restart_job_id, message_id) DO UPDATE SET times = restart.times + 1
"""


def carry_out_piece(operation: Operation) -> bool:
    """Decide on the next piece of a running operation; return whether there was one that nobody else works on."""
    return retried(lambda: _carry_out(operation))


def _carry_out(operation: Operation) -> bool:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK, {"operation": operation.id})
        found = cursor.fetchone()
        ids = None if found is None else _next(*found)
        if ids is None:
            return False
        is_piece = found[1] is None or found[2] >= len(STAGE_ENDS)
        some = _at_once(operation, ids)
        is_end = is_piece and len(some) == len(ids)
        place = 0 if is_end or not is_piece else found[0].index(some[-1]) + 1
        left = dict.fromkeys(_held(cursor, operation, some), refusals.HELD_BY_PREDECESSOR)
        left |= dict.fromkeys(_spared(cursor, operation, some), refusals.CRASHED)
        decided = decide(operation, [one for one in some if one not in left])
        decided = replace(decided, refused=decided.refused | left)
        record(cursor, operation, decided, set(some), pieces=int(is_end), place=place)
        if operation.restart_job_id is not None:
            cursor.execute(_COUNT_RESTARTS, {"restart_job": operation.restart_job_id, "ids": sorted(decided.changed)})
    return True


def _held(cursor: CursorWrapper, operation: Operation, ids: Sequence[int]) -> list[int]:
    """Return which members an undecided message before them would hold that the operation does not deliver itself."""
    action, principal = OperationAction(operation.action), principal_of(operation)
    known = refusals.values(action, operation.params, principal) | {"visible": visible_ids(principal)}
    known |= {"selection": operation.selection_id, "ids": list(ids)}
    known["overtaken"] = refusals.overtaken(action, refusals.NEAR_IDS, known)
    cursor.execute(str(refusals.held(action, refusals.OF_IDS)), known)
    return [row[0] for row in cursor.fetchall()]


def _spared(cursor: CursorWrapper, operation: Operation, ids: Sequence[int]) -> set[int]:
    """Return which members the operation leaves alone, since they have crashed their consumer by now."""
    if not operation.spares_crashed:
        return set()
    cursor.execute(_LOCK_MEMBERS, [list(ids)])
    cursor.execute(*_CRASHED(ids=list(ids)))
    return {row[0] for row in cursor.fetchall()}


def _at_once(operation: Operation, ids: list[int]) -> list[int]:
    """Return the first of the members, as many as one transaction should decide on: a change reads their payloads."""
    if operation.action != OperationAction.PATCH:
        return ids
    sizes = dict(fetch_rows(_SIZES, [MAX_PATCHED_BYTES, ids]))
    cost = PayloadChange(operation.params).cost_bytes
    total = 0
    for place, message_id in enumerate(ids):
        total += sizes.get(message_id, 0) + cost
        if total > BYTES_AT_ONCE and place:
            return ids[:place]
    return ids


def _next(piece: list[int] | None, canary: list[int] | None, stage: int, walked: int, place: int) -> list[int] | None:
    """Return the members to decide on next; None when there are none, or those of a stage are to be answered first."""
    if canary is not None and stage < len(STAGE_ENDS):
        return canary[walked : STAGE_ENDS[stage]] or None
    tried = set(canary or ())
    return None if piece is None else [one for one in piece[place:] if one not in tried]


def decide(operation: Operation, ids: Sequence[int], **expected: Any) -> Decided:
    """Carry the operation's action out on these messages, for who asked for it. Errors: those of the decision."""
    action, principal = OperationAction(operation.action), principal_of(operation)
    known = refusals.values(action, operation.params, principal)
    if known.get("target_destination") is not None:
        ensure_addresses([known["target"]])  # where messages are redirected to, unless it would deliver nowhere
    until = operation.params.get("until")
    ref = OperationRef(operation.id, has_lanes=operation.has_lanes, is_audited=operation.count > 1)
    return decisions.decide(
        action,
        ids,
        until=datetime.fromisoformat(until) if until else None,
        params=operation.params,
        principal=principal,
        reason=operation.reason,
        operation=ref,
        **expected,
    )


def principal_of(operation: Operation | OperationRow) -> Principal:
    """Return who asked for the operation, as far as carrying it out and its preview need it."""
    patterns = tuple(tuple(some) for some in operation.patterns)
    permissions = frozenset({Permission.READ, Permission.READ_PAYLOAD, Permission.DECIDE})
    return Principal(operation.requested_by, Role.OPERATOR, permissions, patterns)


def record(
    cursor: CursorWrapper,
    operation: Operation,
    decided: Decided,
    members: Collection[int],
    *,
    pieces: int = 1,
    place: int = 0,
) -> None:
    """Write down what became of members that were decided on, and that the operation is past them, and `pieces`.

    `place`: how many of the next piece it is past.
    """
    skipped = {
        message_id: (why, decided.details[message_id])
        if message_id in decided.details
        else refusal_of(why, _holder(decided, message_id, why), decided.returns.get(message_id, ""))
        for message_id, why in decided.refused.items()
        if message_id in members
    }
    _write(cursor, operation, MemberOutcome.SKIPPED, skipped)
    ends_at_once = OperationAction(operation.action) not in DELIVERING
    if not ends_at_once:
        _write(cursor, operation, MemberOutcome.CHANGED, dict.fromkeys(decided.handed_back, (None, None)))
    changed = len(decided.changed) if ends_at_once else 0
    values = {"operation": operation.id, "pieces": pieces, "walked": len(members), "changed": changed}
    values["place"] = place
    cursor.execute(_MOVE_ON, values)


def _holder(decided: Decided, message_id: int, why: str) -> int | None:
    """Return the operation that a message waits or is under way for; None where there is none."""
    return decided.operations.get(message_id) if why in (State.TBDL, State.DLNG) else None


def _write(
    cursor: CursorWrapper,
    operation: Operation,
    outcome: MemberOutcome,
    members: Mapping[int, tuple[str | None, str | None]],
) -> None:
    if not members:
        return
    codes, details = zip(*members.values(), strict=True)
    values: dict[str, Any] = {
        "operation": operation.id,
        "outcome": str(outcome),
        "ids": list(members),
        "codes": list(codes),
        "details": list(details),
    }
    cursor.execute(_RESULTS, values)


_IS_SEEN = "SELECT address_ids <@ %s::bigint[] FROM selection WHERE id = %s"


def why_not_allowed(operation: Operation | OperationRow) -> str | None:
    """Return why who asked could not ask for it now, None where nothing is in the way or nobody with an account asked.

    What counts is the account, not the token or the session, which may be over.
    """
    if not operation.requester.startswith("user "):
        return None
    asked_by = principal_of_account(operation.requester)
    if asked_by is None:
        return f"The account of {operation.requested_by} is not in force any more."
    if not may_carry_out(OperationAction(operation.action), asked_by):
        return f"{operation.requested_by} may not do this any more."
    visible = visible_ids(asked_by)
    is_seen = visible is None or fetch_values(_IS_SEEN, [visible, operation.selection_id])[0]
    target = operation.params.get("address")
    if not is_seen or (target is not None and not asked_by.sees(target)):
        return f"Not all of its addresses are in the scope of {operation.requested_by} any more."
    return None
