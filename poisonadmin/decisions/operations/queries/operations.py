"""Operations as they are shown, with their ledger."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.masking import masks_of
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import fetch, fetch_one, fetch_rows, known
from poisonadmin.core.queries.scope import visible_ids
from poisonadmin.core.queries.sql import Sql, all_given, all_of, named_sql, raw
from poisonadmin.decisions.operations.domain.actions import DELIVERING, OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OPEN_STATES, Ledger, OperationState, ledger
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.messages.domain.outcomes import DECIDED_SINCE, MemberOutcome
from poisonadmin.messages.queries.message_rows import MessageRow
from poisonadmin.search.queries.selections import page_of_members

_SELECTED = partial(
    Sql,
    """SELECT operation.id, selection_id, action, state, reason, params, rate_per_second, operation.count,
 ids_hash AS hash, canary IS NOT NULL AS canary, walked, changed, halted_why,
 requested_by, requester, patterns, requested_at, state_at, ended_at, sign_off, sign_off_expires_at,
 sign_off_decision, sign_off_by, sign_off_at, sign_off_reason, broke_glass_at, restart_job_id,
 begin_when, version_seen
FROM operation JOIN selection ON selection.id = selection_id WHERE {where}""",
)
_IN_SCOPE = "selection.address_ids <@ {value}::bigint[]"
_RECORDED = """
SELECT operation_id, outcome, code, sum(n)::bigint FROM (
    SELECT operation_id, outcome, code, count(*) AS n FROM operation_result WHERE operation_id = ANY(%(ids)s)
    GROUP BY 1, 2, 3
    UNION ALL SELECT operation_id, outcome, code, n FROM archived_result WHERE operation_id = ANY(%(ids)s)
) AS recorded GROUP BY 1, 2, 3
"""
_RECORDED_MEMBERS = partial(
    Sql,
    """
SELECT message_id AS id FROM operation_result WHERE operation_id = {id} AND outcome = {wanted}
UNION ALL SELECT unnest(message_ids) FROM archived_result WHERE operation_id = {id} AND outcome = {wanted}
""",
)
_OTHER_MEMBERS = partial(
    Sql,
    """
UNION ALL
SELECT id FROM (
    SELECT member.id, {outcome} AS outcome
    FROM operation JOIN selection_piece AS piece USING (selection_id)
         CROSS JOIN LATERAL unnest(message_ids) AS member (id)
    WHERE operation.id = {id} AND NOT EXISTS (
        SELECT FROM operation_result AS result
        WHERE result.operation_id = operation.id AND result.message_id = member.id)
    AND NOT EXISTS (
        SELECT FROM (SELECT unnest(message_ids) AS id FROM archived_result WHERE operation_id = {id}) AS archived
        WHERE archived.id = member.id)
) AS without_row WHERE outcome = {wanted}
""",
)
_NEWEST_FIRST = Key(("operation.id",), (int,))
# What it has not begun with it will not begin with.
_CANCELLED = (OperationState.CANCELLING, OperationState.CANCELLED)


@dataclass(frozen=True)
class OperationRow:
    """A decision on a selection. `walked`: how many members it has decided on. `hash` is the selection's.

    `ended_at`: when every member was accounted for. `sign_off`: the limit that it exceeds, null for none: more than
    `above` messages at `match`, it has `count`, and there were `earlier` ones. `sign_off_decision`: consent or refuse,
    of another person. `broke_glass_at`: when an administrator began it without. `restart_job_id`: the restart job whose
    run it is. `begin_when`: the `consumer` and its `version` that it waits for, null for none; `version_seen`: the
    `version`, where it was `seen_in` and when, once that was so.
    """

    id: int
    selection_id: int
    action: str
    state: str
    reason: str
    params: Mapping[str, Any]
    rate_per_second: float | None
    count: int
    hash: str
    canary: bool
    walked: int
    changed: int
    halted_why: str | None
    requested_by: str
    requester: str
    patterns: list[list[str]]
    requested_at: datetime
    state_at: datetime
    ended_at: datetime | None
    sign_off: Mapping[str, Any] | None
    sign_off_expires_at: datetime | None
    sign_off_decision: str | None
    sign_off_by: str | None
    sign_off_at: datetime | None
    sign_off_reason: str | None
    broke_glass_at: datetime | None
    restart_job_id: int | None
    begin_when: Mapping[str, Any] | None
    version_seen: Mapping[str, Any] | None

    @property
    def pace_words(self) -> str:
        """Return its rate and its canary in words, empty where it has neither."""
        return Pace(self.rate_per_second, self.canary).words

    @property
    def began_at(self) -> datetime:
        """Return when the first member could be decided on."""
        return self.sign_off_at or self.requested_at


@dataclass(frozen=True)
class Skipped:
    """A count of members that were skipped, and the reason."""

    code: str
    count: int


@dataclass(frozen=True)
class OperationDetail(OperationRow):
    """An operation with its ledger, whose numbers sum to `count`. `done`: how many members are accounted for.

    `decided_since`: cancelled members whose poison list entry, or conversation, was not put back, since somebody has
    released, reopened or used it after the operation had.
    """

    ledger: Ledger
    skipped: list[Skipped]
    decided_since: int

    @property
    def done(self) -> int:
        """Return how many members are accounted for."""
        return self.ledger.done


def list_operations(
    *,
    principal: Principal,
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
    on_sets: bool = False,
    state: str | None = None,
    broke_glass: bool = False,
) -> Page[OperationRow]:
    """Return a page of the operations whose members are all in scope, newest first.

    `on_sets`: without decisions on one message, but with changes of its payload. `state`: only those in it.
    `broke_glass`: only those that an administrator began without the sign-off that they needed.
    """
    principal.require(Permission.READ)
    visible = visible_ids(principal)
    only = [
        all_given({_IN_SCOPE: visible, "operation.state = {value}": state}),
        *([raw("(operation.count > 1 OR operation.action = 'patch')")] if on_sets else []),
        # Spelt out as in the partial indexes.
        *([raw("operation.ended_at IS NULL")] if state in OPEN_STATES else []),
        *([raw("broke_glass_at IS NOT NULL")] if broke_glass else []),
    ]
    found = fetch_page(OperationRow, _SELECTED(where=all_of(only)), page=window(cursor, limit, _NEWEST_FIRST))
    return replace(found, results=[_shown(row, principal) for row in found.results])


def _shown(row: OperationRow, principal: Principal, *, is_one: bool = False) -> OperationRow:
    """Return the operation without what its parameters say of payloads, where the principal may not see those.

    A payload is not repeated, since the message has it as a version; but with `is_one` while it waits for a sign-off.
    """
    sees_payloads = principal.may(Permission.READ_PAYLOAD) and not masks_of(principal)
    may_see = sees_payloads or row.action != OperationAction.PATCH
    has_payload = is_one and row.state == OperationState.WAITING_FOR_SIGN_OFF
    params = {name: value for name, value in row.params.items() if may_see and (has_payload or name != "payload")}
    if may_see and "payload" in row.params:
        params["payload_bytes"] = len(row.params["payload"].encode())
    return replace(row, params=params)


def get_operation(operation_id: int, *, principal: Principal) -> OperationDetail:
    """Return the operation with its ledger; raise NotFound, also where a member is out of scope."""
    principal.require(Permission.READ)
    visible = visible_ids(principal)
    one = _SELECTED(where=all_given({_IN_SCOPE: visible, "operation.id = {value}": operation_id}))
    found = known(fetch_one(OperationRow, one) if 0 < operation_id <= MAX_ID else None, f"operation {operation_id}")
    return _with_ledgers([_shown(found, principal, is_one=True)])[0]


def operations_of_runs(ids: Sequence[int], *, principal: Principal) -> dict[int, OperationDetail]:
    """Return the operations of these ids with their ledgers, for who sees every address."""
    principal.require(Permission.READ)
    if not principal.sees_everything:
        return {}
    rows = fetch(OperationRow, _SELECTED(where=Sql("operation.id = ANY({ids})", ids=list(ids))))
    return {found.id: found for found in _with_ledgers(rows)}


def _with_ledgers(rows: Sequence[OperationRow]) -> list[OperationDetail]:
    recorded: dict[int, Counter[str]] = {row.id: Counter() for row in rows}
    skipped: dict[int, list[Skipped]] = {row.id: [] for row in rows}
    decided_since: Counter[int] = Counter()
    for operation_id, outcome, code, n in fetch_rows(_RECORDED, {"ids": list(recorded)}):
        recorded[operation_id][outcome] += n
        if outcome == MemberOutcome.SKIPPED:
            skipped[operation_id].append(Skipped(code, n))
        elif code == DECIDED_SINCE:
            decided_since[operation_id] += n
    return [
        OperationDetail(
            **vars(row),
            ledger=ledger_of(row, recorded[row.id]),
            skipped=sorted(skipped[row.id], key=lambda one: (-one.count, one.code)),
            decided_since=decided_since[row.id],
        )
        for row in rows
    ]


def ledger_of(operation: Any, recorded: Mapping[str, int]) -> Ledger:
    """Return the ledger of an operation (a row of it, or the model) from how many results it has of each outcome."""
    return ledger(
        recorded,
        count=operation.count,
        walked=operation.walked,
        changed=operation.changed,
        is_cancelled=operation.state in _CANCELLED,
    )


def recorded_results(operation_id: int) -> dict[str, int]:
    """Return how many results the operation has of each outcome, those of archived members too."""
    found: Counter[str] = Counter()
    for _, outcome, _, n in fetch_rows(_RECORDED, {"ids": [operation_id]}):
        found[outcome] += n
    return found


def outcome_without_row(action: str) -> Sql:
    """Return the expression for the outcome of a `member` of a `piece` that has no result.

    It follows from whether the `operation` with this action has decided on it.
    """
    decided = MemberOutcome.UNANSWERED if action in DELIVERING else MemberOutcome.CHANGED
    return named_sql(
        """CASE WHEN piece.number < operation.pieces OR member.id = ANY(canary[1:walked])
              OR piece.number = operation.pieces AND member.id <= message_ids[place] THEN '{decided}'
         WHEN operation.state IN ('cancelling', 'cancelled') THEN 'cancelled'
         ELSE 'unanswered' END""",
        decided=raw(decided),
    )


def list_operation_members(
    operation: OperationDetail,
    outcome: MemberOutcome,
    *,
    principal: Principal,
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Page[MessageRow]:
    """Return a page of the members with this outcome as they are now, live or archived, oldest first.

    Those that have moved out of the caller's scope since are left out, and erased ones. Errors: `InvalidCursor`,
    `QueryTooExpensive`, `ArchiveUnreadable`.
    """
    members = _RECORDED_MEMBERS(id=operation.id, wanted=str(outcome))
    if outcome in (MemberOutcome.CHANGED, MemberOutcome.CANCELLED, MemberOutcome.UNANSWERED):
        without_row = outcome_without_row(operation.action)
        members += _OTHER_MEMBERS(outcome=without_row, id=operation.id, wanted=str(outcome))
    count = getattr(operation.ledger, outcome)
    return page_of_members(members, count=count, principal=principal, cursor=cursor, limit=limit)
