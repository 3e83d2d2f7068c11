"""The moves that a broker tells of, as hops of the message: appended, never overwritten, each once."""

from collections.abc import Sequence
from typing import Any

from django.db.backends.utils import CursorWrapper

# What died anew has new moves only: what a broker had put on it was left out when it was returned. Of anything else a
# move is told of again when it is the same at the same time, by a clock of seconds.
_APPEND = """
INSERT INTO hop (message_id, from_address, to_address, reason, by, times, at)
SELECT made.* FROM (
    SELECT pair.message_id, left(move.queue, 255) AS from_address,
           left(coalesce(move."to", lead(move.queue) OVER one_message, staged.address), 255) AS to_address,
           left(move.reason, 255) AS reason, coalesce((SELECT kind FROM source WHERE id = %(source)s), 'broker') AS by,
           move.count AS times, coalesce(move.at, now()) AS at, pair.is_new, move.at IS NULL AS has_no_time,
           place
    FROM unnest(%(staged)s::bigint[], %(messages)s::bigint[], %(new)s::bool[]) AS pair (staged_id, message_id, is_new)
         JOIN staged_message AS staged ON staged.id = pair.staged_id
         CROSS JOIN LATERAL ROWS FROM (
             jsonb_to_recordset(convert_from(staged.dead_letter, 'UTF8')::jsonb -> 'moves')
             AS (queue text, reason text, at timestamptz, count int, "to" text)
         ) WITH ORDINALITY AS move (queue, reason, at, count, "to", place)
    WINDOW one_message AS (PARTITION BY pair.staged_id ORDER BY place)
) AS told
CROSS JOIN LATERAL (SELECT message_id, from_address, to_address, reason, by, times, at) AS made
WHERE is_new OR NOT EXISTS (
    SELECT FROM hop WHERE hop.message_id = told.message_id AND hop.from_address = told.from_address
                      AND hop.to_address = told.to_address AND hop.reason = told.reason AND hop.times = told.times
                      AND (has_no_time OR hop.at = told.at))
GROUP BY made.message_id, made.from_address, made.to_address, made.reason, made.by, made.times, made.at,
         CASE WHEN is_new THEN place END
ORDER BY made.message_id, min(place)
"""


def append_hops(cursor: CursorWrapper, pairs: Sequence[tuple[int, int, bool]], source_id: int) -> None:
    """Append the moves of staged dead letters to messages that are there: (staged id, message id, died anew).

    A message may be there more than once; what died anew is told first.
    """
    for is_new in (True, False):
        if some := [pair for pair in pairs if pair[2] is is_new]:
            _append(cursor, some, source_id)


def _append(cursor: CursorWrapper, pairs: Sequence[tuple[int, int, bool]], source_id: int) -> None:
    values: dict[str, Any] = {
        "staged": [staged_id for staged_id, _, _ in pairs],
        "messages": [message_id for _, message_id, _ in pairs],
        "new": [is_new for _, _, is_new in pairs],
        "source": source_id,
    }
    cursor.execute(_APPEND, values)
