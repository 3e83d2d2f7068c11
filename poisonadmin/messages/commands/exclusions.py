"""Puts back what a cancelled operation had taken away so that its members could be delivered: listed bookmarks, and the
ends of conversations.

It goes by the members that were taken back, or never decided on. An exclusion stays away where somebody has decided so
since: has released the bookmark or reopened the conversation again, or has another of its messages delivered.
"""

from functools import partial
from typing import Any

from django.db.backends.utils import CursorWrapper

from poisonadmin.core.queries.sql import named_sql, raw
from poisonadmin.messages.commands import poison_entries
from poisonadmin.messages.commands.admission import refuse_excluded
from poisonadmin.messages.domain.outcomes import DECIDED_SINCE
from poisonadmin.messages.domain.states import ExclusionKind

AT_ONCE = 1_000

# `beside`: the messages that an exclusion keeps from being delivered, with `message` and `is_changed`.
_TAKE = partial(
    named_sql,
    """
WITH lifted AS (
    DELETE FROM lifted_exclusion WHERE id IN (
        SELECT id FROM lifted_exclusion WHERE operation_id = %(operation)s AND kind = '{kind}'
        ORDER BY id LIMIT %(limit)s FOR UPDATE)
    RETURNING id, former, at
), judged AS (
    SELECT former, array_agg(message.id) AS ids,
           array_agg(message.id) FILTER (WHERE never_begun.is_so) AS never_begun,
           bool_or({is_changed} OR message.operation_id <> %(operation)s
                   AND (message.state IN ('TBDL', 'DLNG') OR message.operation_id > %(operation)s)) AS is_decided
    FROM lifted {beside} LEFT JOIN LATERAL (
        SELECT event FROM history
        WHERE message_id = message.id AND operation_id = %(operation)s ORDER BY seq DESC LIMIT 1
    ) AS did ON TRUE CROSS JOIN LATERAL (
        SELECT did.event = 'operation_cancelled' OR did.event IS NULL AND message.state = 'NDLV' AND message.id IN (
            SELECT unnest(message_ids) FROM operation JOIN selection_piece USING (selection_id)
            WHERE operation.id = %(operation)s) AS is_so
    ) AS never_begun
    GROUP BY lifted.id, former HAVING bool_or(never_begun.is_so)
), noted AS (
    UPDATE operation_result SET code = '{decided_since}' FROM judged
    WHERE is_decided AND operation_id = %(operation)s AND message_id = ANY(never_begun) AND outcome = 'cancelled'
)
SELECT jsonb_agg(DISTINCT former)::text, array_agg(id)
FROM judged CROSS JOIN LATERAL unnest(ids) AS beside (id) WHERE is_decided IS NOT TRUE
""",
    decided_since=raw(DECIDED_SINCE),
)
_TAKE_ENTRIES = _TAKE(
    kind=raw(ExclusionKind.ENTRY),
    is_changed=raw("NOT entry.is_listed AND entry.released_at IS DISTINCT FROM lifted.at"),
    beside=raw("""JOIN poison_entry AS entry ON entry.id = (former ->> 'id')::bigint
         CROSS JOIN LATERAL (
             SELECT entry.message_id AS id
             UNION
             SELECT envelope.id
             FROM envelope JOIN message ON message.id = envelope.id
                  JOIN address ON address.id = message.address_id
             WHERE address.name = entry.source
               AND (envelope.bookmark = entry.bookmark
                    OR envelope.bookmark IS NULL AND envelope.message_id = entry.bookmark)
         ) AS member JOIN message ON message.id = member.id"""),
)
_TAKE_CONVERSATIONS = _TAKE(
    kind=raw(ExclusionKind.CONVERSATION),
    is_changed=raw("""EXISTS (SELECT FROM lifted_exclusion AS later
                   WHERE later.id > lifted.id AND later.kind = 'conversation'
                     AND later.operation_id <> %(operation)s
                     AND later.former -> 'address_id' = lifted.former -> 'address_id'
                     AND later.former -> 'conversation_id' = lifted.former -> 'conversation_id')"""),
    beside=raw("""JOIN envelope ON envelope.conversation_id = former ->> 'conversation_id'
         JOIN message ON message.id = envelope.id
              AND coalesce(original_address_id, address_id) = (former ->> 'address_id')::bigint"""),
)
# One that has ended again meanwhile stays as it ended.
_END_AGAIN = """
INSERT INTO conversation SELECT * FROM jsonb_populate_recordset(NULL::conversation, %(former)s::jsonb) ORDER BY 1, 2
ON CONFLICT (address_id, conversation_id) DO UPDATE
SET failures = excluded.failures, last_message_id = excluded.last_message_id, failed_at = excluded.failed_at,
    ended_at = excluded.ended_at, error_code = excluded.error_code, error = excluded.error
WHERE conversation.ended_at IS NULL
"""


def exclude_again(cursor: CursorWrapper, operation_id: int, *, actor: str, note: str) -> bool:
    """Put back some of what a cancelled operation had taken away; return whether there may be more.

    Call in a transaction, when nothing of the operation waits or is under way any more. What has come meanwhile and
    waits is stopped as it would have been. Where somebody has decided otherwise, the results of the members say so.
    """
    values: dict[str, Any] = {"operation": operation_id, "limit": AT_ONCE}
    cursor.execute("SELECT EXISTS (SELECT FROM lifted_exclusion WHERE operation_id = %(operation)s)", values)
    if not cursor.fetchone()[0]:
        return False
    beside: list[int] = []
    for take in (_TAKE_ENTRIES, _TAKE_CONVERSATIONS):
        cursor.execute(str(take), values)
        former, ids = cursor.fetchone()
        if former is not None and take is _TAKE_ENTRIES:
            poison_entries.list_again(cursor, former, actor=actor, note=note)
        elif former is not None:
            cursor.execute(_END_AGAIN, {"former": former})
        beside += ids or ()
    refuse_excluded(cursor, beside, actor=actor)
    return True
