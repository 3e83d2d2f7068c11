"""Payloads above the `max_payload_bytes` of the address they are on: kept, and given to nobody; NDLV `oversized`.

They are told apart at intake and when a policy lowers the limit. What slips through, since a claim or an intake goes on
while a policy is saved, or since a message was moved to an address that takes less, is not read by the task that has it
and comes back unbegun: whoever puts it back calls `reject_oversized` in the same transaction.
"""

from collections.abc import Sequence
from typing import Any

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands.locks import retried
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.messages.commands.transitions import StatementParts, move
from poisonadmin.messages.domain.states import Event, Reason, State

MESSAGES_A_TRANSACTION = 5_000
# Their ids are held in memory meanwhile; the rest is found by another search.
MESSAGES_A_SEARCH = 1_000_000

# The note of a history row, for `transitions`. The envelope must have been written by an earlier statement.
SIZES = """
    CASE WHEN reason = 'oversized' THEN (
        SELECT format('The payload has %%s bytes; %%s takes at most %%s (max_payload_bytes).', envelope.payload_bytes,
                      address.name, address.max_payload_bytes)
        FROM envelope, address WHERE envelope.id = changed.id AND address.id = changed.address_id) END
"""

_REJECT = move(
    State.TBDL,
    Event.REJECTED,
    State.NDLV,
    reason=Reason.OVERSIZED,
    chosen="""
    SELECT message.id, message.address_id, state, reason, group_id
    FROM message JOIN envelope ON envelope.id = message.id JOIN address ON address.id = message.address_id
    WHERE message.id = ANY(%(ids)s) AND state = 'TBDL' AND payload_bytes > max_payload_bytes
    ORDER BY message.id FOR UPDATE OF message SKIP LOCKED
""",
    parts=StatementParts(
        note=SIZES,
    ),
)

# What waits is at its lane's floor or behind it; OFFSET 0 keeps the planner from beginning with the envelopes.
_FIND = """
SELECT waiting.id
FROM lane JOIN address ON address.id = lane.address_id
     CROSS JOIN LATERAL (
         SELECT id FROM message WHERE lane_id = lane.id AND state = 'TBDL' AND due_at >= lane.next_due OFFSET 0
     ) AS waiting
     JOIN envelope ON envelope.id = waiting.id
WHERE lane.address_id = ANY(%(addresses)s) AND payload_bytes > max_payload_bytes LIMIT %(limit)s
"""


def sizes(payload_bytes: int, address: str, max_payload_bytes: int) -> str:
    """Return the note of a message that is too large.

    >>> sizes(2000, "orders.eu", 1000)
    'The payload has 2000 bytes; orders.eu takes at most 1000 (max_payload_bytes).'
    """
    return f"The payload has {payload_bytes} bytes; {address} takes at most {max_payload_bytes} (max_payload_bytes)."


def reject_oversized(cursor: CursorWrapper, message_ids: Sequence[int], *, actor: str = "system") -> int:
    """Move those of the messages that wait (TBDL) and are too large to NDLV `oversized`; return how many.

    Call inside a transaction. A message that somebody else holds is left to him.
    """
    if not message_ids:
        return 0
    values: dict[str, Any] = {"ids": list(message_ids), "actor": actor}
    cursor.execute(_REJECT, values)
    return int(cursor.fetchone()[0])


def reject_waiting(address_ids: Sequence[int], *, actor: str) -> int:
    """Move whatever waits on these addresses and is too large to NDLV `oversized`; return how many.

    Call outside a transaction: each few thousand are one of their own.
    """
    total = 0
    while True:
        found = fetch_values(_FIND, {"addresses": list(address_ids), "limit": MESSAGES_A_SEARCH})
        for start in range(0, len(found), MESSAGES_A_TRANSACTION):
            some = found[start : start + MESSAGES_A_TRANSACTION]
            total += retried(lambda some=some: _reject(some, actor))  # type: ignore[misc]
        if len(found) < MESSAGES_A_SEARCH:
            return total


def _reject(message_ids: Sequence[int], actor: str) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        return reject_oversized(cursor, message_ids, actor=actor)
