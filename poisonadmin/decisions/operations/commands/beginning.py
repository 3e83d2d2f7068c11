"""Beginning operations: on selections and on handfuls of messages, at once or once they are signed off."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.commands.locks import retried
from poisonadmin.core.domain.access import OutOfScope, Permission, Principal
from poisonadmin.core.domain.locks import Lock, lock_key
from poisonadmin.decisions.commands.decisions import Decided
from poisonadmin.decisions.commands.refused_decisions import only
from poisonadmin.decisions.operations.commands.carry_out import carry_out_piece, decide, record
from poisonadmin.decisions.operations.commands.operations import end_where_over
from poisonadmin.decisions.operations.domain.actions import DELIVERING, OperationAction
from poisonadmin.decisions.operations.domain.awaited_version import BeginWhen
from poisonadmin.decisions.operations.domain.lifecycle import STAGE_ENDS, OperationState
from poisonadmin.decisions.operations.domain.pace import UNLIMITED, Pace
from poisonadmin.decisions.operations.domain.params import (
    InvalidOperation,
    checked_params,
    may_carry_out,
    require_reason,
)
from poisonadmin.decisions.operations.domain.replay import checked_waive
from poisonadmin.decisions.queries import refusals
from poisonadmin.decisions.sign_offs.domain import SignOffNeeded
from poisonadmin.decisions.sign_offs.queries import limits_of, sign_off_needed
from poisonadmin.deployments.queries import consumer_is_seen
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.queries.owners import account_id
from poisonadmin.search.queries.selections import SelectionRow, get_selection
from poisonadmin.store.models.operation import Operation, OperationPace, Selection, SelectionPiece

# Few enough to be decided on at once: they wait for nobody, and nobody waits for them.
DECIDED_AT_ONCE = 100

# What is delivered in order is chosen by whole conversations, from their first members on: a member is answered only
# when those before it are.
_CANARY = """
WITH member AS (
    SELECT id, group_id, address_id,
           CASE WHEN conversation_id IS NULL THEN id
                ELSE min(id) OVER (PARTITION BY target_id, conversation_id) END AS first_id
    FROM (
        SELECT m.id, m.group_id, m.address_id, target.id AS target_id, CASE WHEN target.is_ordered THEN (
                   SELECT conversation_id FROM envelope WHERE envelope.id = m.id) END AS conversation_id
        FROM (SELECT unnest(message_ids) AS id FROM selection_piece WHERE selection_id = %(selection)s) AS selected
             JOIN message m ON m.id = selected.id LEFT JOIN address AS target ON target.id = coalesce(
                 (SELECT id FROM address WHERE name = %(target)s), m.original_address_id, m.address_id)
        WHERE m.state = 'NDLV'
    ) AS undecided
), first AS (
    SELECT id, row_number() OVER (PARTITION BY group_id, address_id ORDER BY random()) AS turn, random() AS place
    FROM member WHERE id = first_id ORDER BY 2, 3 LIMIT %(most)s
)
UPDATE operation SET is_watched = TRUE, canary = (
    SELECT coalesce(array_agg(id ORDER BY turn, place, id), '{}') FROM (
        SELECT member.id, turn, place FROM first JOIN member ON member.first_id = first.id
        ORDER BY turn, place, member.id LIMIT %(most)s
    ) AS chosen
) WHERE id = %(operation)s
"""


@dataclass(frozen=True)
class RunOf:
    """The restart job whose run an operation is. `spares_crashed`: what has crashed its consumer is left alone."""

    restart_job_id: int
    spares_crashed: bool


@dataclass(frozen=True)
class OperationTerms:
    """The terms on which an operation is carried out.

    `pace`: how many deliveries may begin in a second, on all workers together; with a canary 1 member is tried, then
    10, then 100, and it halts by itself when they fail again. `break_glass`: an administrator begins it without the
    sign-off that it needs. `run_of`: where it is a run of a restart job. `begin_when`: it waits until a version of its
    consumer is seen alive, and begins with a canary then. `waive`: which refusals of domain/replay.py do not count;
    None: none of them does, since nobody was asked.
    """

    pace: Pace = UNLIMITED
    break_glass: bool = False
    run_of: RunOf | None = None
    begin_when: BeginWhen | None = None
    waive: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Give it a canary where it waits for a version: whether that has mended anything is to be seen."""
        if self.begin_when is not None:
            object.__setattr__(self, "pace", self.pace._replace(has_canary=True))


_PLAIN = OperationTerms()


def begin(
    selection: int | Mapping[str, Sequence[str]],
    action: OperationAction,
    *,
    reason: str,
    principal: Principal,
    until: datetime | None = None,
    params: Mapping[str, Any] | None = None,
    terms: OperationTerms = _PLAIN,
) -> int:
    """Begin an operation on a selection, or on the messages that a filter finds now; return its id.

    `until`: for POSTPONE. `params`: as decisions/operations/domain/params.py says. A small one is decided on before
    this returns; a tick carries on with others, whatever crashes meanwhile. One that needs a sign-off, or a version of
    its consumer, waits, and nothing of it is done.
    Errors: `NotAllowed`, `NotFound`, `InvalidFilter`, `InvalidSelection`, `InvalidOperation`, `QueryTooExpensive`.
    """
    require(action, principal)
    if terms.break_glass:
        principal.require(Permission.BREAK_GLASS)
    kept = _checked(action, reason, terms.pace, until, params, principal)
    if terms.waive is not None:
        waived = checked_waive(terms.waive, action)
        kept |= {"waive": waived} if action in DELIVERING else {}
    with transaction.atomic():
        selection_id = selection if isinstance(selection, int) else freeze(selection, principal=principal.as_reader)
        operation = _create(selection_id, action, reason, principal, kept, terms)
        if terms.pace.has_canary:
            _choose_canary(operation)
        elif operation.state == OperationState.RUNNING:
            _decide_at_once(operation)
    end_where_over(operation.id)
    return operation.id


def start(operation: Operation) -> None:
    """Begin with an operation that has waited. Call in the transaction in which it goes on."""
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
    Errors: `NotAllowed`, `InvalidOperation`; with `is_one` those of `refused_decisions.only`.
    """
    require(action, principal)
    kept = _checked(action, reason, UNLIMITED, until, params, principal)
    decided, operation = retried(lambda: _decide_on(ids, action, reason, principal, kept, is_one=is_one, **expected))
    end_where_over(operation.id)
    return replace(decided, operation=operation.id)


def _decide_on(
    ids: Sequence[int],
    action: OperationAction,
    reason: str,
    principal: Principal,
    kept: Mapping[str, Any],
    *,
    is_one: bool,
    **expected: Any,
) -> tuple[Decided, Operation]:
    with transaction.atomic(), connection.cursor() as cursor:
        operation = _create(freeze(ids=ids, principal=principal.as_reader), action, reason, principal, kept, _PLAIN)
        if operation.state == OperationState.RUNNING:
            decided = decide(operation, ids, **expected)
            record(cursor, operation, decided, _members(operation))
        else:
            with transaction.atomic():
                decided = replace(decide(operation, ids, **expected), changed=(), handed_back=(), awaits=operation.id)
                transaction.set_rollback(True)
        if is_one:
            only(decided, ids[0], principal.as_reader)
    return decided, operation


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
    pace: Pace,
    until: datetime | None,
    params: Mapping[str, Any] | None,
    principal: Principal,
) -> dict[str, Any]:
    require_reason(reason)
    pace.check(action)
    if (until is None) is (action is OperationAction.POSTPONE):
        raise InvalidOperation("until", "is required to postpone, and for nothing else.")
    kept = checked_params(action, params)
    if kept.get("owner") is not None and account_id(kept["owner"], principal) is None:
        raise InvalidOperation("params.owner", f"There is no account {kept['owner'][:80]}.")
    return kept | ({} if until is None else {"until": until.isoformat()})


def _create(
    selection_id: int,
    action: OperationAction,
    reason: str,
    principal: Principal,
    params: Mapping[str, Any],
    terms: OperationTerms,
) -> Operation:
    selection = get_selection(selection_id, principal=principal.as_reader)
    if "payload" in params and selection.count > 1:
        raise InvalidOperation("params.payload", f"is for one message, not for {selection.count}; use a json_patch.")
    if action is OperationAction.PATCH:
        refusals.require_in_the_clear(selection.id, principal)
    refusals.values(action, params, principal)  # raises for a target out of scope
    needed = _sign_off_of(selection, action, params, principal)
    waits = needed is not None and not terms.break_glass
    awaited = terms.begin_when
    if awaited is not None and not consumer_is_seen(awaited.consumer, principal):
        raise OutOfScope("begin_when.consumer", f"consumer {awaited.consumer}")
    then = OperationState.RUNNING if awaited is None else OperationState.WAITING_FOR_VERSION
    rate_per_second = terms.pace.rate_per_second
    Selection.objects.filter(id=selection.id, used_at=None).update(used_at=Now())
    operation = Operation.objects.create(
        selection_id=selection.id,
        action=str(action),
        state=str(OperationState.WAITING_FOR_SIGN_OFF if waits else then),
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
        begin_when=None if awaited is None else asdict(awaited),
        broke_glass_at=Now() if needed is not None and terms.break_glass else None,
        **(asdict(terms.run_of) if terms.run_of else {}),
    )
    if rate_per_second is not None:
        OperationPace.objects.create(operation_id=operation.id, rate_per_second=rate_per_second)
    if operation.count > 1 or needed is not None or awaited is not None:
        details: dict[str, Any] = {"action": str(action), "count": selection.count, "hash": selection.hash}
        details |= {"selection": selection.id} | ({} if needed is None else {"sign_off": asdict(needed)})
        details |= {name: value for name, value in terms.pace._asdict().items() if value}
        details |= {} if awaited is None else {"begin_when": asdict(awaited)}
        details |= {"waive": params["waive"]} if params.get("waive") else {}
        word = "sign_off_asked" if waits else "broke_glass" if needed else "version_awaited" if awaited else "begun"
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
    values: dict[str, Any] = {"operation": operation.id, "selection": operation.selection_id, "most": STAGE_ENDS[-1]}
    values["target"] = operation.params.get("address")
    with connection.cursor() as cursor:
        cursor.execute(_CANARY, values)
