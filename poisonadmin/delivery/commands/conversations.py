"""Conversations that ended: what else of them waits is parked for an administrator (SEMANTICS R6)."""

from collections.abc import Sequence

from django.db.backends.utils import CursorWrapper

from poisonadmin.messages.commands.transitions import RECORDED

_PARK = f"""
WITH ended AS (
    SELECT DISTINCT envelope.conversation_id, message.address_id, message.id
    FROM message JOIN envelope ON envelope.id = message.id
    WHERE message.id = ANY(%(ids)s) AND envelope.conversation_id IS NOT NULL
), others AS (
    SELECT message.id, message.address_id, message.state, message.reason, message.group_id
    FROM ended JOIN envelope ON envelope.conversation_id = ended.conversation_id
         JOIN message ON message.id = envelope.id AND message.address_id = ended.address_id AND message.state = 'TBDL'
    ORDER BY message.id FOR UPDATE OF message SKIP LOCKED
), changed AS (
    UPDATE message SET state = 'NDLV', reason = 'conversation_ended', state_at = now(), due_at = NULL,
                       expires_at = NULL
    FROM others WHERE message.id = others.id
    RETURNING message.id, message.address_id, message.state, message.reason, message.group_id, message.attempt_number,
              others.address_id AS was_address_id, others.state AS was_state, others.reason AS was_reason,
              others.group_id AS was_group_id, 'conversation_ended' AS event
), {RECORDED}
SELECT count(*) FROM changed
"""  # noqa: S608  (fragments are constants)


def park_conversations(cursor: CursorWrapper, message_ids: Sequence[int]) -> int:
    """Move what waits (TBDL) of these messages' conversations, on the same address, to NDLV; return how many."""
    if not message_ids:
        return 0
    cursor.execute(_PARK, {"ids": list(message_ids), "actor": "system", "note": "its conversation was ended"})
    return int(cursor.fetchone()[0])
