"""The claim's view of addresses: the floor of each lane, and whether it is open.

Whoever leaves a message in TBDL calls `wake` last in its transaction. Lanes are locked in the order of their ids, and
by nobody who then waits for a message, so that two writers never wait for each other.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands import locks
from poisonadmin.core.domain.locks import Lock

_WAKE = """
WITH due AS (SELECT * FROM unnest(%(lanes)s::bigint[], %(dues)s::timestamptz[]) AS d(lane_id, due_at)),
     locked AS (SELECT id FROM lane WHERE id IN (SELECT lane_id FROM due) ORDER BY id FOR NO KEY UPDATE)
UPDATE lane SET next_due = LEAST(next_due, due.due_at)
FROM due JOIN locked ON locked.id = due.lane_id WHERE lane.id = due.lane_id
"""

_REOPEN = """
WITH locked AS (SELECT id FROM lane WHERE address_id = ANY(%(addresses)s) ORDER BY id FOR NO KEY UPDATE)
UPDATE lane SET is_open = address.status = 'ON' AND destination.is_enabled IS TRUE
FROM locked, address LEFT JOIN destination ON destination.id = address.destination_id
WHERE lane.id = locked.id AND address.id = lane.address_id
"""


_ISOLATE = """
WITH wanted AS (
    SELECT address.id, status = 'ON' AND destination.is_enabled IS TRUE AS is_open
    FROM address LEFT JOIN destination ON destination.id = address.destination_id
    WHERE address.id = ANY(%(addresses)s) ORDER BY address.id FOR SHARE OF address
)
INSERT INTO lane (address_id, is_open, is_isolation) SELECT id, is_open, TRUE FROM wanted
ON CONFLICT (address_id, conversation_id, is_isolation) DO NOTHING
"""
_ISOLATION = "SELECT address_id, id FROM lane WHERE address_id = ANY(%(addresses)s) AND is_isolation"


def isolation_lanes(cursor: CursorWrapper, address_ids: Iterable[int]) -> dict[int, int]:
    """Return each address's isolation lane, made where it was missing; address id -> lane id. Call in a transaction."""
    wanted = {"addresses": sorted(set(address_ids))}
    if not wanted["addresses"]:
        return {}
    cursor.execute(_ISOLATION, wanted)
    found = dict(cursor.fetchall())
    if len(found) < len(wanted["addresses"]):
        # A policy saved meanwhile would not open or close a lane that is not committed.
        locks.share(cursor, Lock.POLICIES)
        cursor.execute(_ISOLATE, wanted)
        cursor.execute(_ISOLATION, wanted)
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
