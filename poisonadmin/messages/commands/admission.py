"""Refuses messages that may not wait for a delivery where they are, and gives up those that have waited too long.

Refused are payloads that are too large, bookmarks on the poison list, and messages of conversations that have ended.

Whoever leaves messages in TBDL on an address calls `refuse_inadmissible` in the same transaction. What slips through,
since a bookmark is listed while an intake goes on, is not read by the task that has it (workers/delivery/claimed.py)
and comes back unbegun, to be refused then.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.queries.sql import join, named_sql, raw
from poisonadmin.messages.commands.oversize import reject_oversized
from poisonadmin.messages.commands.poison_entries import listed_messages, release_for_messages
from poisonadmin.messages.commands.transitions import StatementParts, move
from poisonadmin.messages.domain.states import Event, Reason, State

_IS_USED = """
SELECT EXISTS (SELECT FROM poison_entry WHERE is_listed), EXISTS (SELECT FROM conversation WHERE ended_at IS NOT NULL)
"""

# What `message` and `envelope` are joined with: the reason for which a message is refused.
_LISTED = raw("""
JOIN address ON address.id = message.address_id
JOIN poison_entry AS entry ON entry.source = address.name AND entry.is_listed
                          AND entry.bookmark = coalesce(envelope.bookmark, envelope.message_id)
""")
_ENDED = raw("""
JOIN conversation ON conversation.address_id = message.address_id
                 AND conversation.conversation_id = envelope.conversation_id AND conversation.ended_at IS NOT NULL
""")
_WHY_ENDED = raw("""
'its conversation has ended' || coalesce(' with error ' || conversation.error_code || ': ' || conversation.error, '')
""")
_CHOSEN = partial(
    named_sql,
    """
    SELECT message.id, message.address_id, message.state, message.reason, message.group_id, {note} AS note
    FROM message JOIN envelope ON envelope.id = message.id {refused_for}
    WHERE message.id = ANY(%(ids)s) AND message.state = 'TBDL' ORDER BY message.id FOR UPDATE OF message SKIP LOCKED
""",
)
_WITH_NOTE = StatementParts(shows=("chosen.note",), note="note")

_LIST = move(
    State.TBDL,
    Event.LISTED,
    State.NDLV,
    reason=Reason.LISTED,
    chosen=str(_CHOSEN(refused_for=_LISTED, note=raw("entry.why"))),
    parts=_WITH_NOTE,
)
_PARK = move(
    State.TBDL,
    Event.CONVERSATION_ENDED,
    State.NDLV,
    reason=Reason.CONVERSATION_ENDED,
    chosen=str(_CHOSEN(refused_for=_ENDED, note=_WHY_ENDED)),
    parts=_WITH_NOTE,
)

_OF_BATCH = join(
    " UNION ",
    (
        named_sql(
            """
SELECT message.id FROM staged_message AS staged JOIN message USING (id) JOIN envelope USING (id) {refused_for}
WHERE staged.batch = %(batch)s
""",
            refused_for=refused_for,
        )
        for refused_for in (_LISTED, _ENDED)
    ),
)

# An entry shows one of the messages that it has stopped.
_LINK = """
UPDATE poison_entry AS entry SET message_id = message.id
FROM message JOIN envelope USING (id) JOIN address ON address.id = message.address_id
WHERE message.id = ANY(%(ids)s) AND state = 'NDLV' AND reason = 'listed' AND entry.message_id IS NULL
  AND entry.source = address.name AND entry.bookmark = coalesce(envelope.bookmark, envelope.message_id)
"""

_BESIDE = """
SELECT other.id
FROM message JOIN envelope USING (id) JOIN envelope AS its ON its.conversation_id = envelope.conversation_id
     JOIN message AS other ON other.id = its.id AND other.address_id = message.address_id AND other.state = 'TBDL'
WHERE message.id = ANY(%(ids)s)
UNION
SELECT other.id
FROM message JOIN envelope USING (id) JOIN envelope AS its ON its.bookmark = envelope.bookmark
     JOIN message AS other ON other.id = its.id AND other.address_id = message.address_id AND other.state = 'TBDL'
WHERE message.id = ANY(%(ids)s)
"""

_ENDED_BEFORE = raw("""
FROM message JOIN envelope USING (id) JOIN conversation
     ON conversation.address_id = coalesce(message.original_address_id, message.address_id)
        AND conversation.conversation_id = envelope.conversation_id
WHERE message.id = ANY(%(ids)s) AND ended_at IS NOT NULL
""")
_OF_ENDED = named_sql("SELECT message.id {ended}", ended=_ENDED_BEFORE)
_REOPEN = named_sql(
    """
WITH reopened AS (
    DELETE FROM conversation USING (
        SELECT conversation.address_id, conversation.conversation_id
        {ended} ORDER BY 1, 2 FOR UPDATE OF conversation
    ) AS ended
    WHERE conversation.address_id = ended.address_id AND conversation.conversation_id = ended.conversation_id
    RETURNING conversation.*
)
INSERT INTO lifted_exclusion (operation_id, kind, former, at)
SELECT %(operation)s::bigint, 'conversation', to_jsonb(reopened), now()
FROM reopened WHERE %(operation)s::bigint IS NOT NULL
""",
    ended=_ENDED_BEFORE,
)


def refuse_inadmissible(cursor: CursorWrapper, message_ids: Sequence[int]) -> int:
    """Move those of the messages that wait (TBDL) and may not be delivered there to NDLV; return how many.

    Reasons: `oversized`, `listed` (R7), `conversation_ended` (R6). Call inside a transaction. A message
    that somebody else holds is left to him.
    """
    return reject_oversized(cursor, message_ids) + refuse_excluded(cursor, message_ids)


def refuse_excluded(cursor: CursorWrapper, message_ids: Sequence[int], *, actor: str = "system") -> int:
    """As `refuse_inadmissible`, but for the size: for messages whose size was compared where they are."""
    if not message_ids:
        return 0
    cursor.execute(_IS_USED)
    is_listing, has_ended = cursor.fetchone()
    refused = 0
    for statement, is_used in ((_LIST, is_listing), (_PARK, has_ended)):
        if is_used:
            values: dict[str, Any] = {"ids": list(message_ids), "actor": actor}
            cursor.execute(statement, values)
            refused += (count := int(cursor.fetchone()[0]))
            if count and statement is _LIST:
                cursor.execute(_LINK, values)
    return refused


def waiting_beside(cursor: CursorWrapper, message_ids: Sequence[int]) -> list[int]:
    """Return what waits on the same address in the conversation, or with the bookmark, of one of the messages."""
    if not message_ids:
        return []
    cursor.execute(_BESIDE, {"ids": list(message_ids)})
    return [row[0] for row in cursor.fetchall()]


def refuse_of_batch(cursor: CursorWrapper, batch: str, *, actor: str) -> int:
    """As `refuse_excluded`, for the messages made of a staged batch whose rows are still there."""
    cursor.execute(_IS_USED)
    if not any(cursor.fetchone()):
        return 0
    cursor.execute(str(_OF_BATCH), {"batch": batch})
    return refuse_excluded(cursor, [row[0] for row in cursor.fetchall()], actor=actor)


def kept_out(cursor: CursorWrapper, message_ids: Sequence[int]) -> set[int]:
    """Return those of the messages for which `admit_again` would take something away."""
    cursor.execute(_IS_USED)
    is_listing, has_ended = cursor.fetchone()
    found = listed_messages(cursor, message_ids) if is_listing else set()
    if has_ended:
        cursor.execute(str(_OF_ENDED), {"ids": list(message_ids)})
        found |= {row[0] for row in cursor.fetchall()}
    return found


def admit_again(
    cursor: CursorWrapper, message_ids: Sequence[int], *, actor: str, note: str, operation_id: int | None
) -> None:
    """Take away what keeps messages from being delivered that are being approved: release their bookmarks, and reopen
    their conversations (R6, R7). Call with the messages locked, before they leave their address.

    What was taken away is noted for the operation.
    """
    release_for_messages(cursor, message_ids, actor=actor, note=note, operation_id=operation_id)
    cursor.execute(str(_REOPEN), {"ids": list(message_ids), "operation": operation_id})


EXPIRED_A_TICK = 10_000
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


def expire_due() -> int:
    """Move messages that wait past their `expires_at` to FAIL `expired`.

    Return how many. One under way is left to end.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_EXPIRE, {"limit": EXPIRED_A_TICK, "actor": "system", "note": None})
        count: int = cursor.fetchone()[0]
    return count
