"""Takes the members of a cancelled operation back: what waits for a delivery waits for a decision again, as it was.

What is under way ends first. Each step is a transaction, and finds what is left: it may be killed anywhere.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.db import connection, transaction

from poisonadmin.core.commands.locks import retried
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.core.queries.sql import named_sql, raw
from poisonadmin.decisions.commands import payload_versions
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.messages.commands import schedule
from poisonadmin.messages.commands.exclusions import exclude_again
from poisonadmin.messages.commands.transitions import StatementParts, move
from poisonadmin.messages.domain.states import Event, State
from poisonadmin.store.models.operation import Operation

MESSAGES_A_TRANSACTION = 2_500

# Of those that wait for a delivery by the operation: when it decided on them, whether one has begun, and what somebody
# decided on them since. A rule that sends a message elsewhere asks before it begins.
_WAITING = raw("""
        SELECT message.*, decided.*, since.event AS decided_since,
               EXISTS (SELECT FROM history WHERE message_id = message.id AND seq > decided.seq
                       AND from_state = 'DLNG' AND event NOT IN ('released', 'redirected')) AS has_begun,
               EXISTS (SELECT FROM history WHERE message_id = message.id AND seq > decided.seq
                       AND from_state = 'DLNG' AND event NOT IN ('released', 'redirected', 'moved')) AS has_failed
        FROM (
            SELECT * FROM message
            WHERE id = ANY(%(ids)s) AND state = 'TBDL' AND operation_id = %(operation)s
            ORDER BY id FOR UPDATE
        ) AS message
             JOIN LATERAL (
                 SELECT seq, at, reset_failures, reset_crashes, reset_origin FROM history
                 WHERE message_id = message.id AND operation_id = %(operation)s ORDER BY seq DESC LIMIT 1
             ) AS decided ON TRUE
             LEFT JOIN LATERAL (
                 SELECT event FROM history
                 WHERE message_id = message.id AND seq > decided.seq AND event IN ('deliver_now', 'postponed')
                 ORDER BY seq DESC LIMIT 1
             ) AS since ON TRUE
""")
_LOCK = """
SELECT DISTINCT message.address_id FROM (
    SELECT address_id, lane_id FROM message
    WHERE id = ANY(%(ids)s) AND state = 'TBDL' AND operation_id = %(operation)s ORDER BY id FOR UPDATE
) AS message JOIN lane ON lane.id = lane_id WHERE is_isolation
"""
# A later decision of a person stays: the operation has nothing to do with the message any more.
_LEAVE = str(
    named_sql(
        """
WITH chosen AS ({waiting}), left_alone AS (
    UPDATE message
    SET operation_id = NULL, lane_id = CASE WHEN lane.operation_id IS NULL THEN message.lane_id ELSE other.id END
    FROM chosen JOIN lane ON lane.id = chosen.lane_id
         JOIN lane AS other ON other.address_id = chosen.address_id AND other.is_isolation = lane.is_isolation
                            AND other.operation_id IS NULL AND other.conversation_id IS NULL
    WHERE message.id = chosen.id AND chosen.decided_since IS NOT NULL
    RETURNING message.id, message.lane_id, message.due_at, chosen.decided_since
), recorded AS (
    INSERT INTO operation_result (operation_id, message_id, outcome, code)
    SELECT %(operation)s, id, 'skipped', decided_since FROM left_alone
    ON CONFLICT (message_id, operation_id) DO UPDATE SET outcome = excluded.outcome, code = excluded.code, at = now()
)
SELECT lane_id, due_at FROM left_alone
""",
        waiting=_WAITING,
    )
)
# A delivery whose outcome was lost counts as one that failed; what a rule or its consumer sent elsewhere has not.
_BEGUN = str(
    named_sql(
        """
WITH member AS ({waiting}), never_begun AS (
    DELETE FROM operation_result AS result USING member
    WHERE result.message_id = member.id AND result.operation_id = %(operation)s AND outcome = 'waiting'
      AND NOT has_failed
)
INSERT INTO operation_result (operation_id, message_id, outcome, group_id)
SELECT %(operation)s, id, 'waiting', group_id FROM member WHERE has_failed
ON CONFLICT (message_id, operation_id) DO NOTHING
""",
        waiting=_WAITING,
    )
)
# It goes back to where it was approved, for the reason that it had there. What it held before is put back as well.
_UNDO = move(
    State.TBDL,
    Event.OPERATION_CANCELLED,
    State.NDLV,
    chosen=str(
        named_sql(
            """
    SELECT message.id, coalesce(former.id, message.address_id) AS former_address_id, message.address_id, message.state,
           message.reason, message.group_id, message.original_address_id,
           undecided.reason AS former_reason, undecided.at AS former_at,
           here.name AS from_name, former.name AS to_name, lane.id AS former_lane_id, former.queue AS to_queue,
           reset_failures, reset_crashes, reset_origin, has_begun
    FROM ({waiting}) AS message
         JOIN address AS here ON here.id = message.address_id
         LEFT JOIN LATERAL (
             SELECT address.id, address.name, (
                 SELECT queue FROM hop AS came WHERE came.message_id = message.id AND came.id < hop.id
                 ORDER BY came.id DESC LIMIT 1) AS queue
             FROM hop JOIN address ON address.name = hop.from_address
             WHERE hop.message_id = message.id AND hop.times IS NULL AND address.id <> message.address_id
               AND CASE WHEN has_begun THEN hop.at = message.at AND hop.to_address = here.name
                        ELSE hop.at >= message.at END
             ORDER BY hop.id LIMIT 1
         ) AS former ON TRUE
         LEFT JOIN LATERAL (
             SELECT reason, at FROM history
             WHERE message_id = message.id AND to_state = 'NDLV' AND from_state IS DISTINCT FROM 'NDLV'
               AND event <> 'operation_cancelled' ORDER BY seq DESC LIMIT 1
         ) AS undecided ON TRUE
         JOIN lane ON lane.address_id = coalesce(former.id, message.address_id) AND lane.is_plain
""",
            waiting=_WAITING,
        )
    ),
    sets={
        "reason": "former_reason",
        "state_at": "coalesce(former_at, now())",  # it has waited for a decision since then
        "failure_count": "CASE WHEN has_begun THEN message.failure_count ELSE coalesce(reset_failures, 0) END",
        "candidate": "message.candidate OR reset_crashes IS NOT NULL AND NOT has_begun",
        "crash_count": """CASE WHEN reset_crashes IS NULL OR has_begun THEN message.crash_count
                               ELSE reset_crashes END""",
        "address_id": "former_address_id",
        "lane_id": "former_lane_id",
        "original_address_id": """CASE WHEN has_begun AND former_address_id = message.address_id
                                       THEN message.original_address_id ELSE reset_origin END""",
    },
    parts=StatementParts(
        shows=("from_name", "to_name", "to_queue", "has_begun"),
        beside="""hops AS (
    INSERT INTO hop (message_id, from_address, to_address, queue, reason, by)
    SELECT id, from_name, to_name, to_queue, 'operation_cancelled', %(actor)s FROM changed WHERE to_name IS NOT NULL
), restarts AS (
    UPDATE restart SET times = times - 1 FROM changed, operation
    WHERE operation.id = %(operation)s AND restart.restart_job_id = operation.restart_job_id
      AND restart.message_id = changed.id AND NOT has_begun
)""",
        is_decision=True,
    ),
)
# Those that a canary has tried are in any piece.
_OF_PIECE = """
SELECT message.id
FROM (
    SELECT unnest(message_ids) AS id FROM selection_piece WHERE selection_id = %(selection)s AND number = %(number)s
    UNION
    SELECT unnest(canary) FROM operation WHERE id = %(operation)s AND %(number)s = 0
) AS member JOIN message USING (id)
WHERE message.state = 'TBDL' AND message.operation_id = %(operation)s
"""


def undo(operation: Operation) -> None:
    """Bring what waits for a delivery by this operation back to NDLV. Call outside a transaction.

    What is under way ends; what of it is to be tried again comes back with the next call.
    """
    # The last of these pieces is one that a patch is in the middle of.
    for number in range(operation.pieces + 1):
        values: dict[str, Any] = {"operation": operation.id, "selection": operation.selection_id, "number": number}
        ids = fetch_values(_OF_PIECE, values)
        for start in range(0, len(ids), MESSAGES_A_TRANSACTION):
            retried(partial(_undo, operation, ids[start : start + MESSAGES_A_TRANSACTION]))


def _undo(operation: Operation, ids: Sequence[int]) -> None:
    actor = operation.requested_by
    values: dict[str, Any] = {"operation": operation.id, "ids": ids, "actor": actor, "note": operation.reason}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK, values)
        alone = [row[0] for row in cursor.fetchall()]
        schedule.ensure_lanes(cursor, alone, operation_id=None, is_isolation=True)
        cursor.execute(_LEAVE, values)
        lanes = cursor.fetchall()
        if operation.action == OperationAction.PATCH:
            payload_versions.put_back(cursor, ids, actor=actor, operation_id=operation.id)
        cursor.execute(_BEGUN, values)
        cursor.execute(_UNDO, values)
        schedule.schedule(cursor, lanes)


def put_back(operation: Operation) -> None:
    """Put back what the operation had taken away so that its members could be delivered, once none of them waits or is
    under way. Call outside a transaction."""
    while retried(partial(_put_back, operation)):
        pass


def _put_back(operation: Operation) -> bool:
    with transaction.atomic(), connection.cursor() as cursor:
        return exclude_again(cursor, operation.id, actor=operation.requested_by, note=operation.reason)
