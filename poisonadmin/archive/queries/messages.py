"""Archived messages: which there are, by what they are found, and their rows, read from their files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from poisonadmin.archive.domain.place import path_of, within
from poisonadmin.archive.queries.files import files_of_pieces
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.core.queries.rows import MAX_ID, fetch_one, fetch_rows

_KEYS = {"messages": "id"}


class MessageErased(PoisonAdminError):
    """Raised when a message was erased; the text says when, by whom and why."""

    code = "erased"
    status = 410


class ArchiveUnreadable(PoisonAdminError):
    """Raised when a file of the archive cannot be read; an administrator has to look at the archive."""

    code = "archive_unreadable"
    status = 503

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"The archive's file {path} cannot be read: {why[:200]}. Check POISONADMIN_ARCHIVE.")


@dataclass(frozen=True)
class ArchivedRow:
    """By what an archived message is found. `piece_id`: whose files have its rows."""

    id: int
    piece_id: int
    address: str
    address_status: str
    state: str
    reason: str | None
    state_at: datetime
    received_at: datetime
    failed_at: datetime | None
    message_id: str


_ROW = """
SELECT r.id, r.piece_id, a.name AS address, a.status AS address_status, r.state, r.reason, r.state_at, r.received_at,
       r.failed_at, r.message_id
FROM archived_message r JOIN address a ON a.id = r.address_id WHERE r.id = %s
"""
_ERASED = """
SELECT a.name, m.erased_at, e.requested_by, e.reason
FROM erased_message m JOIN erasure e ON e.id = m.erasure_id JOIN address a ON a.id = m.address_id WHERE m.id = %s
"""
_FILES = """
SELECT path FROM archive_file
WHERE piece_id = %s AND table_name = %s AND is_current AND first_id <= %s AND last_id >= %s ORDER BY id
"""


def require_archived(message_id: int, principal: Principal) -> ArchivedRow:
    """Return the archived message; raise NotFound, MessageErased."""
    principal.require(Permission.READ)
    found = fetch_one(ArchivedRow, _ROW, [message_id]) if 0 < message_id <= MAX_ID else None
    if found is not None and principal.sees(found.address):
        return found
    erased = fetch_rows(_ERASED, [message_id]) if 0 < message_id <= MAX_ID else []
    for address, at, by, reason in erased:
        if principal.sees(address):
            raise MessageErased(f"Message {message_id} was erased on {at:%Y-%m-%d} by {by}: {reason}")
    raise NotFound(f"There is no message {message_id}.")


def rows_of(message_id: int, table: str, *, piece_id: int | None = None) -> list[dict[str, Any]]:
    """Return an archived message's rows of a table, as workers/spark/tables/columns.py names their columns.

    `piece_id`: its piece, where the caller knows it. Errors: `NotFound` when it is archived no more,
    `ArchiveUnreadable`.
    """
    if piece_id is None:
        found = fetch_rows("SELECT piece_id FROM archived_message WHERE id = %s", [message_id])
        if not found:
            raise NotFound(f"Message {message_id} is not archived.")
        piece_id = found[0][0]
    paths = [path for (path,) in fetch_rows(_FILES, [piece_id, table, message_id, message_id])]
    return [row for path in paths for row in _read(within(settings.ARCHIVE, path), table, [message_id])]


def values_of(pieces: Mapping[int, int], columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield `id` and these columns of archived messages, which are in pieces, by id. Errors: `ArchiveUnreadable`."""
    ids: dict[int, list[int]] = {}
    for message_id, piece_id in pieces.items():
        ids.setdefault(piece_id, []).append(message_id)
    for piece_id, some in ids.items():
        for path in files_of_pieces([piece_id], "messages"):
            yield from _read(path, "messages", some, ["id", *columns])


def _read(path: str, table: str, ids: Sequence[int], columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    # Here, so that a web process which shows no archived message does without Arrow's 60 MB.
    import pyarrow.dataset as ds
    from pyarrow import ArrowException, fs

    try:
        where, name = fs.FileSystem.from_uri(path) if "://" in path else (fs.LocalFileSystem(), path)
        wanted = ds.field(_KEYS.get(table, "message_id")).isin(ids)
        rows = ds.dataset(name, filesystem=where, format="parquet").to_table(filter=wanted, columns=columns)
        yield from rows.to_pylist()
    except (OSError, ArrowException) as error:
        raise ArchiveUnreadable(path_of(path), str(error)) from error
