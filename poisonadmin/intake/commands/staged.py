"""Staged rows that become no message of their own: duplicates, conflicts, and rows that no run will merge."""

from collections.abc import Collection
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.brokers.domain.broker_names import DEAD_LETTER_HEADERS
from poisonadmin.core.queries.sql import named_sql, raw

NAMED_CONFLICTS = 1000


@dataclass(frozen=True)
class BatchOrigin:
    """The origin of a batch: a file of a directory source, a broker source, or neither."""

    file_id: int | None = None
    source_id: int | None = None


@dataclass(frozen=True)
class Conflict:
    """A line whose message id belongs to a message with another body, and the id of that message."""

    line: int
    first_id: int
    detail: str


# What the producer sent, where a broker puts its own headers beside it.
_SENT = """
(SELECT coalesce(jsonb_object_agg(key, value), '{{}}') FROM jsonb_each(convert_from({body}.headers, 'UTF8')::jsonb)
 WHERE lower(key) !~ %(by_brokers)s)
"""

# Runs after the envelopes are in: a staged row without one has lost. Its line is written again as it could be handed
# in, since the bytes that came are not kept.
_PUT_ASIDE = str(
    named_sql(
        """
WITH lost AS MATERIALIZED (
    SELECT staged.*, first.id AS first_id,
           first.content_type = staged.content_type
           AND first.conversation_id IS NOT DISTINCT FROM staged.conversation_id
           AND first.bookmark IS NOT DISTINCT FROM staged.bookmark
           AND CASE WHEN first_body.id IS NULL THEN first.payload_bytes = staged.payload_bytes
                    -- Nothing is left to compare with: it is kept, and a person sees it.
                    WHEN EXISTS (SELECT FROM removed_payload AS gone WHERE gone.message_id = first.id) THEN FALSE
                    WHEN first_body.payload <> own_body.payload THEN FALSE
                    WHEN first_body.headers = own_body.headers THEN TRUE
                    WHEN %(source)s::bigint IS NOT NULL
                    THEN {first_sent} = {own_sent}
                    ELSE FALSE END AS is_same
    FROM staged_message AS staged
         JOIN address ON address.name = staged.address
         JOIN envelope AS first ON first.intake_address_id = address.id AND first.message_id = staged.message_id
         -- What came in, also where somebody has changed it since.
         LEFT JOIN LATERAL (
             SELECT body.id, coalesce(original.payload, body.payload) AS payload,
                    coalesce(original.headers, body.headers) AS headers
             FROM body LEFT JOIN payload_version AS original
                  ON original.message_id = body.id AND original.number = 1
             WHERE body.id = first.id
         ) AS first_body ON TRUE
         JOIN body AS own_body ON own_body.id = staged.id
    WHERE staged.batch = %(batch)s AND first.id <> staged.id
), kept AS (
    INSERT INTO rejected_line (source_id, source_file_id, batch, line, code, detail, raw)
    SELECT coalesce(source_file.source_id, source.id), source_file.id, lost.batch, lost.line, 'message_id_conflict',
           format('%%s has a message %%s with another body already (id %%s).', lost.address, lost.message_id,
                  lost.first_id),
           convert_to(json_strip_nulls(json_build_object(
               'address', lost.address, 'message_id', lost.message_id, 'content_type', lost.content_type,
               'headers', convert_from(body.headers, 'UTF8')::json, 'conversation_id', lost.conversation_id,
               'bookmark', lost.bookmark, 'expires_at', lost.expires_at,
               'dead_letter', convert_from(lost.dead_letter, 'UTF8')::json -> 'told',
               'payload_base64', translate(encode(body.payload, 'base64'), E'\\n', '')))::text, 'UTF8')
    FROM lost JOIN body USING (id) LEFT JOIN source_file ON source_file.id = %(file)s
         LEFT JOIN source ON source.id = %(source)s
    WHERE NOT lost.is_same
    ON CONFLICT (batch, line) DO NOTHING
    RETURNING line, detail
), no_body AS (
    DELETE FROM body USING lost WHERE body.id = lost.id
), no_keys AS (
    DELETE FROM business_key USING lost WHERE business_key.message_id = lost.id
), not_staged AS (
    DELETE FROM staged_message USING lost WHERE staged_message.id = lost.id
)
SELECT count(*), count(*) FILTER (WHERE is_same),
       (SELECT array_agg(ARRAY[line, first_id] ORDER BY line)
        FROM (SELECT line, first_id FROM lost WHERE NOT is_same ORDER BY line LIMIT %(named)s) AS named)
FROM lost
""",
        first_sent=raw(_SENT.format(body="first_body")),
        own_sent=raw(_SENT.format(body="own_body")),
    )
)


def put_duplicates_aside(
    cursor: CursorWrapper, batch: str, origin: BatchOrigin
) -> tuple[int, int, tuple[Conflict, ...]]:
    """Remove the batch's rows that did not win their id; return how many, the duplicates among them, the conflicts.

    What a broker adds to the headers on a message's way makes no other body of it. At most `NAMED_CONFLICTS` conflicts
    are returned; every one is in `rejected_line`, as a line to hand in again.
    """
    values = {
        "batch": batch,
        "file": origin.file_id,
        "source": origin.source_id,
        "by_brokers": DEAD_LETTER_HEADERS,
        "named": NAMED_CONFLICTS,
    }
    cursor.execute(_PUT_ASIDE, values)
    found, duplicates, named = cursor.fetchone()
    return (
        found,
        duplicates,
        tuple(
            Conflict(line, first_id, f"The address has a message of this id with another body already (id {first_id}).")
            for line, first_id in named or ()
        ),
    )


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
