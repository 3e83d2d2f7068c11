"""Expiry: a message that waited past its `expires_at` is given up."""

from django.db import connection, transaction

from poisonadmin.messages.commands.transitions import RECORDED

_EXPIRE = f"""
WITH late AS (
    SELECT id, address_id, state, reason, group_id FROM message
    WHERE state = 'TBDL' AND expires_at <= now() ORDER BY expires_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), changed AS (
    UPDATE message SET state = 'FAIL', reason = 'expired', state_at = now(), due_at = NULL, expires_at = NULL
    FROM late WHERE message.id = late.id
    RETURNING message.id, message.address_id, message.state, message.reason, message.group_id, message.attempt_number,
              late.address_id AS was_address_id, late.state AS was_state, late.reason AS was_reason,
              late.group_id AS was_group_id, 'expired' AS event
), {RECORDED}
SELECT count(*) FROM changed
"""  # noqa: S608  (fragments are constants)


def expire_due(limit: int = 10_000) -> int:
    """Move messages that wait past their `expires_at` to FAIL `expired`.

    Return how many. One under way is left to end.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_EXPIRE, {"limit": limit, "actor": "system", "note": None})
        count: int = cursor.fetchone()[0]
    return count
