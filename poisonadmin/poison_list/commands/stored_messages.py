"""The stored side of the poison list: the messages on an address that have a bookmark."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django.db.backends.utils import CursorWrapper

from poisonadmin.addresses.commands import ensure_addresses
from poisonadmin.intake.commands.accept import STORED, import_failure
from poisonadmin.intake.commands.business_keys import write_keys
from poisonadmin.intake.domain.envelope import MessageEnvelope
from poisonadmin.intake.domain.staged_rows import headers_json
from poisonadmin.messages.commands.transitions import ChosenRows, StatementParts, enter, move
from poisonadmin.messages.domain.states import Event, Reason, State

# As many as one report may set aside; a bookmark names one message, but nothing makes producers keep to that.
MAX_MESSAGES = 1_000

_BY_BOOKMARK = f"""
SELECT message.id FROM envelope JOIN message USING (id)
WHERE envelope.bookmark = %(bookmark)s AND message.address_id = (SELECT id FROM address WHERE name = %(source)s)
ORDER BY id DESC LIMIT {MAX_MESSAGES}
"""  # noqa: S608  (fragments are constants)
_BY_MESSAGE_ID = """
SELECT message.id FROM envelope JOIN message USING (id)
WHERE envelope.message_id = %(bookmark)s
  AND envelope.intake_address_id = (SELECT id FROM address WHERE name = %(source)s)
"""
_LOCK = "SELECT FROM message WHERE id = ANY(%s) ORDER BY id FOR UPDATE"

_LIST = move(
    State.TBDL,
    Event.LISTED,
    State.NDLV,
    reason=Reason.LISTED,
    chosen="SELECT id, address_id, state, reason, group_id FROM message WHERE id = ANY(%(ids)s) AND state = 'TBDL'",
)

# What was handed back and is reported again is the same message again (ruling R7).
_LIST_AGAIN = move(
    State.DLVD,
    Event.LISTED,
    State.NDLV,
    reason=Reason.LISTED,
    chosen="""SELECT id, address_id, state, reason, group_id FROM message
              WHERE id = ANY(%(ids)s) AND state = 'DLVD' AND reason = 'handed_back'""",
)

_STORE = enter(
    Event.IMPORTED,
    State.NDLV,
    reason=Reason.LISTED,
    columns={
        "id": "id",
        "address_id": "%(address)s",
        "lane_id": "%(lane)s",
        "failure_count": "0",
        "failed_at": "%(failed_at)s",
    },
    chosen=ChosenRows(
        "stored",
        before=STORED,
    ),
    parts=StatementParts(
        then="SELECT id FROM changed",
    ),
)


def messages_of(cursor: CursorWrapper, source: str, bookmark: str) -> list[int]:
    """Lock and return the messages that `bookmark` names on the address `source`, newest first.

    Those that carry it as their bookmark; else the one whose producer's id it is, wherever that one is now.
    """
    for query in (_BY_BOOKMARK, _BY_MESSAGE_ID):
        cursor.execute(query, {"source": source, "bookmark": bookmark})
        if found := [row[0] for row in cursor.fetchall()]:
            cursor.execute(_LOCK, [found])
            return found
    return []


def list_waiting(cursor: CursorWrapper, ids: Sequence[int], *, actor: str, note: str) -> None:
    """Move those of the messages, all locked, that wait, or were handed back to their consumers, to NDLV `listed`."""
    for statement in (_LIST, _LIST_AGAIN):
        cursor.execute(statement, {"ids": list(ids), "actor": actor, "note": note})


def store_listed(cursor: CursorWrapper, envelope: MessageEnvelope, *, actor: str) -> int | None:
    """Store a message that a consumer sent with its report as NDLV `listed`, with its failure as attempt 0.

    Return its id; None where somebody else has stored it meanwhile.
    """
    here = ensure_addresses([envelope.address])[envelope.address]
    dead = envelope.dead_letter
    assert dead is not None
    values: dict[str, Any] = {
        "address": here.id,
        "lane": here.lane_id,
        "message_id": envelope.message_id or uuid.uuid4().hex,
        "conversation_id": None,
        "bookmark": envelope.bookmark,
        "content_type": envelope.content_type,
        "payload": envelope.payload,
        "headers": headers_json(envelope.headers),
        "expires_at": None,
        "received_by": actor,
        "failed_at": dead.failed_at or datetime.now(UTC),
        "actor": actor,
        "note": dead.reason,
    }
    cursor.execute(_STORE, values)
    row = cursor.fetchone()
    if row is None:
        return None
    message_id: int = row[0]
    write_keys(cursor, message_id, envelope.address, envelope.payload, envelope.headers)
    import_failure(cursor, message_id, envelope, actor=actor)
    return message_id
