"""A piece goes from the database to its files, in one transaction: the files count from then on, the rows are gone.

What the deletes remove is compared with what was written; one changed row, and nothing of it happens.
"""

from typing import Any

from django.db import connection, transaction

from poisonadmin.archive.commands import figures
from poisonadmin.archive.domain.pieces import APPEND_ONLY, CHOSEN, TABLES, PieceState
from poisonadmin.core.commands import locks
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.sql import Sql, name, named_sql, raw
from poisonadmin.messages.queries.counts import COUNTED
from poisonadmin.store.models.archive import ArchiveFile, ArchivePiece, LegalHold

_INDEX = str(
    named_sql(
        """
INSERT INTO archived_message (id, piece_id, address_id, original_address_id, state, reason, group_id, state_at,
                              received_at, failed_at, message_id, conversation_id)
SELECT found.id, %(piece)s, address_id, coalesce(original_address_id, NULLIF(e.intake_address_id, address_id)), state,
       reason, group_id, state_at, e.received_at, failed_at, e.message_id, e.conversation_id
FROM (SELECT m.* {chosen}) AS found JOIN envelope AS e ON e.id = found.id
WHERE e.id > %(after)s AND e.id <= %(until)s ORDER BY found.id
""",
        chosen=raw(CHOSEN),
    )
)
# With statistics: a plan that takes a piece for a row or two looks up each of its rows.
_PRUNED = """
CREATE TEMP TABLE pruned ON COMMIT DROP AS
SELECT id, address_id, state, state_at FROM archived_message
WHERE id > %(after)s AND id <= %(until)s AND piece_id = %(piece)s ORDER BY id
"""
_GONE = raw("SELECT count(*), coalesce(sum(xmin::text::bigint), 0)::bigint FROM gone")
# The deltas of what was counted before it went.
_DELETE_MESSAGES = named_sql(
    """
WITH gone AS (
    DELETE FROM message USING (SELECT id FROM pruned) AS chosen
    WHERE message.id = chosen.id AND message.id > %(after)s AND message.id <= %(until)s
    RETURNING message.xmin, state, address_id, reason, group_id, original_address_id
), counted AS (
    INSERT INTO counter_delta ({counted}, delta) SELECT {counted}, -count(*) FROM gone GROUP BY {counted}
)
{gone}
""",
    counted=COUNTED,
    gone=_GONE,
)
# What operations' ledgers count of these members from now on.
_DELETE_RESULTS = named_sql(
    """
WITH gone AS (
    DELETE FROM operation_result AS one USING (SELECT id FROM pruned) AS chosen
    WHERE one.message_id = chosen.id AND one.message_id > %(after)s AND one.message_id <= %(until)s
    RETURNING one.xmin, operation_id, message_id, outcome, code
), counted AS (
    INSERT INTO archived_result (operation_id, piece_id, outcome, code, n, message_ids)
    SELECT operation_id, %(piece)s, outcome, code, count(*), array_agg(message_id ORDER BY message_id)
    FROM gone GROUP BY operation_id, outcome, code
)
{gone}
""",
    gone=_GONE,
)


def _deleting(table: str, key: str) -> Sql:
    """Return the statement that removes a piece's rows of a table, and returns how many, with their versions."""
    if table in APPEND_ONLY:
        return named_sql("SELECT * FROM forget_kept_rows('{table}', ARRAY(SELECT id FROM pruned))", table=name(table))
    return named_sql(
        """
WITH gone AS (
    DELETE FROM {table} AS one USING (SELECT id FROM pruned) AS chosen
    WHERE one.{key} = chosen.id AND one.{key} > %(after)s AND one.{key} <= %(until)s RETURNING one.xmin
)
{gone}
""",
        table=name(table),
        key=name(key),
        gone=_GONE,
    )


_DELETES = {table: _deleting(table, key) for table, key in TABLES.items()} | {
    "message": _DELETE_MESSAGES,
    "operation_result": _DELETE_RESULTS,
}


class PieceChanged(Exception):
    """Raised when something of a piece is not any more as it was written."""


def prune(piece: ArchivePiece, cutoffs: str) -> bool:
    """Have the files of a written piece count, and remove its rows; return False while somebody reads the tables.

    Errors: `PieceChanged`: a row is not as it was written; then nothing has happened.
    """
    values: dict[str, Any] = {"piece": piece.id, "after": piece.after_id, "until": piece.until_id, "cutoffs": cutoffs}
    with transaction.atomic(), connection.cursor() as cursor:
        if not locks.try_lock(cursor, Lock.TABLES):
            return False
        cursor.execute("SELECT state FROM archive_piece WHERE id = %(piece)s FOR UPDATE", values)
        if cursor.fetchone()[0] != PieceState.WRITTEN:
            return True
        # Nobody begins to hold anything until this is over.
        cursor.execute("LOCK TABLE legal_hold IN SHARE MODE")
        if _holds() != piece.held_by:
            raise PieceChanged
        cursor.execute(_INDEX, values)
        cursor.execute(_PRUNED, values)
        cursor.execute("ANALYZE pruned")
        figures.add_piece(cursor, values)
        for table in TABLES:
            cursor.execute(str(_DELETES[table]), values)
            if tuple(map(int, cursor.fetchone())) != tuple(piece.rows[table]):
                raise PieceChanged
        ArchiveFile.objects.filter(piece=piece).update(is_current=True)
        ArchivePiece.objects.filter(id=piece.id).update(state=PieceState.ARCHIVED)
    return True


def _holds() -> list[int]:
    return list(LegalHold.objects.filter(lifted_at=None).order_by("id").values_list("id", flat=True))
