"""Claims messages that are due for delivery, TBDL -> DLNG, a whole batch at once.

Lanes are locked first and messages are picked in a second statement, whose snapshot is taken after the locks: in one
statement a message committed in between would be missed *and* its lane's low-water mark raised above it
(decision 4).
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands.locks import try_lock
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.core.queries.sql import named_sql, raw
from poisonadmin.delivery.commands import ordered_conversations
from poisonadmin.delivery.commands.capacities import HAS_SLOTS, capacities
from poisonadmin.delivery.domain.claim_plan import (
    LEAD_SECONDS,
    LEAST_SPAN_SECONDS,
    SLACK_SECONDS,
    Allowance,
    Capacity,
    LaneCap,
    allowances,
    isolated_allowances,
    lane_caps,
    operation_caps,
    run_lengths,
    slots_ahead,
)
from poisonadmin.delivery.domain.lease import LEASE_SECONDS
from poisonadmin.messages.commands.schedule import IS_HELD
from poisonadmin.messages.commands.transitions import ChosenRows, StatementParts, move
from poisonadmin.messages.domain.states import Event, State

LANES_A_CLAIM = 300
MESSAGES_A_CLAIM = 10_000
# Candidates of one claim, delivered one after the other: few, for each may die slowly.
CANDIDATES_A_CLAIM = 16


@dataclass(frozen=True)
class ClaimRef:
    """A claim to deliver: the shards that hold messages, and how many messages in all. In isolation: candidates."""

    id: int
    shards: tuple[int, ...]
    size: int
    is_isolation: bool = False


@dataclass(frozen=True)
class _Taken:
    """The number of messages of a destination in a shard."""

    shard: int
    destination_id: int
    messages: int


@dataclass(frozen=True)
class _Runs:
    """The messages that may be taken of ordered lanes, lane id -> message ids in their order.

    `dues`: when the heads of conversations are due.
    """

    messages: Mapping[int, Sequence[int]]
    dues: Mapping[int, datetime | None]


class _DueLane(NamedTuple):
    """A lane with something due. `run_due`: of a conversation's head. `slots`: as `OperationLane` says."""

    id: int
    destination_id: int
    is_ordered: bool
    run_due: datetime | None
    operation_id: int  # 0: of none
    slots: int | None


_HAS_CANDIDATES = "SELECT EXISTS (SELECT FROM lane WHERE is_open AND is_isolation AND next_due <= now())"
_NEXT_DUE = "SELECT extract(epoch FROM min(next_due) - now())::float8 FROM lane WHERE is_open"

# Messages that nobody decided on in bulk go first.
_LANES = named_sql(
    """
SELECT lane.id, address.destination_id, address.is_ordered AND NOT lane.is_isolation,
       CASE WHEN lane.conversation_id IS NOT NULL THEN lane.next_due END, coalesce(lane.operation_id, 0),
       pace.rate_per_second, extract(epoch FROM GREATEST(pace.next_slot, now()) - now())::float8
FROM lane JOIN address ON address.id = lane.address_id
     LEFT JOIN operation_pace AS pace ON pace.operation_id = lane.operation_id
WHERE lane.is_open AND lane.next_due <= now() AND lane.is_isolation = %(isolation)s AND {has_slots}
  AND address.destination_id = ANY(%(destinations)s)
ORDER BY lane.operation_id IS NOT NULL, lane.next_due LIMIT %(limit)s
FOR NO KEY UPDATE OF lane SKIP LOCKED
""",
    has_slots=HAS_SLOTS,
)

_OPEN = """
INSERT INTO claim (lease_until, shards, size, is_isolation, plan)
VALUES (now() + %(lease)s * interval '1 s', %(shards)s, 0, %(isolation)s, '{}') RETURNING id
"""

# A message's place among the ids gives its shard and its slot: so the update needs no join, and walks the index once.
_PLACE = raw("width_bucket(message.id, (SELECT ids FROM dealt))")
# As delivery/domain/claim_plan.py says. Counted from the beginning of the transaction, the slots of a claim that takes
# long would be over before anything can begin in them.
_FIRST_SLOT = named_sql(
    """statement_timestamp()
       + CASE WHEN (SELECT is_isolation FROM claim WHERE id = %(claim)s) THEN 0 ELSE {lead} END * interval '1 s'""",
    lead=LEAD_SECONDS,
)
_END_OF_SLOTS = named_sql(
    "GREATEST(max(start_at + distance), min(start_at) + {span} * interval '1 s')", span=LEAST_SPAN_SECONDS
)

# The lanes that may give something, and how much.
_CAPS = """caps AS (
    SELECT * FROM unnest(%(lanes)s::bigint[], %(lane_destinations)s::bigint[], %(caps)s::int[], %(ordered)s::bool[],
                         %(run_dues)s::timestamptz[], %(paces)s::bigint[])
        AS c (lane_id, destination_id, cap, is_ordered, run_due, pace)
)"""
# The messages that ordered lanes may give.
_MAY_FOLLOW = """may_follow AS (
    SELECT * FROM unnest(%(run_lanes)s::bigint[], %(run_messages)s::bigint[], %(run_places)s::int[])
        AS m (lane_id, message_id, turn)
)"""
# The destinations that may take something, and their rates.
_TAKES = """takes AS (
    SELECT allowance.*, destination.next_slot, destination.max_rate_per_second AS rate
    FROM jsonb_to_recordset(%(allowances)s) AS allowance(destination_id bigint, take int, first_shard int, shards int)
    JOIN destination ON destination.id = allowance.destination_id
)"""
# The messages that are taken, in the order in which they are to begin, by destination and pace. Where they have slots
# conversations take turns: each slot then comes when the one before it in its conversation has long been answered.
_PICKED = named_sql(
    """picked AS (
    SELECT due.id, due.run, due.pace, takes.*,
           row_number() OVER (PARTITION BY takes.destination_id, due.pace
                              ORDER BY coalesce(CASE WHEN due.pace IS NOT NULL OR takes.rate IS NOT NULL THEN (
                                           SELECT to_timestamp(turn) FROM may_follow WHERE message_id = due.id) END,
                                           due.run_due, due.due_at), due.run, due.id) - 1 AS place
    FROM takes CROSS JOIN LATERAL (
        SELECT one.*, caps.pace, caps.run_due, CASE WHEN caps.run_due IS NOT NULL THEN caps.lane_id END AS run
        FROM caps CROSS JOIN LATERAL (
            SELECT id, due_at FROM message
            WHERE lane_id = caps.lane_id AND state = 'TBDL' AND due_at <= now()
              AND due_at >= (SELECT next_due FROM lane WHERE lane.id = caps.lane_id)
              AND (expires_at IS NULL OR expires_at > now()) AND NOT {is_held}
              AND (NOT caps.is_ordered OR id IN (SELECT message_id FROM may_follow WHERE lane_id = caps.lane_id))
            ORDER BY due_at LIMIT caps.cap FOR UPDATE SKIP LOCKED
        ) AS one WHERE caps.destination_id = takes.destination_id LIMIT takes.take
    ) AS due
)""",
    is_held=IS_HELD,
)
# Their shards, and their slots where there is a rate.
_PLACED = named_sql(
    """placed AS MATERIALIZED (
    SELECT id, destination_id, place, pace,
           (first_shard + CASE WHEN pace IS NULL THEN coalesce(run, place) %% shards ELSE 0 END) %% %(shards)s AS shard,
           CASE WHEN pace IS NOT NULL OR rate IS NOT NULL THEN
               GREATEST(own.next_slot, CASE WHEN rate IS NOT NULL THEN picked.next_slot END, {first_slot})
               + place * {second} / LEAST(rate, own.rate_per_second) * interval '1 s' END AS start_at,
           {second} / LEAST(rate, own.rate_per_second) * interval '1 s' AS distance
    FROM picked LEFT JOIN operation_pace AS own ON own.operation_id = pace
)""",
    first_slot=_FIRST_SLOT,
    second=1 + SLACK_SECONDS,
)
# The same as arrays, by message id.
_DEALT = """dealt AS (
    SELECT array_agg(id ORDER BY id) AS ids, array_agg(shard ORDER BY id) AS shards,
           array_agg(coalesce(start_at, 'infinity') ORDER BY id) AS starts
    FROM placed
)"""
# How many messages of each destination a shard has.
_USED = """used AS (
    SELECT shard, destination_id, count(*) AS n FROM placed GROUP BY 1, 2
)"""
# The shards, with their messages in the order in which they are to begin.
_SHARDS = """shards AS (
    INSERT INTO claim_shard (claim_id, shard, message_ids, sizes)
    SELECT %(claim)s, shard, taken.ids, used_there.sizes
    FROM (SELECT shard, array_agg(id ORDER BY place) AS ids FROM placed GROUP BY 1) AS taken
         JOIN (SELECT shard, jsonb_object_agg(destination_id, n) AS sizes FROM used GROUP BY 1) AS used_there
         USING (shard)
)"""
# Where the slots of destinations go on.
_SLOTS = named_sql(
    """slots AS (
    UPDATE destination SET next_slot = used.until
    FROM (SELECT destination_id, {end} AS until FROM placed GROUP BY 1) AS used
    WHERE destination.id = used.destination_id AND max_rate_per_second IS NOT NULL
)""",
    end=_END_OF_SLOTS,
)
# Where the slots of operations go on.
_PACED = named_sql(
    """paced AS (
    UPDATE operation_pace AS own SET next_slot = used.until
    FROM (SELECT pace, {end} AS until FROM placed WHERE pace IS NOT NULL GROUP BY pace) AS used
    WHERE own.operation_id = used.pace
)""",
    end=_END_OF_SLOTS,
)

_TAKE = move(
    State.TBDL,
    Event.CLAIMED,
    State.DLNG,
    chosen=ChosenRows(
        "SELECT unnest(ids) AS id FROM dealt",
        before=f"{_CAPS}, {_MAY_FOLLOW}, {_TAKES}, {_PICKED}, {_PLACED}, {_DEALT}",
        asks="TRUE",
    ),
    sets={
        "attempt_number": "attempt_number + 1",
        "claim_id": "%(claim)s",
        "shard": str(named_sql("(SELECT shards FROM dealt)[{place}]", place=_PLACE)),
        "start_at": str(named_sql("NULLIF((SELECT starts FROM dealt)[{place}], 'infinity')", place=_PLACE)),
    },
    parts=StatementParts(
        beside=f"{_USED}, {_SHARDS}, {_SLOTS}, {_PACED}", then="SELECT shard, destination_id, n FROM used"
    ),
)

# The low-water mark rises to the first message that still waits. The old one bounds the search, so that the index
# entries of messages claimed before, which an old snapshot may keep alive, are not walked again and again.
_RAISE_LOW_WATER_MARKS = named_sql(
    """
UPDATE lane SET next_due = (
    SELECT min(due_at) FROM message
    WHERE lane_id = lane.id AND state = 'TBDL' AND due_at >= lane.next_due AND NOT {is_held}
)
WHERE id = ANY(%(lanes)s) AND conversation_id IS NULL
""",
    is_held=IS_HELD,
)


def seconds_until_due() -> float | None:
    """Return in how many seconds something is due in an open lane, negative when it is; None when nothing waits."""
    seconds: float | None = fetch_values(_NEXT_DUE)[0]
    return seconds


def claim_due(*, tasks: int, limit: int = MESSAGES_A_CLAIM) -> ClaimRef | None:
    """Move due messages, for destinations that have room, to DLNG under a new claim; None where there are none.

    `tasks`: the greatest number of shards. `limit`: messages a destination. One claim is made at a time. Candidates are
    left to `claim_isolated`.
    """
    return _claim(partial(allowances, tasks=tasks, limit=limit), tasks, isolation=False)


def claim_isolated() -> ClaimRef | None:
    """Move candidates of one destination that are due to DLNG, in one shard, to be delivered one after the other.

    A destination's candidates are in one such claim at a time, and nothing else of it beside them.
    """
    if not fetch_values(_HAS_CANDIDATES)[0]:  # they are rare, and whoever claims asks for them first
        return None
    return _claim(partial(isolated_allowances, limit=CANDIDATES_A_CLAIM), 1, isolation=True)


def _claim(allow: Callable[[list[Capacity]], tuple[Allowance, ...]], tasks: int, *, isolation: bool) -> ClaimRef | None:
    with transaction.atomic(), connection.cursor() as cursor:
        if not try_lock(cursor, Lock.CLAIM):
            return None
        if not isolation:
            ordered_conversations.schedule_heads(cursor)
        all_capacities = capacities(cursor)
        given = allow(all_capacities)
        lanes = _due_lanes(cursor, given, isolation=isolation)
        if isolation:  # one destination a claim: a node that crashes with it has only these to suspect
            lanes = [lane for lane in lanes if lane.destination_id == lanes[0].destination_id]
        lengths = run_lengths([lane for lane in lanes if lane.is_ordered], given, longest=ordered_conversations.RUN)
        runs = ordered_conversations.runs(cursor, lengths)
        # Conversations have lanes of their own: where all have one, nothing is due on the lane that they came to.
        left = [lane.id for lane in lanes if lane.is_ordered and lane.run_due is None and lane.id not in runs]
        if left:
            cursor.execute(str(_RAISE_LOW_WATER_MARKS), {"lanes": left})
        # A lane whose head may not be delivered yet has nothing to give.
        lanes = [lane for lane in lanes if not lane.is_ordered or lane.id in runs]
        caps = lane_caps([(lane.id, lane.destination_id) for lane in lanes if not lane.operation_id], given, runs)
        rated = {one.destination_id for one in all_capacities if one.slots_ahead is not None}
        of_operations = [lane for lane in lanes if lane.operation_id]
        caps += operation_caps(of_operations, given, runs, before=caps, rated=rated)
        if not caps:
            return None
        caps = tuple(sorted(caps, key=lambda cap: cap.lane_id not in runs))  # a run is not cut by what comes before it
        ordered = _Runs(runs, {lane.id: lane.run_due for lane in lanes})
        paces = {lane.id: lane.operation_id for lane in lanes if lane.slots is not None}
        cursor.execute(_OPEN, {"lease": LEASE_SECONDS, "shards": tasks, "isolation": isolation})
        (claim_id,) = cursor.fetchone()
        used = _take(cursor, claim_id, given, caps, tasks=tasks, runs=ordered, paces=paces)
        cursor.execute(str(_RAISE_LOW_WATER_MARKS), {"lanes": [cap.lane_id for cap in caps]})
        ordered_conversations.refresh_heads(cursor, {lane.id: None for lane in lanes if lane.run_due is not None})
        if not used:
            cursor.execute("DELETE FROM claim WHERE id = %s", [claim_id])
            return None
        size = sum(one.messages for one in used)
        plan = _plan(given, caps, used)
        cursor.execute("UPDATE claim SET size = %s, plan = %s WHERE id = %s", [size, json.dumps(plan), claim_id])
    return ClaimRef(claim_id, tuple(sorted({one.shard for one in used})), size, isolation)


def _due_lanes(cursor: CursorWrapper, given: Sequence[Allowance], *, isolation: bool) -> list[_DueLane]:
    destinations = [allowance.destination_id for allowance in given]
    values: dict[str, Any] = {"destinations": destinations, "limit": LANES_A_CLAIM, "isolation": isolation}
    cursor.execute(str(_LANES), values)
    return [
        _DueLane._make([*lane, None if rate is None else slots_ahead(rate, reserved)])
        for *lane, rate, reserved in cursor.fetchall()
    ]


def _plan(given: Sequence[Allowance], caps: Iterable[LaneCap], used: Sequence[_Taken]) -> dict[str, dict[str, Any]]:
    """Return the claim's plan; a destination that has given all that it might leaves room to the next claim."""
    might, taken, shards = Counter[int](), Counter[int](), Counter[int]()
    for cap in caps:
        might[cap.destination_id] += cap.cap
    for one in used:
        taken[one.destination_id] += one.messages
        shards[one.destination_id] += 1
    plan = {}
    for allowance in given:
        to = allowance.destination_id
        at_once = allowance.overlapped if taken[to] >= min(allowance.take, might[to]) else allowance.at_once
        plan[str(to)] = {"shards": allowance.shards, "slots": max(at_once // max(shards[to], 1), 1)}
    return plan


def _take(
    cursor: CursorWrapper,
    claim_id: int,
    given: tuple[Allowance, ...],
    caps: tuple[LaneCap, ...],
    *,
    tasks: int,
    runs: _Runs,
    paces: Mapping[int, int],
) -> list[_Taken]:
    cursor.execute(
        _TAKE,
        {
            "claim": claim_id,
            "shards": tasks,
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
            "ordered": [cap.lane_id in runs.messages for cap in caps],
            "run_dues": [runs.dues.get(cap.lane_id) if cap.lane_id in runs.messages else None for cap in caps],
            "paces": [paces.get(cap.lane_id) for cap in caps],
            "run_lanes": [cap.lane_id for cap in caps for _ in runs.messages.get(cap.lane_id, ())[: cap.cap]],
            "run_messages": [one for cap in caps for one in runs.messages.get(cap.lane_id, ())[: cap.cap]],
            "run_places": [n for cap in caps for n, _ in enumerate(runs.messages.get(cap.lane_id, ())[: cap.cap])],
            "actor": "system",
            "note": None,
        },
    )
    return [_Taken(*row) for row in cursor.fetchall()]
