"""Reads for a claim how many messages each destination can take now.

What it has under way is what the nodes say, a few rows: a message counts until its outcome is written, settled or not,
and the sandbox of a handler until it has ended. However small its window, a destination that answers may have
all that it takes at once, and the next one waiting.
"""

import json

from django.db.backends.utils import CursorWrapper

from poisonadmin.brokers.domain import broker_kinds
from poisonadmin.core.queries.sql import named_sql
from poisonadmin.delivery.domain.claim_plan import HORIZON_SECONDS, Capacity, slots_ahead
from poisonadmin.destinations.domain import handler_config, http_config

# A broker's connection has a whole batch under way at once; any other delivery stands for itself.
_DEFAULTS = json.dumps(
    {"http": http_config.DEFAULTS, "handler": handler_config.DEFAULTS, **broker_kinds.DESTINATION_DEFAULTS}
)

# The condition that messages of a `lane` may be given slots: its operation has no rate, or has reserved less than half
# of the horizon, as `slots_ahead` says.
HAS_SLOTS = named_sql(
    """(lane.operation_id IS NULL OR NOT EXISTS (
    SELECT FROM operation_pace
    WHERE operation_pace.operation_id = lane.operation_id AND next_slot > now() + interval '{most} s'))""",
    most=HORIZON_SECONDS / 2,
)

_CAPACITIES = named_sql(
    """
WITH shards AS (
    SELECT claim.id, claim.is_isolation, held.destination_id::bigint, held.messages::int AS messages,
           (claim.plan->held.destination_id->>'slots')::int AS slots
    FROM claim JOIN claim_shard ON claim_shard.claim_id = claim.id LEFT JOIN node USING (claim_id, shard)
         CROSS JOIN LATERAL jsonb_each_text(coalesce(node.under_way, claim_shard.sizes))
             AS held (destination_id, messages)
    WHERE claim.is_open AND node.ended_at IS NULL
), under_way AS (
    SELECT destination_id, coalesce(sum(least(messages, slots)) FILTER (WHERE NOT is_isolation), 0) AS n,
           coalesce(sum(messages) FILTER (WHERE is_isolation), 0) AS isolated,
           count(DISTINCT id) FILTER (WHERE NOT is_isolation AND messages > slots) AS beginning
    FROM shards GROUP BY 1
)
SELECT max_rate_per_second, EXTRACT(epoch FROM GREATEST(next_slot, now()) - now())::float, destination.id,
       at_once.n,
       CASE WHEN kind = 'handler' OR slowed_by IS NULL THEN GREATEST("window", at_once.n + 1) ELSE "window" END,
       coalesce(under_way.n, 0)::int, coalesce(under_way.isolated, 0)::int, coalesce(beginning, 0),
       EXISTS (SELECT FROM lane JOIN address ON address.id = lane.address_id
               WHERE lane.is_open AND lane.is_isolation AND lane.next_due <= now() AND {has_slots}
                 AND address.destination_id = destination.id AND NOT EXISTS (
                   SELECT FROM lane AS other JOIN address ON address.id = other.address_id
                   WHERE other.is_open AND NOT other.is_isolation AND other.operation_id IS NULL
                     AND other.next_due < lane.next_due AND address.destination_id = destination.id))
FROM destination CROSS JOIN LATERAL (
    SELECT coalesce((config->>'concurrency')::int, (%(defaults)s::jsonb->kind->>'concurrency')::int)
               * coalesce((config->>'batch')::int, (%(defaults)s::jsonb->kind->>'batch')::int, 1) AS n
) AS at_once LEFT JOIN under_way ON under_way.destination_id = destination.id WHERE is_enabled ORDER BY id
FOR NO KEY UPDATE OF destination SKIP LOCKED
""",
    has_slots=HAS_SLOTS,
)


def capacities(cursor: CursorWrapper) -> list[Capacity]:
    """Lock the enabled destinations and return what each can take; one that another transaction holds is left out."""
    cursor.execute(str(_CAPACITIES), {"defaults": _DEFAULTS})
    fields = (
        "destination_id",
        "concurrency",
        "window",
        "in_use",
        "isolated",
        "beginning",
        "is_turn_of_candidates",
    )
    return [
        Capacity(
            **dict(zip(fields, values, strict=True)),
            slots_ahead=None if rate is None else slots_ahead(rate, reserved_seconds),
        )
        for rate, reserved_seconds, *values in cursor.fetchall()
    ]
