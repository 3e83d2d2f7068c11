"""Settle: what became of the messages in DLNG, from the attempts that their nodes wrote.

A message in DLNG with attempt number N is answered when the row (message, N) is in `attempt`. Settling again finds nothing to do.
"""

from dataclasses import dataclass

from django.db import connection, transaction

from poisonadmin.operations.lanes import wake
from poisonadmin.operations.ledger import RECORDED
from poisonadmin.operations.settle_failures import settle_failures

DELIVERIES_A_TRANSACTION = 10_000


@dataclass(frozen=True)
class Settled:
    """How many messages left DLNG, and how."""

    delivered: int = 0
    failed: int = 0
    returned: int = 0

    def __add__(self, other: "Settled") -> "Settled":
        return Settled(self.delivered + other.delivered, self.failed + other.failed, self.returned + other.returned)

    @property
    def total(self) -> int:
        """Return how many messages left DLNG."""
        return self.delivered + self.failed + self.returned


_DELIVERED = f"""
WITH answered AS (
    SELECT message.id, address_id, state, reason, group_id
    FROM message JOIN attempt ON attempt.message_id = message.id AND attempt.attempt_number = message.attempt_number
    WHERE state = 'DLNG' AND outcome = 'delivered' AND (%(claim)s::bigint IS NULL OR message.claim_id = %(claim)s)
    ORDER BY message.id LIMIT %(limit)s FOR UPDATE OF message SKIP LOCKED
), changed AS (
    UPDATE message SET state = 'DLVD', state_at = now(), due_at = NULL, failure_count = 0, crash_count = 0,
                       candidate = FALSE
    FROM answered WHERE message.id = answered.id
    RETURNING message.id, message.address_id, message.state, message.reason, message.group_id, message.attempt_number,
              answered.address_id AS was_address_id, answered.state AS was_state, answered.reason AS was_reason,
              answered.group_id AS was_group_id, 'delivered' AS event
), {RECORDED}
SELECT count(*) FROM changed
"""  # noqa: S608  (fragments are constants)

# A node that ended has written all it ever will: what it leaves without an answer goes back. Nobody is accused: HTTP deliveries run no payload
# code here (ruling R2). What it had not begun was never an attempt.
_RETURNED = f"""
WITH left_over AS (
    SELECT message.id, address_id, lane_id, state, reason, group_id,
           CASE WHEN node."end" = 'lost' OR message.id = ANY(node.unanswered) THEN 'outcome_lost' ELSE 'released' END AS event
    FROM message JOIN node ON node.claim_id = message.claim_id AND node.shard = message.shard
    WHERE state = 'DLNG' AND node.ended_at IS NOT NULL AND (%(claim)s::bigint IS NULL OR message.claim_id = %(claim)s)
      AND NOT EXISTS (SELECT FROM attempt WHERE attempt.message_id = message.id
                                            AND attempt.attempt_number = message.attempt_number)
    ORDER BY message.id LIMIT %(limit)s FOR UPDATE OF message SKIP LOCKED
), changed AS (
    UPDATE message SET state = 'TBDL', state_at = now(), due_at = now() FROM left_over WHERE message.id = left_over.id
    RETURNING message.id, message.address_id, message.state, message.reason, message.group_id, message.attempt_number,
              left_over.address_id AS was_address_id, left_over.state AS was_state, left_over.reason AS was_reason,
              left_over.group_id AS was_group_id, left_over.event, message.lane_id, message.due_at
), {RECORDED}
SELECT lane_id, min(due_at), count(*) FROM changed GROUP BY lane_id
"""  # noqa: S608  (fragments are constants)

_CLOSE = """
UPDATE claim SET is_open = FALSE
WHERE is_open AND (%(claim)s::bigint IS NULL OR id = %(claim)s)
  AND NOT EXISTS (SELECT FROM message WHERE message.claim_id = claim.id AND message.state = 'DLNG')
"""


def settle(claim_id: int | None = None) -> Settled:
    """Move every answered message, and every one that an ended node left unanswered, out of DLNG; all claims or one.

    A row that another settle holds is left to it.
    """
    settled = Settled()
    while (step := _settle_some(claim_id)).total:
        settled += step
    with connection.cursor() as cursor:
        cursor.execute(_CLOSE, {"claim": claim_id})
    return settled


def _settle_some(claim_id: int | None) -> Settled:
    values = {"claim": claim_id, "limit": DELIVERIES_A_TRANSACTION, "actor": "system", "note": None}
    with connection.cursor() as cursor:
        with transaction.atomic():
            cursor.execute(_DELIVERED, values)
            delivered = cursor.fetchone()[0]
        failed = settle_failures(claim_id)
        with transaction.atomic():
            cursor.execute(_RETURNED, values)
            rows = cursor.fetchall()
            wake(cursor, [(lane_id, due_at) for lane_id, due_at, _ in rows])
    return Settled(delivered, failed, sum(count for _, _, count in rows))
