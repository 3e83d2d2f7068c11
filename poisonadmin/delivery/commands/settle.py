"""Settles messages in DLNG by the attempts that their nodes wrote.

A message in DLNG with attempt number N is answered when the row (message, N) is in `attempt`. Whatever writes such rows
leaves an outcome batch, which names their messages: only these are looked at, once, and only one session settles a
claim at a time. What a node that has ended left unanswered goes back, once. Settling again finds nothing to do.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands.locks import hold, try_lock
from poisonadmin.core.domain.locks import Lock, lock_key
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.core.queries.sql import named_sql, raw
from poisonadmin.delivery.commands import breakers, ordered_conversations
from poisonadmin.delivery.commands.settle_failures import settle_failures
from poisonadmin.messages.commands.admission import refuse_inadmissible
from poisonadmin.messages.commands.confirmations import AWAITED
from poisonadmin.messages.commands.schedule import schedule
from poisonadmin.messages.commands.transitions import ChosenRows, StatementParts, move
from poisonadmin.messages.domain.states import Event, State


@dataclass(frozen=True)
class Settled:
    """Counts of the messages that left DLNG."""

    delivered: int = 0
    failed: int = 0
    returned: int = 0

    def __add__(self, other: "Settled") -> "Settled":
        return Settled(self.delivered + other.delivered, self.failed + other.failed, self.returned + other.returned)


MESSAGES_A_TRANSACTION = 5_000

# Taken oldest first, so that counts which go over several messages are counted in the order of their attempts.
_TAKE_BATCHES = """
SELECT coalesce(array_agg(id), '{}'), coalesce(sum(size), 0)::int FROM (
    SELECT id, cardinality(message_ids) AS size, sum(cardinality(message_ids)) OVER (ORDER BY id) AS total
    FROM outcome_batch WHERE claim_id = %(claim)s
) AS batch WHERE total - size < %(messages)s
"""
_HAS_BATCHES = "SELECT EXISTS (SELECT FROM outcome_batch WHERE claim_id = %(claim)s)"
_DELETE_BATCHES = "DELETE FROM outcome_batch WHERE id = ANY(%(batches)s)"

# Messages of the batches that were delivered, and by which attempt.
_DELIVERED_BY = """
SELECT * FROM (SELECT unnest(message_ids) AS id, unnest(delivered) AS attempt_number
               FROM outcome_batch WHERE id = ANY(%(batches)s)) AS answered WHERE attempt_number IS NOT NULL
"""

# A node that is lost waits until its journals are read: what it had begun was found there (R2, R18).
_HAS_ENDED = raw("""
node.ended_at IS NOT NULL AND node.settled_at IS NULL AND (node."end" <> 'lost' OR node.journals IS NULL)
""")

# It still delivers, and will not begin these.
_RELEASES = raw("node.released IS NOT NULL AND node.ended_at IS NULL")

_UNSETTLED = named_sql(
    """
SELECT claim_id FROM outcome_batch UNION SELECT claim_id FROM node WHERE {has_ended}
UNION SELECT claim_id FROM node WHERE {releases} ORDER BY 1
""",
    has_ended=_HAS_ENDED,
    releases=_RELEASES,
)

_DELIVERED = move(
    State.DLNG,
    Event.DELIVERED,
    State.DLVD,
    chosen=ChosenRows(
        _DELIVERED_BY,
        asks="""message.claim_id = %(claim)s
            AND (message.id, message.attempt_number) IN (SELECT id, attempt_number FROM chosen)""",
    ),
    sets={"failure_count": "0", "crash_count": "0", "candidate": "FALSE", "expires_at": "NULL"},
    parts=StatementParts(
        beside=AWAITED,
        then="SELECT count(*), array_agg(id) FILTER (WHERE address_id = ANY(%(watched)s::bigint[])) FROM changed",
    ),
)

# A node that ended has written all it ever will: what it leaves without an answer goes back, accused of nothing. The
# outcome of what it had begun is lost; what it had not begun was never an attempt.
_RETURNED = move(
    State.DLNG,
    "chosen.event",
    State.TBDL,
    chosen=ChosenRows(
        """
    SELECT message.* FROM leaving CROSS JOIN LATERAL unnest(leaving.message_ids) AS taken (message_id)
         CROSS JOIN LATERAL (
        SELECT id, address_id, lane_id, state, reason, group_id,
               CASE WHEN id = ANY(leaving.unanswered) THEN 'outcome_lost' ELSE 'released' END AS event
        FROM message
        WHERE id = taken.message_id AND claim_id = leaving.claim_id AND state = 'DLNG'
          AND NOT EXISTS (SELECT FROM attempt WHERE attempt.message_id = message.id
                                                AND attempt.attempt_number = message.attempt_number)
        FOR UPDATE
    ) AS message
""",
        before="""leaving AS (
    SELECT node.*, CASE WHEN node.id = ANY(%(ended)s) THEN claim_shard.message_ids ELSE node.released END AS message_ids
    FROM node JOIN claim_shard USING (claim_id, shard) WHERE node.id = ANY(%(nodes)s)
)""",
    ),
    sets={"due_at": "now()"},
    parts=StatementParts(
        shows=("message.lane_id", "message.due_at"),
        then="SELECT lane_id, min(due_at), array_agg(id) FROM changed GROUP BY lane_id",
    ),
)

_OF_CLAIM = partial(named_sql, "SELECT node.id FROM node WHERE node.claim_id = %(claim)s AND {which}")
_ENDED = str(_OF_CLAIM(which=_HAS_ENDED))
# Locked: it must not end meanwhile and be taken for one that has given everything back.
_RELEASING = str(_OF_CLAIM(which=_RELEASES + raw("FOR NO KEY UPDATE")))
_RELEASED = "UPDATE node SET released = NULL WHERE id = ANY(%(nodes)s)"
_IS_ANSWERED = "SELECT settled >= size FROM claim WHERE id = %(claim)s"
_NODES_SETTLED = "UPDATE node SET settled_at = now() WHERE id = ANY(%(nodes)s)"
_COUNT = "UPDATE claim SET settled = settled + %(settled)s WHERE id = %(claim)s"
_CLOSE = """
UPDATE claim SET is_open = FALSE
WHERE id = %(claim)s AND is_open AND NOT EXISTS (SELECT FROM outcome_batch WHERE claim_id = %(claim)s)
  AND NOT EXISTS (
      SELECT FROM claim_shard LEFT JOIN node USING (claim_id, shard)
      WHERE claim_id = %(claim)s AND node.settled_at IS NULL)
"""


def settle(claim_id: int | None = None) -> Settled:
    """Move what was answered, and what ended nodes left unanswered, out of DLNG; of all claims, or of one.

    A claim that another session is settling is left to it, the one that is asked for is waited for.
    """
    settled = Settled()
    for claim in fetch_values(_UNSETTLED) if claim_id is None else [claim_id]:
        is_more = True
        while is_more:
            some, is_more = _settle_some(claim, waits=claim_id is not None)
            settled += some
    if settled != Settled():
        with transaction.atomic(), connection.cursor() as cursor:
            ordered_conversations.refresh_head(cursor)
    return settled


def _settle_some(claim_id: int, *, waits: bool) -> tuple[Settled, bool]:
    """Settle the claim's oldest batches, and with the last of them its end; return whether there may be more."""
    with transaction.atomic(), connection.cursor() as cursor:
        if waits:
            hold(cursor, Lock.SETTLE, lock_key(claim_id))
        elif not try_lock(cursor, Lock.SETTLE, lock_key(claim_id)):
            return Settled(), False
        cursor.execute(_TAKE_BATCHES, {"claim": claim_id, "messages": MESSAGES_A_TRANSACTION})
        batches, size = cursor.fetchone()
        settled = _settle_batches(cursor, claim_id, batches, size) if batches else Settled()
        if batches and _has_batches(cursor, claim_id):
            return settled, True
        settled += Settled(returned=_return_unanswered(cursor, claim_id))
        cursor.execute(_CLOSE, {"claim": claim_id})
    return settled, False


def _has_batches(cursor: CursorWrapper, claim_id: int) -> bool:
    """Return whether the claim has batches: more than were taken, or some that were written meanwhile."""
    cursor.execute(_HAS_BATCHES, {"claim": claim_id})
    return bool(cursor.fetchone()[0])


def _settle_batches(cursor: CursorWrapper, claim_id: int, batches: list[int], size: int) -> Settled:
    delivered = _settle_delivered(cursor, claim_id, batches)
    failed = settle_failures(cursor, claim_id, batches) if delivered < size else 0
    cursor.execute(_DELETE_BATCHES, {"batches": batches})
    cursor.execute(_COUNT, {"claim": claim_id, "settled": delivered + failed})
    return Settled(delivered, failed)


def _settle_delivered(cursor: CursorWrapper, claim_id: int, batches: list[int]) -> int:
    cursor.execute(_DELIVERED, _values(claim_id) | {"batches": batches, "watched": breakers.watched(cursor)})
    count, watched = cursor.fetchone()
    breakers.end_with_delivery(cursor, watched or ())
    return int(count)


def _return_unanswered(cursor: CursorWrapper, claim_id: int) -> int:
    ended, releasing = (_ids(cursor, which, claim_id) for which in (_ENDED, _RELEASING))
    if not ended and not releasing:
        return 0
    cursor.execute(_IS_ANSWERED, {"claim": claim_id})
    (is_answered,) = cursor.fetchone()
    returned = 0 if is_answered else _return(cursor, claim_id, ended, releasing)
    cursor.execute(_NODES_SETTLED, {"nodes": ended})
    cursor.execute(_RELEASED, {"nodes": releasing})
    return returned


def _ids(cursor: CursorWrapper, which: str, claim_id: int) -> list[int]:
    cursor.execute(which, {"claim": claim_id})
    return [row[0] for row in cursor.fetchall()]


def _return(cursor: CursorWrapper, claim_id: int, ended: list[int], releasing: list[int]) -> int:
    cursor.execute(_RETURNED, _values(claim_id) | {"nodes": ended + releasing, "ended": ended})
    rows = cursor.fetchall()
    returned = [message_id for _, _, ids in rows for message_id in ids]
    refuse_inadmissible(cursor, returned)
    schedule(cursor, [(lane_id, due_at) for lane_id, due_at, _ in rows])
    return len(returned)


def _values(claim_id: int) -> dict[str, Any]:
    return {"claim": claim_id, "actor": "system", "note": None}
