"""Staged dead letters become NDLV messages with the failure that they brought along."""

from django.db.backends.utils import CursorWrapper

from poisonadmin.operations import groups
from poisonadmin.operations.broker_hops import append_hops

# Parsed once a row; `told` is what was handed in, the rest is attempt 0 (domain/staged_rows.py).
_TOLD = """
told AS MATERIALIZED (
    SELECT staged.id, staged.address, one.*, one.told ->> 'reason' AS note,
           (one.told ->> 'delivery_count')::int AS delivery_count,
           one.told ->> 'original_address' AS original_address,
           LEAST((one.told ->> 'failed_at')::timestamptz, now()) AS failed_at
    FROM staged_message AS staged CROSS JOIN LATERAL jsonb_to_record(convert_from(staged.dead_letter, 'UTF8')::jsonb)
         AS one(told jsonb, error_class text, cause_class text, error_message text, stack text, fingerprint text,
                title text)
    WHERE staged.batch = %(batch)s AND staged.dead_letter IS NOT NULL
)"""

_SEEN = f"WITH {_TOLD} SELECT fingerprint, title, error_class, id, failed_at FROM told"  # noqa: S608

# Not the ledger's RECORDED: each history row has a note of its own, and joining it to what was inserted, which the
# planner takes for a row or two, made 20,000 dead letters take 14 s.
_IMPORT = f"""
WITH {_TOLD}, changed AS (
    INSERT INTO message (id, address_id, lane_id, state, reason, failure_count, failed_at, group_id,
                         original_address_id)
    SELECT told.id, here.id, lane.id, 'NDLV', 'imported', coalesce(told.delivery_count, 0),
           told.failed_at, failure_group.id, original.id
    FROM told JOIN address AS here ON here.name = told.address
         JOIN lane ON lane.address_id = here.id AND lane.conversation_id IS NULL AND NOT lane.is_isolation
         LEFT JOIN address AS original ON original.name = told.original_address
         LEFT JOIN failure_group ON failure_group.fingerprint = told.fingerprint
    RETURNING address_id, group_id
), first_attempt AS (
    INSERT INTO attempt (message_id, attempt_number, finished_at, outcome, error_class, cause_class, error_message,
                         stack, fingerprint, title)
    SELECT id, 0, failed_at, 'imported', error_class, cause_class, error_message, stack, fingerprint, title FROM told
), first_hop AS (
    INSERT INTO hop (message_id, from_address, to_address, reason, by, at)
    SELECT id, original_address, address, coalesce(note, 'imported'), %(actor)s, failed_at
    FROM told WHERE original_address <> address
), recorded_history AS (
    INSERT INTO history (message_id, to_state, event, reason, attempt_number, actor, note)
    SELECT id, 'NDLV', 'imported', 'imported', 0, %(actor)s, note FROM told
)
INSERT INTO counter_delta (address_id, state, reason, group_id, delta)
SELECT address_id, 'NDLV', 'imported', group_id, count(*) FROM changed GROUP BY address_id, group_id
"""  # noqa: S608  (fragments are constants)

_MOVED = """
SELECT id FROM staged_message
WHERE batch = %(batch)s AND dead_letter IS NOT NULL AND position('"moves":'::bytea IN dead_letter) > 0 ORDER BY id
"""


def import_dead_letters(cursor: CursorWrapper, batch: str, actor: str, source_id: int | None = None) -> None:
    """Write message, history, attempt 0, hops and counters of the batch's dead letters; count them into their groups.

    `source_id`: the broker source that they are from, whose moves are hops of theirs.
    """
    values = {"batch": batch, "actor": actor}
    cursor.execute(_SEEN, values)
    groups.ensure(cursor, (groups.Seen(*row) for row in cursor.fetchall()))
    cursor.execute(_IMPORT, values)
    if source_id is not None:
        cursor.execute(_MOVED, values)
        append_hops(cursor, [(staged_id, staged_id, True) for (staged_id,) in cursor.fetchall()], source_id)
