"""Expiry: a message that waited past its `expires_at` is given up."""

from django.db import connection, transaction

from poisonadmin.messages.commands.transitions import move
from poisonadmin.messages.domain.states import Event, Reason, State

_EXPIRE = move(
    State.TBDL,
    Event.EXPIRED,
    State.FAIL,
    reason=Reason.EXPIRED,
    chosen="""
    SELECT id, address_id, state, reason, group_id FROM message
    WHERE state = 'TBDL' AND expires_at <= now() ORDER BY expires_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
""",
)


def expire_due(limit: int = 10_000) -> int:
    """Move messages that wait past their `expires_at` to FAIL `expired`.

    Return how many. One under way is left to end.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_EXPIRE, {"limit": limit, "actor": "system", "note": None})
        count: int = cursor.fetchone()[0]
    return count
