"""Claim: take what is due for delivery, TBDL -> DLNG, a whole batch at once.

Lanes are locked first and messages are picked in a second statement, whose snapshot is taken after the locks: in one
statement a message committed in between would be missed *and* its lane's floor raised above it
(docs/decisions/0004-claim-in-two-steps.md).
"""

import json
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.domain.claim_plan import Allowance, Capacity, LaneCap, allowances, lane_caps
from poisonadmin.domain.destinations import DEFAULTS
from poisonadmin.operations.in_flight import IN_FLIGHT
from poisonadmin.operations.ledger import RECORDED
from poisonadmin.operations.locks import Lock, try_lock

LEASE_SECONDS = 60
LANES_A_CLAIM = 300
MESSAGES_A_CLAIM = 10_000
# How far ahead a claim reserves the slots of a rate; shorter than the time in which a task may begin deliveries.
SLOT_HORIZON_SECONDS = 1.0


@dataclass(frozen=True)
class ClaimRef:
    """A claim to deliver: the shards that hold messages, and how many messages in all."""

    id: int
    shards: tuple[int, ...]
    size: int


_IS_DUE = "SELECT EXISTS (SELECT FROM lane WHERE is_open AND next_due <= now())"

_CAPACITIES = f"""
WITH under_way AS (
    SELECT address.destination_id, count(*) AS n
    FROM {IN_FLIGHT} JOIN address ON address.id = message.address_id GROUP BY 1
)
SELECT destination.id, coalesce((config->>'concurrency')::int, %(concurrency)s), "window", max_rate_per_second,
       EXTRACT(epoch FROM GREATEST(next_slot, now()) - now())::float,
       coalesce(under_way.n, 0)
FROM destination LEFT JOIN under_way ON under_way.destination_id = destination.id WHERE is_enabled ORDER BY id
FOR NO KEY UPDATE OF destination SKIP LOCKED
"""  # noqa: S608  (fragments are constants)

_LANES = """
SELECT lane.id, address.destination_id
FROM lane JOIN address ON address.id = lane.address_id
WHERE lane.is_open AND lane.next_due <= now() AND address.destination_id = ANY(%(destinations)s)
ORDER BY lane.next_due LIMIT %(limit)s
FOR NO KEY UPDATE OF lane SKIP LOCKED
"""

_TAKE = f"""
WITH claim AS (
    INSERT INTO claim (lease_until, shards, size, plan, job_id)
    VALUES (now() + %(lease)s * interval '1 s', %(shards)s, 0, %(plan)s, %(job)s) RETURNING id
), caps AS (
    SELECT * FROM unnest(%(lanes)s::bigint[], %(lane_destinations)s::bigint[], %(caps)s::int[])
        AS c (lane_id, destination_id, cap)
), takes AS (
    SELECT allowance.*, destination.next_slot, destination.max_rate_per_second AS rate
    FROM jsonb_to_recordset(%(allowances)s) AS allowance(destination_id bigint, take int, first_shard int, shards int)
    JOIN destination ON destination.id = allowance.destination_id
), picked AS MATERIALIZED (
    SELECT takes.*, due.*,
           row_number() OVER (PARTITION BY takes.destination_id ORDER BY due.due_at, due.id) - 1 AS place
    FROM takes CROSS JOIN LATERAL (
        SELECT one.* FROM caps CROSS JOIN LATERAL (
            SELECT id, due_at, address_id, state, reason, group_id FROM message
            WHERE lane_id = caps.lane_id AND state = 'TBDL' AND due_at <= now()
              AND due_at >= (SELECT next_due FROM lane WHERE lane.id = caps.lane_id)
              AND (expires_at IS NULL OR expires_at > now())
            ORDER BY due_at LIMIT caps.cap FOR UPDATE SKIP LOCKED
        ) AS one WHERE caps.destination_id = takes.destination_id LIMIT takes.take
    ) AS due
), changed AS (
    UPDATE message SET state = 'DLNG', state_at = now(), attempt_number = attempt_number + 1,
        claim_id = (SELECT id FROM claim), shard = (picked.first_shard + picked.place %% picked.shards) %% %(shards)s,
        start_at = CASE WHEN rate IS NOT NULL
                        THEN GREATEST(picked.next_slot, now()) + picked.place / picked.rate * interval '1 s' END
    FROM picked WHERE message.id = picked.id
    RETURNING message.id, message.address_id, message.state, message.reason, message.group_id, message.attempt_number,
              picked.address_id AS was_address_id, picked.state AS was_state, picked.reason AS was_reason,
              picked.group_id AS was_group_id, 'claimed' AS event, picked.destination_id, message.shard, picked.place
), shards AS (
    INSERT INTO claim_shard (claim_id, shard, message_ids)
    SELECT (SELECT id FROM claim), shard, array_agg(id ORDER BY place) FROM changed GROUP BY shard RETURNING shard
), slots AS (
    UPDATE destination SET next_slot = GREATEST(next_slot, now()) + used.n / max_rate_per_second * interval '1 s'
    FROM (SELECT destination_id, count(*) AS n FROM changed GROUP BY 1) AS used
    WHERE destination.id = used.destination_id AND max_rate_per_second IS NOT NULL
), {RECORDED}
SELECT (SELECT id FROM claim), count(*), coalesce((SELECT array_agg(shard) FROM shards), '{{}}') FROM changed
"""  # noqa: S608  (fragments are constants)

# The floor rises to the first message that still waits. The old floor bounds the search, so that the index entries of
# messages claimed before, which an old snapshot may keep alive, are not walked again and again (PERFORMANCE, "claim
# floor").
_RAISE_FLOORS = """
UPDATE lane SET next_due = (
    SELECT min(due_at) FROM message
    WHERE lane_id = lane.id AND state = 'TBDL' AND due_at >= lane.next_due
)
WHERE id = ANY(%(lanes)s)
"""


def is_due() -> bool:
    """Return whether any open lane has something due; cheap enough to ask ten times a second."""
    with connection.cursor() as cursor:
        cursor.execute(_IS_DUE)
        return bool(cursor.fetchone()[0])


def claim_due(*, tasks: int, job_id: int | None = None, limit: int = MESSAGES_A_CLAIM) -> ClaimRef | None:
    """Move what is due, for destinations that have room, to DLNG under a new claim; None when there is nothing to take.

    `tasks`: the greatest number of shards. `limit`: messages a destination. One claim is made at a time.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        if not try_lock(cursor, Lock.CLAIM):
            return None
        given = allowances(_capacities(cursor), tasks=tasks, limit=limit)
        cursor.execute(
            _LANES, {"destinations": [allowance.destination_id for allowance in given], "limit": LANES_A_CLAIM}
        )
        caps = lane_caps(cursor.fetchall(), given)
        if not caps:
            return None
        claim_id, size, shards = _take(cursor, given, caps, tasks=tasks, job_id=job_id)
        cursor.execute(_RAISE_FLOORS, {"lanes": [cap.lane_id for cap in caps]})
        if size == 0:
            cursor.execute("DELETE FROM claim WHERE id = %s", [claim_id])
            return None
        cursor.execute("UPDATE claim SET size = %s WHERE id = %s", [size, claim_id])
    return ClaimRef(claim_id, tuple(sorted(shards)), size)


def _capacities(cursor: CursorWrapper) -> list[Capacity]:
    cursor.execute(_CAPACITIES, {"concurrency": DEFAULTS["concurrency"]})
    return [
        Capacity(
            destination_id=destination_id,
            concurrency=concurrency,
            window=window,
            in_flight=in_flight,
            slots_ahead=None if rate is None else _slots_ahead(rate, reserved_seconds),
        )
        for destination_id, concurrency, window, rate, reserved_seconds, in_flight in cursor.fetchall()
    ]


def _slots_ahead(rate: float, reserved_seconds: float) -> int:
    """Return how many slots start within the horizon; at least the next one, however slow the rate, once it is near."""
    free_seconds = SLOT_HORIZON_SECONDS - reserved_seconds
    return max(int(free_seconds * rate), 1) if free_seconds > 0 else 0


def _take(
    cursor: CursorWrapper, given: tuple[Allowance, ...], caps: tuple[LaneCap, ...], *, tasks: int, job_id: int | None
) -> tuple[int, int, list[int]]:
    cursor.execute(
        _TAKE,
        {
            "lease": LEASE_SECONDS,
            "shards": tasks,
            "job": job_id,
            "plan": json.dumps({str(one.destination_id): {"shards": one.shards, "slots": one.slots} for one in given}),
            "allowances": json.dumps(
                [
                    {
                        "destination_id": one.destination_id,
                        "take": one.take,
                        "first_shard": one.shards[0],
                        "shards": len(one.shards),
                    }
                    for one in given
                ]
            ),
            "lanes": [cap.lane_id for cap in caps],
            "lane_destinations": [cap.destination_id for cap in caps],
            "caps": [cap.cap for cap in caps],
            "actor": "system",
            "note": None,
        },
    )
    row: tuple[int, int, list[int]] = cursor.fetchone()
    return row
