"""Messages that a settle makes of others: children under dead-letter addresses, errors of ended conversations."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from django.db.backends.utils import CursorWrapper

from poisonadmin.addresses.commands import ensure_addresses
from poisonadmin.core.queries.sql import named_sql, raw
from poisonadmin.messages.commands.transitions import ChosenRows, StatementParts, enter
from poisonadmin.messages.domain.states import Event, State
from poisonadmin.policies.domain.retry_decision import RetryDecision

_BY_LANE = StatementParts(shows=("lane_id", "due_at"), then="SELECT lane_id, min(due_at) FROM changed GROUP BY lane_id")

_HOPS = """
INSERT INTO hop (message_id, from_address, to_address, queue, reason, by)
SELECT * FROM unnest(%(ids)s::bigint[], %(froms)s::text[], %(tos)s::text[], %(queues)s::text[], %(reasons)s::text[],
                     %(bys)s::text[])
"""

# Of the moves that a message has made by itself since a person last sent it on.
_SINCE_DECIDED = raw("""hop.times IS NULL AND hop.at > coalesce((
        SELECT max(history.at) FROM history
        WHERE history.message_id = hop.message_id AND from_state = 'NDLV' AND to_state = 'TBDL'), '-infinity')""")
_LEFT = named_sql(
    """
SELECT message_id, array_agg(from_address ORDER BY id) FROM hop WHERE message_id = ANY(%(ids)s) AND {since_decided}
GROUP BY message_id
""",
    since_decided=_SINCE_DECIDED,
)

# The child carries where it comes from, as Artemis stamps it (ART-11): the queue is the one that it was in,
# an address without queues being one itself. Its id at the producer is the parent's with ours behind it, since the
# dead-letter address may get the same message again. Its moves go on from the parent's, so that a circle is noticed.
_CHILDREN = enter(
    Event.ENQUEUED,
    State.TBDL,
    columns={"id": "child_id", "address_id": "target_id", "lane_id": "lane_id", "due_at": "now()"},
    chosen=ChosenRows(
        "parent",
        before=str(
            named_sql(
                """parent AS (
    SELECT envelope.*, body.headers, body.payload, body.transport, moved.from_address, moved.code,
           target.id AS target_id, lane.id AS lane_id, nextval(pg_get_serial_sequence('message', 'id')) AS child_id,
           (SELECT hop.queue FROM hop WHERE hop.message_id = moved.id AND hop.to_address = moved.from_address
            ORDER BY hop.id DESC LIMIT 1) AS own_queue
    FROM unnest(%(ids)s::bigint[], %(froms)s::text[], %(tos)s::text[], %(codes)s::text[])
         AS moved (id, from_address, to_address, code)
    JOIN envelope USING (id) JOIN body USING (id)
    JOIN address AS target ON target.name = moved.to_address AND target.destination_id IS NOT NULL
    JOIN lane ON lane.address_id = target.id AND lane.is_plain
), stored AS (
    INSERT INTO envelope (id, intake_address_id, message_id, conversation_id, bookmark, content_type, payload_bytes,
                          received_by, parent_id)
    SELECT child_id, target_id, left(message_id, 200) || '#' || child_id, conversation_id, bookmark, content_type,
           payload_bytes, 'dead letter of ' || id, id FROM parent
), bytes AS (
    INSERT INTO body (id, headers, payload, transport)
    SELECT child_id, convert_to((convert_from(headers, 'UTF8')::jsonb || jsonb_strip_nulls(jsonb_build_object(
               '_AMQ_ORIG_ADDRESS', from_address, '_AMQ_ORIG_QUEUE', coalesce(own_queue, from_address),
               '_AMQ_ORIG_MESSAGE_ID', message_id, 'MQDLH_Reason', code)))::text, 'UTF8'), payload, transport
    FROM parent
), keys AS (
    INSERT INTO business_key (message_id, name, value)
    SELECT child_id, business_key.name, business_key.value
    FROM parent JOIN business_key ON business_key.message_id = parent.id
), moves AS (
    INSERT INTO hop (message_id, from_address, to_address, reason, by)
    SELECT child_id, hop.from_address, hop.to_address, hop.reason, hop.by
    FROM parent JOIN hop ON hop.message_id = parent.id AND {since_decided} ORDER BY hop.id
)""",
                since_decided=_SINCE_DECIDED,
            )
        ),
    ),
    parts=_BY_LANE,
)


def addresses_left(cursor: CursorWrapper, message_ids: Sequence[int]) -> dict[int, list[str]]:
    """Return the addresses that each message was moved away from since a person last decided on it, in their order."""
    if not message_ids:
        return {}
    cursor.execute(str(_LEFT), {"ids": list(message_ids)})
    return dict(cursor.fetchall())


def record_moves(cursor: CursorWrapper, moves: Sequence[tuple[int, str, RetryDecision]]) -> list[tuple[int, datetime]]:
    """Append a hop for each (message id, address it was on, decision that moves it), and enqueue the children due.

    Shape: (lane, due_at) of the children, for the caller to wake.
    """
    if not moves:
        return []
    cursor.execute(_HOPS, _values(moves))
    parents = [move for move in moves if move[2].create_child]
    if not parents:
        return []
    cursor.execute(_CHILDREN, _values(parents))
    return list(cursor.fetchall())


def _values(moves: Sequence[tuple[int, str, RetryDecision]]) -> dict[str, Any]:
    return {
        "ids": [message_id for message_id, _, _ in moves],
        "froms": [from_address for _, from_address, _ in moves],
        "tos": [decision.move_to for _, _, decision in moves],
        "queues": [decision.queue for _, _, decision in moves],
        "reasons": [decision.reason_code or str(decision.reason or decision.event) for _, _, decision in moves],
        "codes": [decision.reason_code for _, _, decision in moves],
        "bys": ["system"] * len(moves),
        "actor": "system",
        "note": None,
    }


@dataclass(frozen=True)
class ConversationError:
    """The end of a conversation with an error, by the attempt `attempt_number` of the message `message_id`."""

    to_address: str
    message_id: int
    attempt_number: int
    conversation_id: str
    code: int
    description: str


_ENQUEUE = enter(
    Event.ENQUEUED,
    State.TBDL,
    columns={"id": "error_id", "address_id": "target_id", "lane_id": "lane_id", "due_at": "now()"},
    chosen=ChosenRows(
        "made",
        before="""made AS (
    SELECT ended.*, target.id AS target_id, lane.id AS lane_id,
           nextval(pg_get_serial_sequence('message', 'id')) AS error_id
    FROM unnest(%(tos)s::text[], %(ids)s::bigint[], %(keys)s::text[], %(conversations)s::text[], %(payloads)s::bytea[])
         AS ended (to_address, cause_id, key, conversation_id, payload)
    JOIN address AS target ON target.name = ended.to_address
    JOIN lane ON lane.address_id = target.id AND lane.is_plain
), stored AS (
    INSERT INTO envelope (id, intake_address_id, message_id, conversation_id, content_type, payload_bytes, received_by,
                          parent_id)
    SELECT error_id, target_id, key, conversation_id, 'application/json', length(payload), 'system', cause_id FROM made
), bytes AS (
    INSERT INTO body (id, headers, payload) SELECT error_id, '{}', payload FROM made
)""",
    ),
    parts=_BY_LANE,
)


def enqueue_errors(cursor: CursorWrapper, errors: Sequence[ConversationError]) -> list[tuple[int, datetime]]:
    """Enqueue `{conversation_id, code, description}` for each; return (lane, due_at), for the caller to schedule."""
    if not errors:
        return []
    ensure_addresses({one.to_address for one in errors})
    values: dict[str, Any] = {
        "tos": [one.to_address for one in errors],
        "ids": [one.message_id for one in errors],
        "keys": [f"conversation-error-{one.message_id}-{one.attempt_number}" for one in errors],
        "conversations": [one.conversation_id for one in errors],
        "payloads": [
            orjson.dumps({"conversation_id": one.conversation_id, "code": one.code, "description": one.description})
            for one in errors
        ],
        "actor": "system",
        "note": None,
    }
    cursor.execute(_ENQUEUE, values)
    return list(cursor.fetchall())
