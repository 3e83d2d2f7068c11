"""One message in, through the API."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.addresses.commands import AddressRef, ensure_addresses
from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.core.queries.read_only import require_writable
from poisonadmin.groups.commands import failure_groups
from poisonadmin.groups.domain import failures
from poisonadmin.intake.domain.envelope import MessageEnvelope
from poisonadmin.intake.domain.staged_rows import headers_json
from poisonadmin.messages.commands import schedule
from poisonadmin.messages.commands.admission import refuse_excluded
from poisonadmin.messages.commands.oversize import sizes
from poisonadmin.messages.commands.transitions import ChosenRows, StatementParts, enter
from poisonadmin.messages.domain.business_keys import extract, parsed_keys
from poisonadmin.messages.domain.states import Event, Reason, State, check
from poisonadmin.policies.queries import policy_index


class MessageIdConflict(PoisonAdminError):
    """Raised when the address has a message of this id already, with another body. The first one stays as it is."""

    code = "message_id_conflict"
    status = 409


@dataclass(frozen=True)
class Accepted:
    """`created` False: the same message was here already."""

    id: int
    created: bool


# Envelope and body of a message whose (address, message_id) is free: `stored` has its id, or is empty.
_STORED = """stored AS (
    INSERT INTO envelope (id, intake_address_id, message_id, conversation_id, bookmark, content_type, payload_bytes,
                          expires_at, received_by)
    VALUES (nextval(pg_get_serial_sequence('message', 'id')), %(address)s, %(message_id)s, %(conversation_id)s,
            %(bookmark)s, %(content_type)s, length(%(payload)s::bytea), %(expires_at)s, %(received_by)s)
    ON CONFLICT (intake_address_id, message_id) DO NOTHING RETURNING id
), bytes AS (
    INSERT INTO body (id, headers, payload) SELECT id, %(headers)s, %(payload)s FROM stored
)"""

_INSERT = enter(
    "%(event)s",
    None,
    columns={
        "id": "id",
        "address_id": "%(address)s",
        "lane_id": "%(lane)s",
        "state": "%(state)s",
        "reason": "%(reason)s",
        "due_at": "CASE WHEN %(state)s = 'TBDL' THEN now() END",
        "expires_at": "CASE WHEN %(state)s = 'TBDL' THEN %(expires_at)s::timestamptz END",
        "failure_count": "%(failure_count)s",
        "failed_at": "%(failed_at)s",
        "original_address_id": "%(original_address)s",
    },
    chosen=ChosenRows(
        "stored",
        before=_STORED,
    ),
    parts=StatementParts(
        shows=("due_at",),
        then="SELECT id, due_at FROM changed",
    ),
)

_SAME = """
SELECT envelope.id, NOT EXISTS (SELECT FROM removed_payload AS gone WHERE gone.message_id = envelope.id)
       AND coalesce(original.payload, body.payload) = %(payload)s
       AND coalesce(original.headers, body.headers) = %(headers)s AND content_type = %(content_type)s
       AND conversation_id IS NOT DISTINCT FROM %(conversation_id)s AND bookmark IS NOT DISTINCT FROM %(bookmark)s
FROM envelope JOIN body USING (id)
     LEFT JOIN payload_version AS original ON original.message_id = envelope.id AND original.number = 1
WHERE intake_address_id = %(address)s AND envelope.message_id = %(message_id)s
"""


def accept(envelope: MessageEnvelope, *, principal: Principal, received_by: str) -> Accepted:
    """Take one message in: TBDL and due now, NDLV `imported` where it is a dead letter, `oversized` where it is too
    large for its address.

    The same (address, message_id) with the same body again changes nothing and returns the first one.
    Errors: `NotAllowed`, `ReadOnly`, `NotFound` (out of scope), `InvalidAddress`, `MessageIdConflict`.
    """
    principal.require(Permission.INGEST)
    require_writable()
    original = envelope.dead_letter.original_address if envelope.dead_letter else None
    for name in filter(None, (envelope.address, original)):
        if not principal.sees(name):
            raise NotFound(f"There is no address {name}.")
    with transaction.atomic(), connection.cursor() as cursor:
        addresses = ensure_addresses(filter(None, (envelope.address, original)))
        values = _values(envelope, addresses, actor=principal.name, received_by=received_by)
        created = _stored(cursor, envelope, values)
        if created is None:
            cursor.execute(_SAME, values)
            first, is_same = cursor.fetchone()
        elif values["state"] == State.TBDL:
            refuse_excluded(cursor, [created[0]], actor=principal.name)
            schedule.schedule(cursor, [(values["lane"], created[1])])
    if created:
        return Accepted(created[0], created=True)
    if is_same:
        return Accepted(first, created=False)
    audit.record(principal.name, "message.id_conflict", "message", str(first), details={"address": envelope.address})
    raise MessageIdConflict(
        f"{envelope.address} has a message {envelope.message_id!r} with another body already (id {first})."
    )


def store_listed(cursor: CursorWrapper, envelope: MessageEnvelope, *, actor: str) -> int | None:
    """Store a dead letter that a consumer reported as NDLV `listed`, with its failure as attempt 0.

    Return its id; None where somebody else has stored it meanwhile.
    """
    addresses = ensure_addresses([envelope.address])
    values = _values(envelope, addresses, actor=actor, received_by=actor, imported=Reason.LISTED)
    created = _stored(cursor, envelope, values)
    return None if created is None else created[0]


def _stored(cursor: CursorWrapper, envelope: MessageEnvelope, values: Mapping[str, Any]) -> tuple[int, Any] | None:
    """Return the id of the message and when it is due; None where its (address, message_id) is taken."""
    cursor.execute(_INSERT, values)
    created: tuple[int, Any] | None = cursor.fetchone()
    if created is not None:
        _write_keys(cursor, created[0], envelope)
        if envelope.dead_letter:
            _import_failure(cursor, created[0], envelope, actor=values["actor"])
    return created


def _values(
    envelope: MessageEnvelope,
    addresses: Mapping[str, AddressRef],
    *,
    actor: str,
    received_by: str,
    imported: Reason = Reason.IMPORTED,
) -> dict[str, Any]:
    dead = envelope.dead_letter
    here = addresses[envelope.address]
    event = Event.IMPORTED if dead else Event.ENQUEUED
    state, reason, note = _beginning(envelope, here, imported)
    check(None, event, state, reason)
    return {
        "address": here.id,
        "lane": here.lane_id,
        "message_id": envelope.message_id or uuid.uuid4().hex,
        "conversation_id": envelope.conversation_id,
        "bookmark": envelope.bookmark,
        "content_type": envelope.content_type,
        "payload": envelope.payload,
        "headers": headers_json(envelope.headers),
        "received_by": received_by,
        "expires_at": envelope.expires_at,
        "state": str(state),
        "reason": reason and str(reason),
        "event": str(event),
        "failure_count": (dead.delivery_count or 0) if dead else 0,
        "failed_at": (dead.failed_at or datetime.now(UTC)) if dead else None,
        "original_address": addresses[dead.original_address].id if dead and dead.original_address else None,
        "actor": actor,
        "note": note,
    }


def _beginning(
    envelope: MessageEnvelope, here: AddressRef, imported: Reason
) -> tuple[State, Reason | None, str | None]:
    """Return the state, reason and note that a message begins with; `imported`: the reason of a dead letter."""
    if envelope.dead_letter:
        return State.NDLV, imported, envelope.dead_letter.reason
    size = len(envelope.payload)
    if size > here.max_payload_bytes:
        return State.NDLV, Reason.OVERSIZED, sizes(size, envelope.address, here.max_payload_bytes)
    return State.TBDL, None, None


_WRITE_KEYS = """
INSERT INTO business_key (message_id, name, value)
SELECT %(id)s, name, value FROM unnest(%(names)s::text[], %(values)s::text[]) AS found (name, value)
"""


def _write_keys(cursor: CursorWrapper, message_id: int, envelope: MessageEnvelope) -> None:
    """Write the business keys of a message that was just taken in; a policy that changes later leaves them."""
    keys = parsed_keys(policy_index().resolve(envelope.address).policy.business_keys)
    if keys and (found := extract(keys, envelope.payload, envelope.headers, loads=orjson.loads)):
        cursor.execute(_WRITE_KEYS, {"id": message_id, "names": list(found), "values": list(found.values())})


_IMPORT_ATTEMPT = """
INSERT INTO attempt (message_id, attempt_number, finished_at, outcome, error_class, error_message, stack, fingerprint,
                     title)
SELECT id, 0, failed_at, 'imported', %(error_class)s, %(error_message)s, %(stack)s, %(fingerprint)s, %(title)s
FROM message WHERE id = %(id)s
RETURNING finished_at, (SELECT address_id FROM message WHERE id = message_id)
"""

_HOP = """
INSERT INTO hop (message_id, from_address, to_address, reason, by, at)
SELECT %(id)s, %(original)s, %(address)s, %(reason)s, %(actor)s, %(at)s
"""

_JOIN_GROUP = """
WITH joined AS (
    UPDATE message SET group_id = %(group)s WHERE id = %(id)s RETURNING address_id, state, reason, original_address_id
)
INSERT INTO counter_delta (address_id, state, reason, group_id, original_address_id, delta)
SELECT address_id, state, reason, NULL::bigint, original_address_id, -1 FROM joined
UNION ALL SELECT address_id, state, reason, %(group)s, original_address_id, 1 FROM joined
"""


def _import_failure(cursor: CursorWrapper, message_id: int, envelope: MessageEnvelope, *, actor: str) -> None:
    """Write the failure that a dead letter had before import as attempt 0, and put the message in its group."""
    dead = envelope.dead_letter
    assert dead is not None
    failure = failures.from_dead_letter(
        {
            "reason": dead.reason,
            "exception_class": dead.exception_class,
            "exception_message": dead.exception_message,
            "stack": dead.stack,
        }
    )
    values: dict[str, Any] = {
        "id": message_id,
        "error_class": failure.exception_class,
        "error_message": failure.message,
        "stack": failure.stack or None,
        "fingerprint": failures.fingerprint(failure),
        "title": failures.title(failure)[:300],
    }
    cursor.execute(_IMPORT_ATTEMPT, values)
    failed_at, address_id = cursor.fetchone()
    if dead.original_address not in (None, envelope.address):
        hop: dict[str, Any] = {
            "id": message_id,
            "original": dead.original_address,
            "address": envelope.address,
            "at": failed_at,
        }
        cursor.execute(_HOP, hop | {"reason": dead.reason or "imported", "actor": actor})
    seen = failure_groups.Seen(
        values["fingerprint"], values["title"], failure.exception_class, message_id, address_id, failed_at, failed_at
    )
    group = failure_groups.ensure(cursor, [seen])[seen.fingerprint]
    cursor.execute(_JOIN_GROUP, {"id": message_id, "group": group})
