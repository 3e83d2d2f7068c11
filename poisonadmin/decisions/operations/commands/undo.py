"""Cancelling: what an operation put up for delivery and what was not begun waits for a decision again."""

from typing import Any

from django.db import connection, transaction

from poisonadmin.core.commands.transaction_retry import retried
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.decisions.commands import payload_versions
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.messages.commands.transitions import StatementParts, move
from poisonadmin.messages.domain.states import Event, State
from poisonadmin.store.models.operation import Operation

MESSAGES_A_TRANSACTION = 5_000

# It goes back to where it was approved, for the reason that it had there. What it held before is put back as well.
_UNDO = move(
    State.TBDL,
    Event.OPERATION_CANCELLED,
    State.NDLV,
    chosen="""
    SELECT message.id, coalesce(former.id, message.address_id) AS former_address_id, message.address_id, message.state,
           message.reason, message.group_id, message.original_address_id,
           undecided.reason AS former_reason, undecided.at AS former_at,
           here.name AS from_name, former.name AS to_name, lane.id AS former_lane_id
    FROM (
        SELECT * FROM message
        WHERE id = ANY(%(ids)s) AND state = 'TBDL' AND operation_id = %(operation)s
        ORDER BY id FOR UPDATE
    ) AS message
         JOIN address AS here ON here.id = message.address_id
         LEFT JOIN LATERAL (
             SELECT address.id, address.name
             FROM history JOIN hop ON hop.message_id = history.message_id AND hop.at = history.at
                          JOIN address ON address.name = hop.from_address
             WHERE history.message_id = message.id AND history.operation_id = %(operation)s
               AND hop.to_address = here.name
             ORDER BY seq DESC LIMIT 1
         ) AS former ON TRUE
         LEFT JOIN LATERAL (
             SELECT reason, at FROM history
             WHERE message_id = message.id AND to_state = 'NDLV' ORDER BY seq DESC LIMIT 1
         ) AS undecided ON TRUE
         JOIN lane ON lane.address_id = coalesce(former.id, message.address_id) AND lane.is_plain
""",
    sets={
        "reason": "former_reason",
        "state_at": "coalesce(former_at, now())",  # it has waited for a decision since then
        "address_id": "former_address_id",
        "lane_id": "former_lane_id",
        # An approval has brought it home; a redirect has kept where it was first.
        "original_address_id": """CASE WHEN former_address_id = message.address_id THEN message.original_address_id
                                       WHEN message.original_address_id IS NULL THEN message.address_id
                                       ELSE NULLIF(message.original_address_id, former_address_id) END""",
    },
    parts=StatementParts(
        shows=("from_name", "to_name"),
        beside="""hops AS (
    INSERT INTO hop (message_id, from_address, to_address, reason, by)
    SELECT id, from_name, to_name, 'operation_cancelled', %(actor)s FROM changed WHERE to_name IS NOT NULL
), restarts AS (
    UPDATE restart SET times = times - 1 FROM changed, operation
    WHERE operation.id = %(operation)s AND restart.restart_job_id = operation.restart_job_id
      AND restart.message_id = changed.id
)""",
        is_decision=True,
    ),
)
# What waits on the operation's own lanes is found at once, whatever else the selection holds.
_ON_LANES = """
SELECT message.id FROM lane JOIN message ON message.lane_id = lane.id
WHERE lane.operation_id = %(operation)s AND message.state = 'TBDL' AND message.due_at IS NOT NULL
  AND message.operation_id = %(operation)s
LIMIT %(limit)s
"""
_IN_PIECE = """
SELECT message.id FROM selection_piece CROSS JOIN LATERAL unnest(message_ids) AS member (id)
     JOIN message ON message.id = member.id
WHERE selection_id = %(selection)s AND number = %(number)s AND state = 'TBDL' AND operation_id = %(operation)s
"""


def undo(operation: Operation, *, actor: str, note: str) -> int:
    """Bring what waits for a delivery by this operation back to NDLV; return how many. Call outside a transaction.

    What is under way ends; what of it is to be tried again comes back with the next call.
    """
    undone = 0
    wanted: dict[str, Any] = {
        "operation": operation.id,
        "selection": operation.selection_id,
        "limit": MESSAGES_A_TRANSACTION,
    }
    values = {"operation": operation.id, "actor": actor, "note": note, "action": operation.action}
    while operation.has_lanes and (ids := fetch_values(_ON_LANES, wanted)):
        undone += retried(lambda ids=ids: _undo(values | {"ids": ids}))  # type: ignore[misc]
    for number in range(operation.pieces):
        if ids := fetch_values(_IN_PIECE, wanted | {"number": number}):
            undone += retried(lambda ids=ids: _undo(values | {"ids": ids}))  # type: ignore[misc]
    return undone


def _undo(values: dict[str, Any]) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        if values["action"] == OperationAction.PATCH:
            payload_versions.put_back(cursor, values["ids"], actor=values["actor"], operation_id=values["operation"])
        cursor.execute(_UNDO, values)
        return int(cursor.fetchone()[0])
