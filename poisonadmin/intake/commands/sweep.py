"""What intake may leave behind when processes die, and its removal."""

from django.db import connection, transaction

# Staged for a file that is not waiting for its merge: a task outlived the run that it belonged to. Everything else that
# is staged is visible only to the transaction that merges it, or belongs to a file that the next run begins again.
_STRAY = """
SELECT DISTINCT batch FROM staged_message WHERE batch LIKE 'file:%' AND NOT EXISTS (
    SELECT FROM source_file WHERE source_file.id = split_part(batch, ':', 2)::bigint AND state IN ('seen', 'staged'))
"""
_DROP = """
WITH dropped AS (DELETE FROM staged_message WHERE batch = ANY(%s) RETURNING id),
     no_keys AS (DELETE FROM business_key USING dropped WHERE business_key.message_id = dropped.id)
DELETE FROM body USING dropped WHERE body.id = dropped.id
"""


def sweep_orphans() -> int:
    """Remove staged rows, and their bodies, that no run will merge; return how many.

    A body is written in one transaction with its staged row, and that one becomes an envelope in one transaction, so no
    body is ever without either.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_STRAY)
        stray = [batch for (batch,) in cursor.fetchall()]
        if not stray:
            return 0
        cursor.execute(_DROP, [stray])
        return int(cursor.rowcount)
