"""An archived message is live again, with all its rows and its id, and waits for a decision."""

import time
from functools import partial
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.addresses.commands import ensure_addresses
from poisonadmin.archive.commands.figures import take_off
from poisonadmin.archive.commands.ownership import require_own_archive
from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.sql import name, named_sql, names, raw
from poisonadmin.messages.commands.transitions import StatementParts, enter, stale_heads
from poisonadmin.messages.domain.attempt import ATTEMPT_COLUMNS
from poisonadmin.messages.domain.states import Event, Reason, State
from poisonadmin.messages.queries.archived_index import rows_of
from poisonadmin.messages.queries.message_rows import require_message

WAIT_SECONDS = 3.0

_TAKE = "DELETE FROM archived_message WHERE id = %s RETURNING piece_id, id, address_id, state, state_at"
_ENVELOPE = """
INSERT INTO envelope (id, intake_address_id, message_id, conversation_id, bookmark, content_type, payload_bytes,
                      expires_at, received_at, received_by, parent_id)
SELECT %(id)s, address.id, %(message_id)s, %(conversation_id)s, %(bookmark)s, %(content_type)s, %(payload_bytes)s,
       %(expires_at)s, %(received_at)s, %(received_by)s, %(parent_id)s
FROM address WHERE name = %(intake_address)s
"""
_BODY = """
INSERT INTO body (id, headers, payload, transport)
VALUES (%(id)s, convert_to(%(headers)s, 'UTF8'), %(payload)s, %(transport)s)
"""
_ENTER = enter(
    Event.RESTORED_FROM_ARCHIVE,
    State.NDLV,
    reason=Reason.FROM_ARCHIVE,
    columns={
        "id": "%(id)s",
        "address_id": "address.id",
        "lane_id": "lane.id",
        "attempt_number": "%(attempt_number)s",
        "failure_count": "%(failure_count)s",
        "crash_count": "%(crash_count)s",
        "candidate": "%(candidate)s",
        "failed_at": "%(failed_at)s::timestamptz",
        "group_id": "(SELECT id FROM failure_group WHERE fingerprint = %(fingerprint)s)",
        "original_address_id": "(SELECT id FROM address WHERE name = %(original_address)s)",
    },
    chosen="""address JOIN lane ON lane.address_id = address.id AND lane.is_plain
              WHERE address.name = %(address)s""",
    parts=StatementParts(beside=str(stale_heads())),
)
_ATTEMPT_COLUMNS = [column.name for column in ATTEMPT_COLUMNS]
_ATTEMPT = str(
    named_sql(
        """INSERT INTO attempt ({columns}) VALUES ({values})
        ON CONFLICT (message_id, attempt_number) DO NOTHING""",
        columns=names(_ATTEMPT_COLUMNS),
        values=raw(", ".join(f"%({column})s" for column in _ATTEMPT_COLUMNS)),
    )
)
_HISTORY = """
INSERT INTO history (message_id, seq, from_state, to_state, event, reason, attempt_number, actor, note, operation_id,
                     at)
VALUES (%(message_id)s, %(seq)s, %(from_state)s, %(to_state)s, %(event)s, %(reason)s, %(attempt_number)s, %(actor)s,
        %(note)s, %(operation_id)s, %(at)s)
"""
_RESULT = """
INSERT INTO operation_result (operation_id, message_id, outcome, code, detail, group_id, failed_group_id, at)
VALUES (%(operation_id)s, %(message_id)s, %(outcome)s, %(code)s, %(detail)s, %(group_id)s, %(failed_group_id)s, %(at)s)
ON CONFLICT DO NOTHING
"""
# The operations' ledgers count the rows instead.
_COUNT_OFF = """
UPDATE archived_result SET n = n - 1, message_ids = array_remove(message_ids, %(message)s::bigint)
WHERE piece_id = %(piece)s AND %(message)s = ANY(message_ids)
"""
_EXTRA_KINDS = ("hop", "payload_version", "confirmation")
_INSERT_EXTRA = partial(named_sql, "INSERT INTO {kind} SELECT * FROM jsonb_populate_record(NULL::{kind}, %s::jsonb)")
_EXTRA = {kind: str(_INSERT_EXTRA(kind=name(kind))) for kind in _EXTRA_KINDS}
_ANNOTATION = """
INSERT INTO annotation (message_id, owner_id, tags, note)
SELECT %(id)s, (SELECT id FROM auth_user WHERE username = %(owner)s),
       ARRAY(SELECT jsonb_array_elements_text(%(tags)s::jsonb)), %(note)s
"""


class TablesInUse(PoisonAdminError):
    """Raised when a report or a search has been reading the archive for some seconds; try again in a while."""

    code = "tables_in_use"
    status = 409

    def __init__(self) -> None:
        super().__init__("A report or a search is reading the archive just now; try again in a while.")


class NotArchived(PoisonAdminError):
    """Raised when a message that is to be restored is live."""

    code = "not_archived"
    status = 409

    def __init__(self, message_id: int) -> None:
        super().__init__(f"Message {message_id} is not archived; there is nothing to restore.")


class IdTaken(PoisonAdminError):
    """Raised when another message with the same message id was taken in at the address since."""

    code = "message_id_taken"
    status = 409

    def __init__(self, message_id: str, address: str) -> None:
        super().__init__(f"Another message {message_id!r} was taken in at {address} since this one was archived.")


def restore_from_archive(message_id: int, *, reason: str, principal: Principal) -> None:
    """Make an archived message live: NDLV, `from_archive`, with its bytes, attempts, history and id.

    Errors: `NotAllowed`, `NotFound`, `MessageErased`, `NotArchived`, `ForeignArchive`, `ArchiveUnreadable`,
    `TablesInUse`, `IdTaken`.
    """
    principal.require(Permission.DECIDE)
    if require_message(message_id, principal.as_reader, Permission.READ):
        raise NotArchived(message_id)
    require_own_archive()
    with transaction.atomic(), connection.cursor() as cursor:
        _alone(cursor)
        cursor.execute(_TAKE, [message_id])
        if (found := cursor.fetchone()) is None:
            raise NotArchived(message_id)
        piece_id, *archived = found
        rows = {table: rows_of(message_id, table, piece_id=piece_id, is_checked=True) for table in _TABLES}
        message = rows["messages"][0]
        ensure_addresses([one for one in (message[field] for field in _ADDRESSES) if one is not None])
        cursor.execute("INSERT INTO archive_left_out (piece_id, message_id) VALUES (%s, %s)", [piece_id, message_id])
        _write(cursor, message, rows, {"actor": principal.name, "note": reason})
        cursor.execute("DELETE FROM fingerprint_alias WHERE message_id = %s", [message_id])
        cursor.execute(_COUNT_OFF, {"piece": piece_id, "message": message_id})
        # They are counted once more when it is archived once more.
        take_off(cursor, dict(zip(_FIGURED, archived, strict=True)))
        audit.record(principal.name, "message.restored_from_archive", "message", str(message_id), note=reason)


_FIGURED = ("id", "address_id", "state", "state_at")
_TABLES = ("messages", "attempts", "history", "extras", "results")
_ADDRESSES = ("address", "original_address", "intake_address")


def _alone(cursor: CursorWrapper) -> None:
    """Hold the tables alone, so that no reader finds the message twice or not at all; raise TablesInUse."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s, 0)", [Lock.TABLES])
        if cursor.fetchone()[0]:
            return
        if time.monotonic() >= until:
            raise TablesInUse
        time.sleep(0.1)


def _write(
    cursor: CursorWrapper, message: dict[str, Any], rows: dict[str, list[dict[str, Any]]], decision: dict[str, Any]
) -> None:
    try:
        with transaction.atomic():
            cursor.execute(_ENVELOPE, message)
    except IntegrityError as error:
        raise IdTaken(message["message_id"], message["intake_address"]) from error
    cursor.execute(_BODY, message)
    for row in rows["attempts"]:
        # A file has the columns that there were when it was written.
        cursor.execute(_ATTEMPT, {column.name: row.get(column.filed_as) for column in ATTEMPT_COLUMNS})
    for row in rows["history"]:
        cursor.execute(_HISTORY, row)
    for row in rows["results"]:
        cursor.execute(_RESULT, row)
    for row in rows["extras"]:
        cursor.execute(_EXTRA[row["kind"]], [row["row"]])
    if message["owner"] or message["tags"] or message.get("note"):
        cursor.execute(_ANNOTATION, {"note": ""} | message)
    cursor.execute(_ENTER, message | decision)
