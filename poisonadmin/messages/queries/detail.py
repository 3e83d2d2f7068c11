"""One message: what is known of it, and its bytes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.paging import MAX_ID
from poisonadmin.core.queries.rows import fetch_one
from poisonadmin.core.queries.stored_bytes import StoredBytes, stored_bytes
from poisonadmin.messages.queries.lists import COLUMNS, JOINS, MessageRow
from poisonadmin.sources.domain.broker_kinds import BROKERS


@dataclass(frozen=True)
class MessageDetail(MessageRow):
    """All of a message but its payload. `destination` is where its address delivers, None for a parking address.

    Of a message that was moved: `queue` is the one that was auto-created for it where it is now, `origin` the
    properties that say where it comes from. `tags` are those that content rules have put on it.
    `delivered_to`: `broker` when a broker has taken it and the consumer behind it has not said that it has processed
    it, `consumer` when that one has, or took it itself; None unless it is DLVD. `confirm_by`: after that time its
    confirmation is overdue.
    """

    intake_address: str
    bookmark: str | None
    received_by: str
    parent_id: int | None
    address_status: str
    destination: str | None
    queue: str | None
    origin: Mapping[str, str]
    header_bytes: bytes
    tags: Sequence[str]
    delivered_to: str | None
    confirm_by: datetime | None
    confirmed_at: datetime | None
    confirmed_by: str | None
    confirmation_note: str | None

    @property
    def headers(self) -> dict[str, Any]:
        """The producer's headers; empty when they cannot be read."""
        try:
            found = json.loads(bytes(self.header_bytes))
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


# The last move, while the message is where it has put it, and has not come home by it.
_LAST_MOVE = """LEFT JOIN LATERAL (
    SELECT hop.id, hop.from_address, hop.to_address, hop.queue, hop.reason FROM hop WHERE hop.message_id = m.id
    ORDER BY hop.id DESC LIMIT 1
) AS last ON last.to_address = a.name AND o.name <> a.name"""
# As the child of such a move carries them in its headers (operations/dead_letters.py).
_ORIGIN = """CASE WHEN last.id IS NOT NULL THEN jsonb_strip_nulls(jsonb_build_object(
    '_AMQ_ORIG_ADDRESS', last.from_address,
    '_AMQ_ORIG_QUEUE', coalesce((SELECT earlier.queue FROM hop AS earlier WHERE earlier.message_id = m.id
        AND earlier.id < last.id AND earlier.to_address = last.from_address ORDER BY earlier.id DESC LIMIT 1),
        last.from_address),
    '_AMQ_ORIG_MESSAGE_ID', e.message_id,
    'MQDLH_Reason', CASE WHEN last.reason LIKE 'MQRC%%' THEN last.reason END)) END"""

_CONFIRMATION = """LEFT JOIN confirmation c
 ON c.message_id = m.id AND c.attempt_number = m.attempt_number AND m.state = 'DLVD'"""
_DELIVERED_TO = """CASE WHEN m.state <> 'DLVD' THEN NULL WHEN c.confirmed_at IS NULL AND EXISTS (
    SELECT FROM attempt t JOIN destination s ON s.id = t.destination_id AND s.kind = ANY(%s)
    WHERE t.message_id = m.id AND t.attempt_number = m.attempt_number) THEN 'broker' ELSE 'consumer' END"""


@dataclass(frozen=True)
class _AddressName:
    address: str


def get_message(message_id: int, *, principal: Principal) -> MessageDetail:
    """Return the message; raise NotFound."""
    principal.require(Permission.READ)
    found = None
    if 0 < message_id <= MAX_ID:
        found = fetch_one(
            MessageDetail,
            f"SELECT {COLUMNS}, i.name AS intake_address, e.bookmark, e.received_by, e.parent_id,"  # noqa: S608
            " a.status AS address_status, d.name AS destination, b.headers AS header_bytes, last.queue,"
            f" coalesce({_ORIGIN}, '{{}}') AS origin,"
            " coalesce((SELECT tags FROM message_tag WHERE message_id = m.id), '{}') AS tags,"
            f" {_DELIVERED_TO} AS delivered_to, c.confirm_by, c.confirmed_at, c.confirmed_by,"
            " c.note AS confirmation_note"
            f" FROM message m {JOINS} JOIN address i ON i.id = e.intake_address_id JOIN body b ON b.id = m.id"
            f" LEFT JOIN destination d ON d.id = a.destination_id {_LAST_MOVE} {_CONFIRMATION} WHERE m.id = %s",
            [list(BROKERS), message_id],
        )
    if found is None or not principal.sees(found.address):
        raise NotFound(f"There is no message {message_id}.")
    return found


def payload(message_id: int, *, principal: Principal) -> StoredBytes:
    """Return the payload, the bytes as they came in, to be read slice by slice; raise NotFound."""
    principal.require(Permission.READ_PAYLOAD)
    require_message(message_id, principal=principal)
    found = stored_bytes("body", "payload", message_id)
    if found is None:
        raise NotFound(f"There is no message {message_id}.")
    return found


def payload_start(message_id: int, *, principal: Principal, most_bytes: int) -> bytes:
    """Return at most the first `most_bytes` of the payload, for a page; raise NotFound."""
    principal.require(Permission.READ_PAYLOAD)
    require_message(message_id, principal=principal)
    found = fetch_one(
        _Start, "SELECT substring(payload for %s) AS start FROM body WHERE id = %s", [most_bytes, message_id]
    )
    return bytes(found.start) if found else b""


@dataclass(frozen=True)
class _Start:
    start: bytes


def require_message(message_id: int, *, principal: Principal) -> None:
    """Do nothing when the message is there and in scope; raise NotFound otherwise."""
    found = None
    if 0 < message_id <= MAX_ID:
        found = fetch_one(
            _AddressName,
            "SELECT a.name AS address FROM message m JOIN address a ON a.id = m.address_id WHERE m.id = %s",
            [message_id],
        )
    if found is None or not principal.sees(found.address):
        raise NotFound(f"There is no message {message_id}.")
