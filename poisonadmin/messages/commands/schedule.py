"""The claim's view of addresses: the earliest due time of each lane, and whether it is open.

A writer that leaves a message in TBDL calls `schedule` last in its transaction. Lanes are locked in the order of their
ids, and by no writer that then waits for a message, so that two writers never wait for each other.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands import locks
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.sql import named_sql, raw

_WAKE = """
WITH due AS (SELECT * FROM unnest(%(lanes)s::bigint[], %(dues)s::timestamptz[]) AS d(lane_id, due_at)),
     locked AS (SELECT id FROM lane WHERE id IN (SELECT lane_id FROM due) ORDER BY id FOR NO KEY UPDATE)
UPDATE lane SET next_due = LEAST(next_due, due.due_at)
FROM due JOIN locked ON locked.id = due.lane_id WHERE lane.id = due.lane_id
"""

_REOPEN = """
WITH locked AS (SELECT id FROM lane WHERE address_id = ANY(%(addresses)s) ORDER BY id FOR NO KEY UPDATE)
UPDATE lane SET is_open = address.status = 'ON' AND destination.is_enabled IS TRUE AND NOT lane.is_held
FROM locked, address LEFT JOIN destination ON destination.id = address.destination_id
WHERE lane.id = locked.id AND address.id = lane.address_id
"""


# The condition that the operation of a `message` lets nothing begin. It counts wherever the message waits: one that has
# no lanes of its own is paused by it alone.
_HELD = raw("SELECT id FROM operation WHERE ended_at IS NULL AND state <> 'running'")
IS_HELD = named_sql("(message.operation_id = ANY(ARRAY({held}))) IS TRUE", held=_HELD)

_MAKE = named_sql(
    """
WITH wanted AS (
    SELECT address.id, status = 'ON' AND destination.is_enabled IS TRUE AS is_open,
           (%(operation)s::bigint IN ({held})) IS TRUE AS is_held
    FROM address LEFT JOIN destination ON destination.id = address.destination_id
    WHERE address.id = ANY(%(addresses)s) ORDER BY address.id FOR SHARE OF address
)
INSERT INTO lane (address_id, is_open, is_held, is_isolation, operation_id)
SELECT id, is_open AND NOT is_held, is_held, %(isolation)s, %(operation)s FROM wanted
ON CONFLICT (address_id, conversation_id, is_isolation, operation_id) DO NOTHING
""",
    held=_HELD,
)
_FIND = """
SELECT address_id, id FROM lane
WHERE address_id = ANY(%(addresses)s) AND conversation_id IS NULL AND is_isolation = %(isolation)s
  AND operation_id IS NOT DISTINCT FROM %(operation)s
"""
# Where lanes are let go all those of their addresses are opened next: they are locked here, in the order of their ids.
_HOLD = """
WITH locked AS (
    SELECT id FROM lane
    WHERE operation_id = %(operation)s OR NOT %(held)s
          AND address_id IN (SELECT address_id FROM lane WHERE operation_id = %(operation)s)
    ORDER BY id FOR NO KEY UPDATE
)
UPDATE lane SET is_held = %(held)s, is_open = is_open AND NOT %(held)s
FROM locked WHERE lane.id = locked.id AND operation_id = %(operation)s RETURNING address_id
"""
# What waits of an operation without lanes of its own; and the first on each of its lanes.
_WAITING = """
SELECT lane_id, due_at
FROM operation JOIN selection_piece USING (selection_id) CROSS JOIN LATERAL unnest(message_ids) AS member (id)
     JOIN message ON message.id = member.id AND message.operation_id = operation.id AND message.state = 'TBDL'
WHERE operation.id = %(operation)s AND NOT has_lanes
UNION ALL
SELECT lane.id, first.due_at
FROM lane CROSS JOIN LATERAL (
    SELECT min(due_at) AS due_at FROM message WHERE lane_id = lane.id AND state = 'TBDL') AS first
WHERE lane.operation_id = %(operation)s AND lane.conversation_id IS NULL AND first.due_at IS NOT NULL
"""


def hold_lanes(cursor: CursorWrapper, operation_id: int, *, is_held: bool) -> None:
    """Let nothing be claimed from the lanes of an operation, or let it be again. Call in the transaction that changes
    the operation. No claim is made meanwhile: it may be making a lane for one of the operation's conversations."""
    locks.hold(cursor, Lock.CLAIM)
    cursor.execute(_HOLD, {"operation": operation_id, "held": is_held})
    addresses = [row[0] for row in cursor.fetchall()]
    if not is_held:
        reopen(cursor, addresses)
        cursor.execute(_WAITING, {"operation": operation_id})
        schedule(cursor, cursor.fetchall())


def ensure_lanes(
    cursor: CursorWrapper, address_ids: Iterable[int], *, operation_id: int | None, is_isolation: bool
) -> dict[int, int]:
    """Return the lane on each address of an operation, or of candidates, or of an operation's candidates, made where it
    was missing; address id -> lane id. Call in a transaction."""
    wanted: dict[str, Any] = {
        "addresses": sorted(set(address_ids)),
        "operation": operation_id,
        "isolation": is_isolation,
    }
    if not wanted["addresses"]:
        return {}
    cursor.execute(_FIND, wanted)
    found = dict(cursor.fetchall())
    if len(found) < len(wanted["addresses"]):
        # A policy saved meanwhile would not open or close a lane that is not committed.
        locks.share(cursor, Lock.POLICIES)
        cursor.execute(str(_MAKE), wanted)
        cursor.execute(_FIND, wanted)
        found = dict(cursor.fetchall())
    return found


def schedule(cursor: CursorWrapper, rows: Iterable[tuple[int, datetime]]) -> None:
    """Lower each lane's floor to the earliest due time that `rows` (lane id, due_at; repeats welcome) give it."""
    earliest: dict[int, datetime] = {}
    for lane_id, due_at in rows:
        if lane_id not in earliest or due_at < earliest[lane_id]:
            earliest[lane_id] = due_at
    schedule_earliest(cursor, earliest)


def schedule_earliest(cursor: CursorWrapper, earliest: Mapping[int, datetime]) -> None:
    """Lower each lane's floor to the given due time."""
    if earliest:
        cursor.execute(_WAKE, {"lanes": list(earliest), "dues": list(earliest.values())})


def reopen(cursor: CursorWrapper, address_ids: Sequence[int]) -> None:
    """Set `is_open` of the addresses' lanes from the addresses' status and destination, as they stand in this
    transaction."""
    if address_ids:
        cursor.execute(_REOPEN, {"addresses": list(address_ids)})
