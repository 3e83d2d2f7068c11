"""Removes staged rows that will not be merged, with their bodies and keys."""

from collections.abc import Collection

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

# Staged for a file that is not waiting for its merge: a task outlived the run that it belonged to. Everything else that
# is staged is visible only to the transaction that merges it, or belongs to a file that the next run begins again.
_STRAY = """
SELECT DISTINCT batch FROM staged_message WHERE batch LIKE 'file:%' AND NOT EXISTS (
    SELECT FROM source_file WHERE source_file.id = split_part(batch, ':', 2)::bigint AND state IN ('seen', 'staged'))
"""
_DROP = """
WITH dropped AS (DELETE FROM staged_message WHERE {column} = ANY(%s) RETURNING id),
     no_keys AS (DELETE FROM business_key USING dropped WHERE business_key.message_id = dropped.id)
DELETE FROM body USING dropped WHERE body.id = dropped.id
"""


def drop_rows(cursor: CursorWrapper, ids: Collection[int]) -> None:
    """Remove these staged rows."""
    cursor.execute(_DROP.format(column="id"), [list(ids)])


def drop_batches(cursor: CursorWrapper, batches: Collection[str]) -> int:
    """Remove what is staged in these batches; return how many rows it was."""
    cursor.execute(_DROP.format(column="batch"), [sorted(batches)])
    return int(cursor.rowcount)


def sweep_orphans() -> int:
    """Remove staged rows, and their bodies, that no run will merge; return how many.

    A body is written in one transaction with its staged row, and that one becomes an envelope in one transaction, so no
    body is ever without either.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_STRAY)
        stray = [batch for (batch,) in cursor.fetchall()]
        return drop_batches(cursor, stray) if stray else 0
