"""Errors of ended conversations, enqueued where the other side looks for them (R6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from django.db.backends.utils import CursorWrapper

from poisonadmin.addresses.commands import ensure_addresses
from poisonadmin.messages.commands.transitions import ChosenRows, StatementParts, enter
from poisonadmin.messages.domain.states import Event, State


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
    parts=StatementParts(
        shows=("lane_id", "due_at"),
        then="SELECT lane_id, min(due_at) FROM changed GROUP BY lane_id",
    ),
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
