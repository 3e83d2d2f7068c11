"""Settle: what became of the messages in DLNG, from the attempts that their nodes wrote.

A message in DLNG with attempt number N is answered when the row (message, N) is in `attempt`. Settling again finds
nothing to do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from poisonadmin.delivery.commands import breakers, ordered_conversations
from poisonadmin.delivery.commands.in_flight import IN_FLIGHT, TAKEN
from poisonadmin.delivery.commands.settle_failures import ANSWERS_A_TRANSACTION, settle_failures
from poisonadmin.messages.commands.admission import refuse_inadmissible
from poisonadmin.messages.commands.confirmations import AWAITED
from poisonadmin.messages.commands.schedule import schedule
from poisonadmin.messages.commands.transitions import move
from poisonadmin.messages.domain.states import Event, State

DELIVERIES_A_TRANSACTION = 10_000


@dataclass(frozen=True)
class Settled:
    """How many messages left DLNG, and how."""

    delivered: int = 0
    failed: int = 0
    returned: int = 0

    def __add__(self, other: "Settled") -> "Settled":
        return Settled(self.delivered + other.delivered, self.failed + other.failed, self.returned + other.returned)


_DELIVERED = move(
    State.DLNG,
    Event.DELIVERED,
    State.DLVD,
    chosen=f"""
    SELECT message.* FROM {TAKEN} CROSS JOIN LATERAL (
        SELECT message.id, address_id, state, reason, group_id, destination_id, finished_at
        FROM message
             JOIN attempt ON attempt.message_id = message.id AND attempt.attempt_number = message.attempt_number
        WHERE message.id = taken.message_id AND message.claim_id = taken.claim_id AND state = 'DLNG'
          AND outcome = 'delivered'
        FOR UPDATE OF message SKIP LOCKED
    ) AS message
    WHERE %(claim)s::bigint IS NULL OR taken.claim_id = %(claim)s LIMIT %(limit)s
""",  # noqa: S608  (fragments are constants)
    sets={"failure_count": "0", "crash_count": "0", "candidate": "FALSE", "expires_at": "NULL"},
    shows=("chosen.destination_id", "chosen.finished_at"),
    beside=AWAITED,
    then="SELECT count(*), array_agg(id) FILTER (WHERE address_id = ANY(%(watched)s::bigint[])) FROM changed",
)

# A node that ended has written all it ever will: what it leaves without an answer goes back. Nobody is accused: HTTP
# deliveries run no payload code here, and what a handler had begun was found in the node's pages before (ruling R2),
# which is why a lost node waits here until they are read. What it had not begun was never an attempt.
_RETURNED = move(
    State.DLNG,
    "chosen.event",
    State.TBDL,
    chosen=f"""
    SELECT message.* FROM {TAKEN} JOIN node ON node.claim_id = taken.claim_id AND node.shard = taken.shard
         CROSS JOIN LATERAL (
        SELECT id, address_id, lane_id, state, reason, group_id,
               CASE WHEN id = ANY(node.unanswered) OR node."end" = 'lost' AND NOT EXISTS (
                        SELECT FROM address JOIN destination ON destination.id = destination_id AND kind = 'handler'
                        WHERE address.id = message.address_id)
                    THEN '{Event.OUTCOME_LOST}' ELSE '{Event.RELEASED}' END AS event
        FROM message
        WHERE id = taken.message_id AND claim_id = taken.claim_id AND state = 'DLNG'
          AND NOT EXISTS (SELECT FROM attempt WHERE attempt.message_id = message.id
                                                AND attempt.attempt_number = message.attempt_number)
        FOR UPDATE SKIP LOCKED
    ) AS message
    WHERE node.ended_at IS NOT NULL AND (node."end" <> 'lost' OR node.pages IS NULL)
      AND (%(claim)s::bigint IS NULL OR taken.claim_id = %(claim)s) LIMIT %(limit)s
""",  # noqa: S608  (fragments are constants)
    sets={"due_at": "now()"},
    shows=("message.lane_id", "message.due_at"),
    then="SELECT lane_id, min(due_at), array_agg(id) FROM changed GROUP BY lane_id",
)

_CLOSE = f"""
UPDATE claim SET is_open = FALSE
WHERE is_open AND (%(claim)s::bigint IS NULL OR id = %(claim)s) AND id NOT IN (SELECT taken.claim_id FROM {IN_FLIGHT})
"""  # noqa: S608  (fragments are constants)


def settle(claim_id: int | None = None) -> Settled:
    """Move every answered message, and every one that an ended node left unanswered, out of DLNG; all claims or one.

    A row that another settle holds is left to it.
    """
    settled = Settled(
        delivered=_repeat(_settle_delivered, claim_id, DELIVERIES_A_TRANSACTION),
        failed=_repeat(_settle_failures, claim_id, ANSWERS_A_TRANSACTION),
        returned=_repeat(_return_unanswered, claim_id, DELIVERIES_A_TRANSACTION),
    )
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_CLOSE, {"claim": claim_id})
        ordered_conversations.refresh_head(cursor)
    return settled


def _repeat(step: Callable[[int | None], int], claim_id: int | None, full: int) -> int:
    """Take steps until one is not full; return the sum."""
    total = 0
    while (count := step(claim_id)) == full:
        total += count
    return total + count


def _settle_delivered(claim_id: int | None) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_DELIVERED, _values(claim_id) | {"watched": breakers.watched(cursor)})
        count, watched = cursor.fetchone()
        breakers.end_with_delivery(cursor, watched or ())
    return int(count)


def _settle_failures(claim_id: int | None) -> int:
    # What was delivered is settled again before failures are counted: a message of a conversation may have been
    # delivered, and its successor have failed, since the deliveries were looked at.
    return settle_failures(claim_id, before_counting=lambda: _settle_delivered(claim_id))


def _return_unanswered(claim_id: int | None) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_RETURNED, _values(claim_id))
        rows = cursor.fetchall()
        returned = [message_id for _, _, ids in rows for message_id in ids]
        refuse_inadmissible(cursor, returned)
        schedule(cursor, [(lane_id, due_at) for lane_id, due_at, _ in rows])
    return len(returned)


def _values(claim_id: int | None) -> dict[str, Any]:
    return {"claim": claim_id, "limit": DELIVERIES_A_TRANSACTION, "actor": "system", "note": None}
