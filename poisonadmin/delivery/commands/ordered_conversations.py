"""Ordered addresses: a conversation's messages are delivered one after the other (SAP-14).

A message enters its address's plain lane like any other, or the lane of its operation. When the claim reads an ordered
address, it puts what is due there onto the lane of its conversation, or of its conversation in that operation, and
claims from that lane a *run*: the messages that may follow one another without a pause. The head is the conversation's
first undelivered message, on whichever of its lanes; while that one waits, is under way, or waits for a decision, the
others are held.

It is looked for from `delivered_below` on, so that it takes no longer in a conversation of a million messages than in
one of ten. A smaller id comes back in two ways: with a message that arrives, or with one that is to be delivered again
or was moved, whose statement leaves a row in `stale_heads` (messages/commands/transitions.py).
"""

from collections.abc import Mapping
from functools import partial
from itertools import takewhile
from typing import Any

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands import locks
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.sql import name, named_sql, raw
from poisonadmin.messages.commands.admission import refuse_excluded
from poisonadmin.messages.commands.schedule import IS_HELD

MESSAGES_A_CHECK = 1_000
LANES_A_TRANSACTION = 1_000
RUN = 50


_IS_USED = "SELECT EXISTS (SELECT FROM address WHERE is_ordered) OR EXISTS (SELECT FROM lane WHERE head_id IS NOT NULL)"

# What is due on the lanes of ordered addresses, with the conversation that it belongs to: an even share of each, so few
# in all that a claim is not kept from its slots.
_ARRIVED = """
WITH due AS MATERIALIZED (
    SELECT lane.* FROM lane JOIN address ON address.id = lane.address_id AND address.is_ordered
    WHERE lane.conversation_id IS NULL AND NOT lane.is_isolation AND lane.is_open AND lane.next_due <= now()
)
SELECT waiting.id, due.address_id, envelope.conversation_id, due.operation_id
FROM due CROSS JOIN LATERAL (
         SELECT id FROM message
         WHERE lane_id = due.id AND state = 'TBDL' AND due_at <= now() AND due_at >= due.next_due
         ORDER BY due_at LIMIT (SELECT GREATEST(%(limit)s / count(*), 1) FROM due) OFFSET 0
     ) AS waiting
     JOIN envelope ON envelope.id = waiting.id AND envelope.conversation_id IS NOT NULL
"""

_MAKE_LANES = """
INSERT INTO lane (address_id, conversation_id, operation_id, is_open)
SELECT arrived.*, plain.is_open
FROM (SELECT DISTINCT *
      FROM unnest(%(addresses)s::bigint[], %(conversations)s::text[], %(operations)s::bigint[])
          AS a (address_id, conversation_id, operation_id)) AS arrived
     JOIN lane AS plain ON plain.address_id = arrived.address_id AND plain.is_plain
ON CONFLICT (address_id, conversation_id, is_isolation, operation_id) DO NOTHING
"""

_PUT_ON_LANES = """
WITH put AS (
    UPDATE message SET lane_id = lane.id
    FROM unnest(%(ids)s::bigint[], %(addresses)s::bigint[], %(conversations)s::text[], %(operations)s::bigint[])
             AS arrived (id, address_id, conversation_id, operation_id)
         JOIN lane ON lane.address_id = arrived.address_id AND lane.conversation_id = arrived.conversation_id
                      AND lane.operation_id IS NOT DISTINCT FROM arrived.operation_id
    WHERE message.id = arrived.id AND message.state = 'TBDL'
    RETURNING message.id, arrived.address_id, arrived.conversation_id
)
SELECT lane.id, first
FROM (SELECT address_id, conversation_id, min(id) AS first FROM put GROUP BY 1, 2) AS of_conversation
     JOIN lane USING (address_id, conversation_id)
"""

_TAKE_STALE = """
WITH stale AS (DELETE FROM stale_heads RETURNING address_id)
SELECT id, 0 FROM lane WHERE conversation_id IS NOT NULL AND address_id IN (SELECT address_id FROM stale)
"""

_LOCK_LANES = "SELECT id FROM lane WHERE id = ANY(%(lanes)s) ORDER BY id FOR NO KEY UPDATE"

# The messages of a conversation, from `first` on and in their order: whoever asks for the first ones reads no others.
# OFFSET 0: else the planner, whose statistics may be old, walks all messages, or hashes them.
_SAME_CONVERSATION = partial(
    named_sql,
    """(SELECT id FROM envelope WHERE conversation_id = lane.conversation_id AND id >= coalesce({first}, 0)
              ORDER BY id OFFSET 0) AS same
             CROSS JOIN LATERAL (SELECT * FROM message WHERE id = same.id OFFSET 0) AS message""",
)

# `firsts`: the smallest ids that have come back. On an address that is ordered no longer a conversation's lane is one
# like any other, until it is empty. The head is looked for among all messages of the conversation on this address,
# wherever they wait: a predecessor that was approved, or is tried alone as a candidate, holds the others too.
_READ_HEADS = named_sql(
    """
WITH looked_at AS (
    SELECT lane.id, CASE WHEN address.is_ordered THEN head.id END AS head_id,
           CASE WHEN address.is_ordered THEN coalesce(head.id, (
                    SELECT max(id) + 1 FROM envelope WHERE conversation_id = lane.conversation_id))
                END AS delivered_below,
           CASE WHEN NOT address.is_ordered THEN (
                    SELECT min(due_at) FROM message WHERE lane_id = lane.id AND state = 'TBDL')
                WHEN head.may_begin AND head.lane_id = lane.id THEN head.due_at END AS next_due
    FROM unnest(%(lanes)s::bigint[], %(firsts)s::bigint[]) AS read (id, first) JOIN lane USING (id)
         JOIN address ON address.id = lane.address_id LEFT JOIN LATERAL (
        SELECT message.id, message.due_at, message.lane_id, message.state = 'TBDL' AND NOT {is_held} AS may_begin
        FROM {same}
        WHERE message.address_id = lane.address_id AND message.state IN ('TBDL', 'DLNG', 'NDLV')
        ORDER BY same.id LIMIT 1
    ) AS head ON TRUE
)
UPDATE lane SET head_id = looked_at.head_id, next_due = looked_at.next_due, delivered_below = looked_at.delivered_below
FROM looked_at WHERE lane.id = looked_at.id AND (lane.head_id, lane.next_due, lane.delivered_below)
                     IS DISTINCT FROM (looked_at.head_id, looked_at.next_due, looked_at.delivered_below)
""",
    is_held=IS_HELD,
    same=_SAME_CONVERSATION(first=raw("CASE WHEN first < delivered_below THEN first ELSE delivered_below END")),
)

# Lanes whose head is no longer what it was when it was looked at.
_MOVED_ON = named_sql(
    """
SELECT lane.id
FROM lane JOIN address ON address.id = lane.address_id LEFT JOIN message ON message.id = lane.head_id
WHERE lane.conversation_id IS NOT NULL AND (lane.head_id IS NOT NULL OR lane.next_due IS NOT NULL)
  AND (message.id IS NULL OR NOT address.is_ordered OR message.address_id <> lane.address_id
       OR message.state IN ('DLVD', 'FAIL')
       OR (CASE WHEN message.state = 'TBDL' AND message.lane_id = lane.id AND NOT {is_held} THEN message.due_at END)
          IS DISTINCT FROM lane.next_due)
""",
    is_held=IS_HELD,
)

_OF_ENDED = """
SELECT message.id
FROM lane JOIN conversation USING (address_id, conversation_id) JOIN message ON message.lane_id = lane.id
WHERE lane.id = ANY(%(lanes)s) AND ended_at IS NOT NULL AND message.due_at IS NOT NULL AND message.state = 'TBDL'
"""

_RUNS = named_sql(
    """
SELECT lane.id, run.ids
FROM unnest(%(lanes)s::bigint[], %(lengths)s::int[]) AS read (id, length) JOIN lane USING (id) CROSS JOIN LATERAL (
    SELECT array_agg(id ORDER BY id) AS ids FROM (
        SELECT id, bool_and(may_follow) OVER (ORDER BY id) AS may_follow FROM (
            SELECT message.id, message.state = 'TBDL' AND message.due_at <= now() AND message.lane_id = lane.id
                       AND (message.expires_at IS NULL OR message.expires_at > now()) AND NOT {is_held} AS may_follow
            FROM {same}
            WHERE message.address_id = lane.address_id AND message.state IN ('TBDL', 'DLNG', 'NDLV')
            ORDER BY same.id LIMIT read.length
        ) AS undelivered
    ) AS followed WHERE may_follow
) AS run
WHERE lane.conversation_id IS NOT NULL AND run.ids IS NOT NULL
""",
    is_held=IS_HELD,
    same=_SAME_CONVERSATION(first=name("lane.delivered_below")),
)

_LOCK = """
SELECT id FROM message WHERE id = ANY(%(ids)s) AND state = 'TBDL' ORDER BY id FOR UPDATE SKIP LOCKED
"""

# Messages without a conversation have no order, but share the plain lane with those that have one.
_LOOSE = """
SELECT lane.id, array_agg(waiting.id ORDER BY waiting.due_at)
FROM lane JOIN address ON address.id = lane.address_id AND address.is_ordered
     CROSS JOIN LATERAL (
         SELECT id, due_at FROM message
         WHERE lane_id = lane.id AND state = 'TBDL' AND due_at <= now() AND due_at >= lane.next_due
         ORDER BY due_at LIMIT %(limit)s OFFSET 0
     ) AS waiting
     JOIN envelope ON envelope.id = waiting.id AND envelope.conversation_id IS NULL
WHERE lane.id = ANY(%(lanes)s) AND lane.conversation_id IS NULL GROUP BY lane.id
"""

# What waits or is under way on a lane has a due time, and an index finds it by that; what an administrator decides on
# leaves the lane. OFFSET 0 keeps the planner from joining all messages.
_CLEAR = """
DELETE FROM lane USING (
    SELECT id FROM lane
    WHERE conversation_id IS NOT NULL AND head_id IS NULL AND next_due IS NULL AND NOT EXISTS (
        SELECT FROM message
        WHERE message.lane_id = lane.id AND due_at IS NOT NULL AND state IN ('TBDL', 'DLNG') OFFSET 0)
    ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
) AS empty
WHERE lane.id = empty.id
"""


def schedule_heads(cursor: CursorWrapper) -> None:
    """Put what is due on ordered addresses onto its conversations' lanes, and schedule behind heads that moved on.

    Call in the claim's transaction, which one claim has at a time.
    """
    cursor.execute(_IS_USED)
    if not cursor.fetchone()[0]:
        return
    cursor.execute(_ARRIVED, {"limit": MESSAGES_A_CHECK})
    arrived = cursor.fetchall()
    cursor.execute(_TAKE_STALE)
    firsts: dict[int, int | None] = dict(cursor.fetchall())
    if arrived:
        # A policy saved meanwhile would not open or close a lane that is not committed.
        locks.share(cursor, Lock.POLICIES)
        columns = (list(column) for column in zip(*arrived, strict=True))
        values: dict[str, Any] = dict(zip(("ids", "addresses", "conversations", "operations"), columns, strict=True))
        cursor.execute(_MAKE_LANES, values)
        cursor.execute(_PUT_ON_LANES, values)
        firsts = dict(cursor.fetchall()) | firsts
    cursor.execute(str(_MOVED_ON))
    refresh_heads(cursor, dict.fromkeys(row[0] for row in cursor.fetchall()) | firsts)


def refresh_head(cursor: CursorWrapper) -> None:
    """Schedule behind heads that have moved on: what was delivered, or given up, lets its successors go.

    Lanes that another transaction has locked are left to the next claim, which looks again.
    """
    cursor.execute(_IS_USED)
    if cursor.fetchone()[0]:
        cursor.execute(str(_MOVED_ON))
        refresh_heads(cursor, dict.fromkeys(row[0] for row in cursor.fetchall()), waits=False)


def refresh_heads(cursor: CursorWrapper, firsts: Mapping[int, int | None], *, waits: bool = True) -> None:
    """Find the head of each conversation's lane, and when it is due.

    `firsts`: lane id -> the smallest message id that may have come back to the conversation, None where none has.

    What came to the lane while its conversation ended is parked; held behind what was parked then, it would never be
    looked at. Heads are read after the lanes are locked: those that were read before could be written over newer ones.
    `waits`: for whoever has locked one of the lanes. Who has locked others before must not.
    """
    if firsts:
        cursor.execute(_OF_ENDED, {"lanes": sorted(firsts)})
        refuse_excluded(cursor, [row[0] for row in cursor.fetchall()])
        cursor.execute(_LOCK_LANES if waits else f"{_LOCK_LANES} SKIP LOCKED", {"lanes": sorted(firsts)})
        lanes = [row[0] for row in cursor.fetchall()]
        cursor.execute(str(_READ_HEADS), {"lanes": lanes, "firsts": [firsts[lane] for lane in lanes]})


def runs(cursor: CursorWrapper, lengths: Mapping[int, int]) -> dict[int, list[int]]:
    """Return what may be claimed of lanes of ordered addresses: lane id -> message ids, in their order.

    `lengths`: lane id -> how many at most, where it is a conversation's.
    """
    if not lengths:
        return {}
    cursor.execute(str(_RUNS), {"lanes": list(lengths), "lengths": list(lengths.values())})
    found: dict[int, list[int]] = dict(cursor.fetchall())
    # Locked here, so that none in the middle of a run can be somebody else's when it is taken.
    cursor.execute(_LOCK, {"ids": [message_id for ids in found.values() for message_id in ids]})
    locked = {row[0] for row in cursor.fetchall()}
    found = {lane_id: list(takewhile(locked.__contains__, ids)) for lane_id, ids in found.items()}
    cursor.execute(_LOOSE, {"lanes": list(lengths), "limit": MESSAGES_A_CHECK})
    return {lane_id: ids for lane_id, ids in (found | dict(cursor.fetchall())).items() if ids}


def clear_lanes(limit: int = LANES_A_TRANSACTION) -> int:
    """Remove the lanes of conversations of which nothing waits or is under way; return how many.

    Call outside a transaction: each `limit` of them are one of their own. No claim is made meanwhile: it may be putting
    a conversation's next message onto its lane.
    """
    total = 0
    while True:
        with transaction.atomic(), connection.cursor() as cursor:
            locks.hold(cursor, Lock.CLAIM)
            cursor.execute(_CLEAR, {"limit": limit})
            count = int(cursor.rowcount)
        total += count
        if count < limit:
            return total
