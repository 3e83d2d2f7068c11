"""Staged dead letters become NDLV messages with the failure that they had before import."""

from django.db.backends.utils import CursorWrapper

from poisonadmin.groups.commands import failure_groups
from poisonadmin.messages.commands.transitions import ChosenRows, StatementParts, enter
from poisonadmin.messages.domain.states import Event, Reason, State

# A report a row, parsed once: of the messages in `ids`, which died of the same at the same time. `told` is what was
# handed in, the rest is attempt 0 (domain/staged_rows.py).
_REPORTS = """
report AS MATERIALIZED (
    SELECT same.ids, same.address, one.*, one.told ->> 'reason' AS note,
           (one.told ->> 'delivery_count')::int AS delivery_count,
           one.told ->> 'original_address' AS original_address,
           LEAST((one.told ->> 'failed_at')::timestamptz, now()) AS failed_at
    FROM (
        SELECT address, dead_letter, array_agg(id ORDER BY id) AS ids
        FROM staged_message WHERE batch = %(batch)s AND dead_letter IS NOT NULL GROUP BY address, dead_letter
    ) AS same CROSS JOIN LATERAL jsonb_to_record(convert_from(same.dead_letter, 'UTF8')::jsonb)
         AS one(told jsonb, error_class text, cause_class text, error_message text, stack text, fingerprint text,
                title text, moves jsonb)
)"""

_TOLD = "told AS MATERIALIZED (SELECT id, note FROM report CROSS JOIN LATERAL unnest(ids) AS id ORDER BY id)"

# A group, address and hour a row: thousands of dead letters died of a handful of failures.
_SEEN = f"""
WITH {_REPORTS}
SELECT fingerprint, min(title), min(error_class), min(ids[1]), address.id, min(failed_at), max(failed_at),
       sum(cardinality(ids))
FROM report JOIN address ON address.name = report.address
GROUP BY fingerprint, address.id, date_trunc('hour', failed_at)
"""  # noqa: S608

# Each history row has a note of its own. Joining it to what was inserted, which the planner takes for a row or two,
# made 20,000 dead letters take 14 s.
_IMPORT = enter(
    Event.IMPORTED,
    State.NDLV,
    reason=Reason.IMPORTED,
    columns={
        "id": "died.id",
        "address_id": "here.id",
        "lane_id": "lane.id",
        "failure_count": "coalesce(report.delivery_count, 0)",
        "failed_at": "report.failed_at",
        "group_id": "failure_group.id",
        "original_address_id": "original.id",
    },
    chosen=ChosenRows(
        """report JOIN address AS here ON here.name = report.address
         JOIN lane ON lane.address_id = here.id AND lane.is_plain
         LEFT JOIN address AS original ON original.name = report.original_address
         LEFT JOIN failure_group ON failure_group.fingerprint = report.fingerprint
         CROSS JOIN LATERAL unnest(report.ids) AS died (id)""",
        before=f"{_REPORTS}, {_TOLD}",
    ),
    noted="told",
    parts=StatementParts(
        beside="""first_attempt AS (
    INSERT INTO attempt (message_id, attempt_number, finished_at, outcome, error_class, cause_class, error_message,
                         stack, fingerprint, title)
    SELECT id, 0, failed_at, 'imported', error_class, cause_class, error_message, stack, fingerprint, title
    FROM report CROSS JOIN LATERAL unnest(ids) AS id
), first_hop AS (
    INSERT INTO hop (message_id, from_address, to_address, reason, by, at)
    SELECT id, original_address, address, coalesce(note, 'imported'), %(actor)s, failed_at
    FROM report CROSS JOIN LATERAL unnest(ids) AS id WHERE original_address <> address
), hops_before AS (
    INSERT INTO hop (message_id, from_address, to_address, reason, by, times, at)
    SELECT id, move.queue, move."to", move.reason, (SELECT coalesce(
               (SELECT kind FROM source WHERE source.id = %(source)s), 'broker')), move.count, move.at
    FROM report CROSS JOIN LATERAL (
        SELECT move.queue, coalesce(move."to", lead(move.queue) OVER (ORDER BY place), report.address) AS "to",
               move.reason, move.count, coalesce(move.at, now()) AS at, place
        FROM ROWS FROM (
             jsonb_to_recordset(report.moves) AS (queue text, reason text, at timestamptz, count int, "to" text)
        ) WITH ORDINALITY AS move (queue, reason, at, count, "to", place)
    ) AS move CROSS JOIN LATERAL unnest(ids) AS id
    WHERE report.moves IS NOT NULL ORDER BY id, place
)""",
    ),
)


def import_dead_letters(cursor: CursorWrapper, batch: str, actor: str, source_id: int | None = None) -> None:
    """Write message, history, attempt 0, hops and counters of the batch's dead letters; count them into their groups.

    `source_id`: the broker source that they are from, whose moves are hops of theirs.
    """
    values = {"batch": batch, "actor": actor, "source": source_id}
    cursor.execute(_SEEN, values)
    failure_groups.ensure(cursor, [failure_groups.Seen(*row) for row in cursor.fetchall()])
    cursor.execute(_IMPORT, values)
