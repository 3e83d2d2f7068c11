"""The ledger of an operation, for a file: a row a member, with its outcome."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from django.db import connection

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.exports import Row
from poisonadmin.core.domain.masking import Masks
from poisonadmin.core.queries.masking import addresses_of, masks_of
from poisonadmin.core.queries.rows import bounded, fetch_rows, fetch_values
from poisonadmin.core.queries.scope import visible_ids
from poisonadmin.core.queries.sql import named_sql
from poisonadmin.decisions.operations.queries.operations import OperationRow, outcome_without_row
from poisonadmin.messages.domain.outcomes import MemberOutcome
from poisonadmin.messages.queries.archived_index import rows_of_several
from poisonadmin.messages.queries.merged_groups import SEEN_AS

MEMBERS_A_SLICE = 1_000
COLUMNS = (
    "id",
    "message_id",
    "address",
    "state",
    "outcome",
    "code",
    "detail",
    "failure_group_id",
    "failure_group",
    "outcome_at",
)
_PIECES = "SELECT number, cardinality(message_ids) FROM selection_piece WHERE selection_id = %s ORDER BY number"
_ARCHIVED = """
SELECT r.id FROM archived_message AS r JOIN (
    SELECT unnest(message_ids[%(first)s:%(last)s]) AS id FROM selection_piece
    WHERE selection_id = %(selection)s AND number = %(number)s) AS member USING (id)
"""
_AS_FILED = ("message_id", "operation_id", "outcome", "code", "detail", "failed_group_id", "at")
# Of a member that has moved out of scope since, its outcome is told, and nothing else. `filed`: of archived members,
# the results, and when their history names the operation.
_MEMBERS = partial(
    named_sql,
    """
SELECT id, CASE WHEN is_seen THEN message_id END, CASE WHEN is_seen THEN address END, CASE WHEN is_seen THEN state END,
       outcome, CASE WHEN is_seen THEN code END, CASE WHEN is_seen THEN detail END,
       CASE WHEN is_seen THEN group_id END, CASE WHEN is_seen THEN title END,
       CASE WHEN result_at IS NOT NULL OR outcome <> 'changed' THEN result_at ELSE coalesce(decided_at,
            (SELECT max(at) FROM history WHERE history.message_id = found.id AND operation_id = %(operation)s)) END
FROM (
    SELECT member.id, coalesce(e.message_id, r.message_id) AS message_id, a.name AS address,
           coalesce(m.state, r.state) AS state, coalesce(result.code, filed.code) AS code,
           coalesce(result.detail, filed.detail) AS detail, {seen_as} AS group_id, g.title,
           coalesce(result.at, filed.at) AS result_at, decided_at,
           coalesce(result.outcome, filed.outcome, {without_row}) AS outcome,
           %(visible)s::bigint[] IS NULL OR a.id = ANY(%(visible)s::bigint[]) AS is_seen
    FROM operation
         JOIN selection_piece AS piece ON piece.selection_id = operation.selection_id AND piece.number = %(number)s
         CROSS JOIN LATERAL unnest(message_ids[%(first)s:%(last)s]) AS member (id)
         LEFT JOIN message m ON m.id = member.id LEFT JOIN envelope e ON e.id = m.id
         LEFT JOIN archived_message r ON r.id = member.id
         JOIN address a ON a.id = coalesce(m.address_id, r.address_id)
         LEFT JOIN operation_result AS result ON result.operation_id = operation.id AND result.message_id = member.id
         LEFT JOIN jsonb_to_recordset(%(filed)s::jsonb) AS filed (message_id bigint, outcome text, code text,
             detail text, failed_group_id bigint, at timestamptz, decided_at timestamptz)
             ON filed.message_id = member.id
         LEFT JOIN failure_group g
             ON g.id = coalesce(result.failed_group_id, filed.failed_group_id, m.group_id, r.group_id)
    WHERE operation.id = %(operation)s
) AS found
WHERE %(outcome)s::text IS NULL OR outcome = %(outcome)s
ORDER BY id
""",
)


def ledger_rows(
    operation: OperationRow, *, principal: Principal, outcome: MemberOutcome | None = None
) -> Iterator[list[Row]]:
    """Yield the ledger's rows in `COLUMNS`, in the order in which members are decided on; of one `outcome`, where that
    is given.

    A thousand members are read at a time, each time as they are then, live or archived; erased ones have no row.
    Errors: `NotAllowed`, `QueryTooExpensive`, `ArchiveUnreadable`.
    """
    principal.require(Permission.EXPORT)
    statement = str(_MEMBERS(seen_as=SEEN_AS, without_row=outcome_without_row(operation.action)))
    values: dict[str, Any] = {"operation": operation.id, "outcome": outcome and str(outcome)}
    values["visible"] = visible_ids(principal)
    masks = masks_of(principal)
    for number, size in fetch_rows(_PIECES, [operation.selection_id]):
        for first in range(1, size + 1, MEMBERS_A_SLICE):
            some = {"number": number, "first": first, "last": first + MEMBERS_A_SLICE - 1}
            archived = fetch_values(_ARCHIVED, {"selection": operation.selection_id} | some)
            filed = _filed(operation, archived) if archived else "[]"
            with bounded():
                rows = fetch_rows(statement, values | some | {"filed": filed})
            # Whoever reads slowly must not keep one of the pool's connections meanwhile.
            if not connection.in_atomic_block:
                connection.close_if_unusable_or_obsolete()
            if rows:
                yield _masked(rows, masks) if masks else list(rows)


def _masked(rows: Sequence[Row], masks: Masks) -> list[Row]:
    at = addresses_of([row[0] for row in rows])
    shown: list[Row] = []
    for row in rows:
        one: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
        if one["message_id"]:
            one["message_id"] = masks.at(one["address"], *at.get(one["id"], ())).own("message_id", one["message_id"])
        if one["failure_group"]:
            one["failure_group"] = masks.title(one["failure_group_id"], one["failure_group"])
        shown.append(tuple(one.values()))
    return shown


def _filed(operation: OperationRow, ids: Sequence[int]) -> str:
    """Return what the archive's files have of the operation's members with these ids, as JSON: an object a member."""
    found = {
        row["message_id"]: row
        for row in rows_of_several(ids, "results", columns=_AS_FILED)
        if row["operation_id"] == operation.id
    }
    for row in rows_of_several(ids, "history", columns=("message_id", "operation_id", "at")):
        if row["operation_id"] == operation.id:
            one = found.setdefault(row["message_id"], {"message_id": row["message_id"]})
            one["decided_at"] = max(row["at"], one.get("decided_at", row["at"]))
    return json.dumps(list(found.values()), default=datetime.isoformat)
