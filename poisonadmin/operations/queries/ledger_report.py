"""The ledger of an operation as CSV: a line a member, with its outcome."""

from collections.abc import Iterator
from typing import Any

from django.db import connection

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.spreadsheet import cell, header_line, lines
from poisonadmin.core.queries.address_ids import visible_ids
from poisonadmin.core.queries.rows import bounded, fetch_rows
from poisonadmin.messages.queries.merged_groups import SEEN_AS
from poisonadmin.operations.domain.ledger import MemberOutcome
from poisonadmin.operations.queries.operations import OperationRow, outcome_without_row

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
# Of a member that has moved out of scope since, its outcome is told, and nothing else.
_MEMBERS = f"""
SELECT id, {", ".join(f"CASE WHEN is_seen THEN {name} END" for name in ("message_id", "address", "state"))}, outcome,
       {", ".join(f"CASE WHEN is_seen THEN {name} END" for name in ("code", "detail", "group_id", "title"))},
       CASE WHEN result_at IS NOT NULL OR outcome <> '{MemberOutcome.CHANGED}' THEN result_at
            ELSE (SELECT max(at) FROM history WHERE history.message_id = found.id AND operation_id = %(operation)s) END
FROM (
    SELECT m.id, e.message_id, a.name AS address, m.state, result.code, result.detail, {SEEN_AS} AS group_id, g.title,
           result.at AS result_at, coalesce(result.outcome, {{without_row}}) AS outcome,
           %(visible)s::bigint[] IS NULL OR m.address_id = ANY(%(visible)s::bigint[]) AS is_seen
    FROM operation
         JOIN selection_piece AS piece ON piece.selection_id = operation.selection_id AND piece.number = %(number)s
         CROSS JOIN LATERAL unnest(message_ids[%(first)s:%(last)s]) AS member (id)
         JOIN message m ON m.id = member.id JOIN envelope e ON e.id = m.id JOIN address a ON a.id = m.address_id
         LEFT JOIN operation_result AS result ON result.operation_id = operation.id AND result.message_id = m.id
         LEFT JOIN failure_group g ON g.id = coalesce(result.failed_group_id, m.group_id)
    WHERE operation.id = %(operation)s
) AS found
WHERE %(outcome)s::text IS NULL OR outcome = %(outcome)s
ORDER BY id
"""  # noqa: S608  (fragments are constants)


def ledger_report(
    operation: OperationRow, *, principal: Principal, outcome: MemberOutcome | None = None, mark: bool = False
) -> Iterator[bytes]:
    """Yield the ledger as CSV, in the order in which members are decided on; of one `outcome`, where that is given.

    A thousand members are read at a time, each time as they are then. `mark`: with a byte order mark.
    Errors: `NotAllowed`, `QueryTooExpensive`.
    """
    principal.require(Permission.EXPORT)
    yield header_line(COLUMNS, mark=mark)
    statement = _MEMBERS.format(without_row=outcome_without_row(operation.action))
    values: dict[str, Any] = {"operation": operation.id, "outcome": outcome and str(outcome)}
    values["visible"] = visible_ids(principal)
    for number, size in fetch_rows(_PIECES, [operation.selection_id]):
        for first in range(1, size + 1, MEMBERS_A_SLICE):
            with bounded():
                more = {"number": number, "first": first, "last": first + MEMBERS_A_SLICE - 1}
                rows = fetch_rows(statement, values | more)
            # Whoever reads slowly must not keep one of the pool's connections meanwhile.
            if not connection.in_atomic_block:
                connection.close_if_unusable_or_obsolete()
            if rows:
                yield lines([cell(value) for value in row] for row in rows)
