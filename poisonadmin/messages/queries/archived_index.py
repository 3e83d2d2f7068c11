"""Archived messages: which there are, by what they are found, and their rows, read from their files."""

import hashlib
import platform
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from typing import Any

from django.conf import settings

from poisonadmin.archive.domain.aliases import ALIASED, ALIASES, Aliases
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.archive_place import within
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.rows import fetch_one, fetch_rows, fetch_values
from poisonadmin.core.queries.sql import Sql, all_given

_KEYS = {"messages": "id"}


class MessageErased(PoisonAdminError):
    """Raised when a message was erased; the text says when, by whom and why."""

    code = "erased"
    status = 410


class ArchiveUnreadable(PoisonAdminError):
    """Raised when a file of the archive cannot be read; an administrator has to look at the archive."""

    code = "archive_unreadable"
    status = 503

    def __init__(self, path: str, why: str | Exception) -> None:
        cause = f"{platform.node()} has none" if isinstance(why, FileNotFoundError) else str(why)[:200]
        place = within(settings.ARCHIVE, path)
        super().__init__(f"The archive's file {place} cannot be read: {cause}. Check POISONADMIN_ARCHIVE.")


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
SELECT a.name, m.erased_at, e.requested_by, e.params ->> 'reason'
FROM erased_message m JOIN run e ON coalesce(e.former_id, e.id) = m.erasure_id AND e.kind = 'erase'
     JOIN address a ON a.id = m.address_id WHERE m.id = %s
"""
_FILES = """
SELECT path, sha256 FROM archive_file
WHERE piece_id = %s AND table_name = %s AND is_current AND first_id <= %s AND last_id >= %s ORDER BY id
"""
_READ_BYTES = 1024 * 1024

# Of each file those whose rows count there: of others it may have rows that do not.
_FILES_OF_SEVERAL = """
SELECT path, array_agg(r.id) FROM archived_message AS r JOIN archive_file AS f ON f.piece_id = r.piece_id
WHERE r.id = ANY(%s) AND table_name = %s AND is_current AND r.id BETWEEN first_id AND last_id GROUP BY path
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


def rows_of(
    message_id: int, table: str, *, piece_id: int | None = None, is_checked: bool = False
) -> list[dict[str, Any]]:
    """Return an archived message's rows of a table, as workers/spark/tables/columns.py names their columns.

    `piece_id`: its piece, where the caller knows it. `is_checked`: the files are what was written, by their checksums,
    which reads them whole. Errors: `NotFound` when it is archived no more, `ArchiveUnreadable`.
    """
    if piece_id is None:
        found = fetch_rows("SELECT piece_id FROM archived_message WHERE id = %s", [message_id])
        if not found:
            raise NotFound(f"Message {message_id} is not archived.")
        piece_id = found[0][0]
    files: dict[str, str] = dict(fetch_rows(_FILES, [piece_id, table, message_id, message_id]))
    for path, sha256 in files.items() if is_checked else ():
        require_as_written(path, sha256)
    rows = [row for path in files for row in _read(path, table, [message_id])]
    if table == "messages" and not rows:
        raise ArchiveUnreadable(next(iter(files), "of this message"), f"message {message_id} is not in it")
    return rows


def require_as_written(path: str, sha256: str) -> None:
    """Do nothing where a file of the archive has this checksum; raise ArchiveUnreadable."""
    digest = hashlib.sha256()
    try:
        where, begin = archive_file_system(settings.ARCHIVE)
        with where.open_input_stream(f"{begin.rstrip('/')}/{path}", compression=None) as content:
            while some := content.read(_READ_BYTES):
                digest.update(some)
    except OSError as error:
        raise ArchiveUnreadable(path, error) from error
    if digest.hexdigest() != sha256:
        raise ArchiveUnreadable(path, "it is not what was written")


def rows_of_several(ids: Sequence[int], table: str, *, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return some columns of the rows of those messages that are archived; raise ArchiveUnreadable."""
    found = fetch_rows(_FILES_OF_SEVERAL, [list(ids), table])
    return [row for path, some in found for row in _read(path, table, some, columns)]


def _read(path: str, table: str, ids: Sequence[int], columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    # Here, so that a web process which shows no archived message does without Arrow's 60 MB.
    import pyarrow.dataset as ds
    from pyarrow import ArrowException

    try:
        where, begin = archive_file_system(settings.ARCHIVE)
        key = ds.field(_KEYS.get(table, "message_id"))
        # The range leaves parts of the file out by what it says of them.
        wanted = (key >= min(ids)) & (key <= max(ids)) & key.isin(list(ids))
        needed = ALIASED[table].needed if table in ALIASED else ()
        files = ds.dataset(f"{begin.rstrip('/')}/{path}", filesystem=where, format="parquet")
        there = files.schema.names
        # A file of an earlier version lacks the columns of later ones.
        names = there if columns is None else [name for name in dict.fromkeys([*columns, *needed]) if name in there]
        empty = dict.fromkeys(columns or ())
        rows = [empty | row for row in files.to_table(columns=names, filter=wanted).to_pylist()]
    except (OSError, ArrowException) as error:
        raise ArchiveUnreadable(path, error) from error
    if not needed:
        return rows
    aliases = Aliases(fetch_rows(ALIASES, [[path]]))
    return [aliases.applied(table, row) for row in rows]


@cache
def archive_file_system(place: str) -> tuple[Any, str]:
    """Return the file system of an archive's place and its own path there."""
    from pyarrow import fs

    return fs.FileSystem.from_uri(place) if "://" in place else (fs.LocalFileSystem(), place)


def archived_files(table: str, *, since: date | None = None, until: date | None = None) -> list[str]:
    """Return the paths or URLs of a table's files; of messages that ended from `since` to `until`.

    Rows in them that do not count (`archive_left_out`) are left out by who reads them: workers/spark/tables/source.py.
    """
    those = all_given({"table_name = {value}": table, "day >= {value}": since, "day <= {value}": until})
    paths = Sql("SELECT path FROM archive_file WHERE is_current AND {those} ORDER BY day, id", those=those)
    return [within(settings.ARCHIVE, path) for path in fetch_values(paths)]


def damaged_files() -> Iterator[tuple[str, str]]:
    """Yield each file that counts and is not what was written, by its checksum, and why; it reads the whole archive."""
    for path, sha256 in fetch_rows("SELECT path, sha256 FROM archive_file WHERE is_current ORDER BY day, id"):
        try:
            require_as_written(path, sha256)
        except ArchiveUnreadable as error:
            # One that was written anew since is gone.
            if fetch_values("SELECT 1 FROM archive_file WHERE is_current AND path = %s", [path]):
                yield path, error.detail


def files_of_pieces(pieces: Collection[int], table: str) -> list[str]:
    """Return the paths or URLs of the files that have a table's rows of these pieces."""
    sql = "SELECT path FROM archive_file WHERE is_current AND table_name = %s AND piece_id = ANY(%s) ORDER BY id"
    return [within(settings.ARCHIVE, path) for path in fetch_values(sql, [table, list(pieces)])]
