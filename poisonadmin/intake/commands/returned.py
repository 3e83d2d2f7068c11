"""Dead letters that we had delivered ourselves, by the id that every delivery carries.

A consumer failed on what an administrator had approved, or it was never taken: the broker gives it back, and the
message it belongs to is opened again. The header can be copied or forged, so only the same payload is the same message.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db.backends.utils import CursorWrapper

from poisonadmin.core.queries.sql import named_sql, raw
from poisonadmin.groups.commands import failure_groups
from poisonadmin.intake.commands.staged import drop_rows
from poisonadmin.intake.domain.draining import later_batch
from poisonadmin.messages.commands.transitions import ChosenRows, StatementParts, move
from poisonadmin.messages.domain.states import Event, Reason, State


@dataclass(frozen=True)
class Returned:
    """The numbers of a batch's rows that came back: opened again, put off until their delivery is settled, or known
    before.
    """

    opened: int = 0
    put_off: int = 0
    known: int = 0

    def __add__(self, other: "Returned") -> "Returned":
        return Returned(self.opened + other.opened, self.put_off + other.put_off, self.known + other.known)


class _Back(NamedTuple):
    staged_id: int
    message_id: int
    address_id: int
    attempt_number: int
    state: str
    current_attempt: int
    fingerprint: str
    title: str
    error_class: str
    failed_at: datetime

    def is_of(self, state: State) -> bool:
        """Return whether it belongs to the message's last attempt, and the message is in this state."""
        return self.state == state and self.attempt_number == self.current_attempt


# Two statements, as for decisions: what the lock waited for may have changed the row that a join has read.
_LOCK = """
SELECT FROM message WHERE id = ANY(
    SELECT (came_back ->> 'message_id')::bigint
    FROM staged_message CROSS JOIN LATERAL (
        SELECT convert_from(dead_letter, 'UTF8')::jsonb -> 'came_back' AS came_back) AS told
    WHERE batch = %(batch)s AND position('"came_back":'::bytea IN dead_letter) > 0 AND came_back IS NOT NULL)
ORDER BY id FOR UPDATE
"""
_READ = """
SELECT staged.id, message.id, message.address_id, back.attempt_number, message.state, message.attempt_number,
       told.fingerprint, told.title, told.error_class,
       LEAST(coalesce((told.told ->> 'failed_at')::timestamptz, now()), now())
FROM staged_message AS staged
     CROSS JOIN LATERAL jsonb_to_record(convert_from(staged.dead_letter, 'UTF8')::jsonb)
         AS told (told jsonb, came_back jsonb, fingerprint text, title text, error_class text)
     CROSS JOIN LATERAL jsonb_to_record(told.came_back) AS back (message_id bigint, attempt_number int)
     JOIN message ON message.id = back.message_id
     JOIN body AS sent ON sent.id = message.id
     JOIN body AS came ON came.id = staged.id AND (came.payload = sent.payload OR EXISTS (
         SELECT FROM payload_version AS former
         WHERE former.message_id = message.id AND former.payload = came.payload))
WHERE staged.batch = %(batch)s AND position('"came_back":'::bytea IN staged.dead_letter) > 0
ORDER BY staged.id
"""

_KNOWN = raw("""
staged_message AS staged JOIN address ON address.name = staged.address
     JOIN envelope AS first ON first.intake_address_id = address.id AND first.message_id = staged.message_id
     JOIN message ON message.id = first.id AND message.state = 'DLVD'
WHERE staged.batch = %(batch)s AND first.id <> staged.id AND position('"moves":'::bytea IN staged.dead_letter) > 0
""")
_LOCK_KNOWN = str(
    named_sql("SELECT FROM message WHERE id = ANY(SELECT first.id FROM {known}) ORDER BY id FOR UPDATE", known=_KNOWN)
)
_READ_KNOWN = str(
    named_sql(
        """
SELECT staged_id, id, address_id, attempt_number, state, attempt_number, fingerprint, title, error_class,
       LEAST(coalesce((told ->> 'failed_at')::timestamptz, now()), now())
FROM (SELECT staged.id AS staged_id, message.id, message.address_id, message.attempt_number, message.state,
             convert_from(staged.dead_letter, 'UTF8')::jsonb AS letter FROM {known}) AS known
     CROSS JOIN LATERAL jsonb_to_record(letter) AS one (told jsonb, fingerprint text, title text, error_class text)
WHERE EXISTS (
    SELECT FROM body AS came
    WHERE came.id = staged_id AND came.payload IN (
        SELECT payload FROM body WHERE body.id = known.id
        UNION ALL SELECT payload FROM payload_version WHERE message_id = known.id))
  AND EXISTS (
    SELECT FROM jsonb_to_recordset(letter -> 'moves') AS move (queue text, reason text, at timestamptz, count int)
    WHERE move.at IS NOT NULL AND NOT EXISTS (
        SELECT FROM hop WHERE hop.message_id = known.id AND hop.from_address = move.queue AND hop.at = move.at
                          AND hop.reason = move.reason AND hop.times = move.count))
ORDER BY staged_id
""",
        known=_KNOWN,
    )
)

_OPEN = move(
    State.DLVD,
    Event.RETURNED,
    State.NDLV,
    reason=Reason.RETURNED,
    chosen=ChosenRows(
        """
    SELECT message.id, message.address_id, message.state, message.reason, message.group_id, back.times, back.note,
           back.failed_at AS died_at, back.group_id AS died_in
    FROM message JOIN back USING (id) WHERE message.state = 'DLVD'
""",
        before="""back AS (
    SELECT pair.message_id AS id, pair.failed_at, pair.group_id, one.told ->> 'reason' AS note,
           coalesce(NULLIF((one.told ->> 'delivery_count')::int, 0), 1) AS times, one.*
    FROM unnest(%(staged)s::bigint[], %(messages)s::bigint[], %(ats)s::timestamptz[], %(groups)s::bigint[])
         AS pair (staged_id, message_id, failed_at, group_id)
         JOIN staged_message AS staged ON staged.id = pair.staged_id
         CROSS JOIN LATERAL jsonb_to_record(convert_from(staged.dead_letter, 'UTF8')::jsonb)
             AS one (told jsonb, error_class text, cause_class text, error_message text, stack text, fingerprint text,
                     title text)
)""",
    ),
    sets={
        "failure_count": "LEAST(failure_count::bigint + times, 2147483647)",
        "failed_at": "died_at",
        "group_id": "died_in",
    },
    parts=StatementParts(
        shows=("chosen.note",),
        beside="""came_to AS (
    UPDATE attempt SET outcome = 'returned', finished_at = GREATEST(attempt.finished_at, back.failed_at),
        error_class = back.error_class, cause_class = back.cause_class, error_message = back.error_message,
        stack = back.stack, fingerprint = back.fingerprint, title = back.title
    FROM changed JOIN back ON back.id = changed.id
    WHERE attempt.message_id = changed.id AND attempt.attempt_number = changed.attempt_number
), not_awaited AS (
    DELETE FROM confirmation USING changed WHERE confirmation.message_id = changed.id
)""",
        note="note",
    ),
)

_PUT_OFF = "UPDATE staged_message SET batch = %s WHERE id = ANY(%s)"


def open_returned(cursor: CursorWrapper, batch: str, actor: str, source_id: int) -> Returned:
    """Open the messages again whose deliveries a batch brings back: DLVD -> NDLV `returned`, with what it tells of why.

    Afterwards the batch holds none of them. One whose delivery is not settled yet waits in a batch for later. What
    belongs to an earlier attempt, or to a message that is not DLVD, tells nothing new but its moves.
    """
    cursor.execute(_LOCK, {"batch": batch})
    if not cursor.rowcount:
        return Returned()
    cursor.execute(_READ, {"batch": batch})
    came = [_Back(*row) for row in cursor.fetchall()]
    later = [one.staged_id for one in came if one.is_of(State.DLNG)]
    if later:
        cursor.execute(_PUT_OFF, [later_batch(source_id), later])
    return _done_with(cursor, [one for one in came if not one.is_of(State.DLNG)], actor, source_id) + Returned(
        put_off=len(later)
    )


def open_died_again(cursor: CursorWrapper, batch: str, actor: str, source_id: int) -> Returned:
    """Open delivered messages again of which a batch tells a new death, though they do not carry our id any more.

    They are known by address and message id, which their rows did not get; afterwards the batch holds none of them. A
    death is new when the broker tells of a move, with its time, that is not among the message's hops.
    """
    cursor.execute(_LOCK_KNOWN, {"batch": batch})
    if not cursor.rowcount:
        return Returned()
    cursor.execute(_READ_KNOWN, {"batch": batch})
    return _done_with(cursor, [_Back(*row) for row in cursor.fetchall()], actor, source_id)


def _done_with(cursor: CursorWrapper, came: list[_Back], actor: str, source_id: int) -> Returned:
    """Open what was delivered, once each; append the moves of all, and drop their rows."""
    first: dict[int, _Back] = {}
    for one in came:
        if one.is_of(State.DLVD):
            first.setdefault(one.message_id, one)
    opened = {one.staged_id for one in first.values()}
    _append_hops(cursor, [(one.staged_id, one.message_id, one.staged_id in opened) for one in came], source_id)
    _open(cursor, list(first.values()), actor)
    drop_rows(cursor, [one.staged_id for one in came])
    return Returned(opened=len(opened), known=len(came) - len(opened))


def _open(cursor: CursorWrapper, back: list[_Back], actor: str) -> None:
    if not back:
        return
    seen = [
        failure_groups.Seen(
            one.fingerprint,
            one.title,
            one.error_class,
            one.message_id,
            one.address_id,
            one.failed_at,
            one.failed_at,
        )
        for one in back
    ]
    found = failure_groups.ensure(cursor, seen)
    values: dict[str, Any] = {
        "staged": [one.staged_id for one in back],
        "messages": [one.message_id for one in back],
        "ats": [one.failed_at for one in back],
        "groups": [found[one.fingerprint] for one in back],
        "actor": actor,
    }
    cursor.execute(_OPEN, values)


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


def _append_hops(cursor: CursorWrapper, pairs: Sequence[tuple[int, int, bool]], source_id: int) -> None:
    """Append the moves of staged dead letters to messages that are there: (staged id, message id, died anew).

    A message may be there more than once; what died anew is told first.
    """
    for is_new in (True, False):
        if some := [pair for pair in pairs if pair[2] is is_new]:
            staged, messages, new = (list(column) for column in zip(*some, strict=True))
            cursor.execute(_APPEND, {"staged": staged, "messages": messages, "new": new, "source": source_id})
