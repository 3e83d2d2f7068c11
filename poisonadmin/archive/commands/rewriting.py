"""Files of the archive are written anew, without some rows or payloads, and put in the place of the former ones.

The new ones count from the transaction on that also says what has changed. The rows of the former ones stay until their
files are removed, so that none is forgotten.
"""

import json
import secrets
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from django.conf import settings
from django.db.backends.utils import CursorWrapper

from poisonadmin.archive.commands.manifests import manifest
from poisonadmin.archive.domain.pieces import Rewrite, WrittenFile
from poisonadmin.archive.domain.place import manifest_path
from poisonadmin.archive.domain.runs import PieceState
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.store.models.archive import ArchiveFile, ArchiveRun

_FORMER = """
SELECT id, path FROM archive_file AS f WHERE NOT is_current AND EXISTS (
    SELECT FROM archive_piece WHERE id = f.piece_id AND state = %s)
"""


class FileReplaced(Exception):
    """Raised when somebody else has written a file anew meanwhile; nothing has happened, and the next turn goes on."""


Replaced = Sequence[tuple[ArchiveFile, WrittenFile | None]]


class FileStore(Protocol):
    """What keeps the files. Passed in: what writes (workers) imports this package."""

    def rewrite(self, place: str, file: WrittenFile, change: Rewrite, path: str) -> WrittenFile | None:
        """Write a file anew, and read it back; None when nothing is left of it."""

    def put(self, path: str, content: bytes) -> None:
        """Put a small file, whole or not at all."""

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files, also such as are gone."""


def written_anew(
    store: FileStore, piece_id: int, change: Rewrite, *, tables: Collection[str] | None = None
) -> Replaced:
    """Write the files of a piece anew that have messages of the change; return each with its successor.

    `tables`: which of them; all by default.
    """
    files = ArchiveFile.objects.filter(piece_id=piece_id, is_current=True).order_by("id")
    if tables is not None:
        files = files.filter(table_name__in=tables)
    token = secrets.token_hex(4)
    replaced: list[tuple[ArchiveFile, WrittenFile | None]] = []
    for file in files:
        if any(file.first_id <= one <= file.last_id for one in change.ids):
            stem = file.path.removesuffix(".parquet").rpartition("-")[0]
            replaced.append((file, store.rewrite(settings.ARCHIVE, _written(file), change, f"{stem}-{token}.parquet")))
    return replaced


def try_alone(cursor: CursorWrapper) -> bool:
    """Hold the tables alone until the transaction ends; return False while somebody reads them."""
    cursor.execute("SELECT pg_try_advisory_xact_lock(%s, 0)", [Lock.TABLES])
    return bool(cursor.fetchone()[0])


def put_in_place(replaced: Replaced) -> None:
    """Have the new files count, and the former ones no more. Call it alone with the tables. Errors: `FileReplaced`."""
    for old, new in replaced:
        if not ArchiveFile.objects.filter(id=old.id, is_current=True).update(is_current=False):
            raise FileReplaced(old.path)
        if new is not None:
            ArchiveFile.objects.create(
                run_id=old.run_id,
                piece_id=old.piece_id,
                table_name=new.table,
                is_current=True,
                **{name: value for name, value in vars(new).items() if name != "table"},
            )


def drop_new(store: FileStore, replaced: Replaced) -> None:
    """Remove what was written and does not count."""
    store.remove(new.path for _, new in replaced if new is not None)


def tidy(store: FileStore, piece_id: int) -> None:
    """Bring the manifest of a piece's run up to date, and remove the former files."""
    run = ArchiveRun.objects.get(archivepiece=piece_id)
    if run.ended_at is not None:
        store.put(manifest_path(run.id), json.dumps(manifest(run), indent=1).encode())
    remove_former(store)


def remove_former(store: FileStore) -> None:
    """Remove the files in whose place others are; their rows are kept until then, so that none is forgotten."""
    former: dict[int, str] = dict(fetch_rows(_FORMER, [PieceState.ARCHIVED]))
    if former:
        store.remove(former.values())
        ArchiveFile.objects.filter(id__in=list(former), is_current=False).delete()


def _written(file: ArchiveFile) -> WrittenFile:
    return WrittenFile(
        file.table_name,
        file.day,
        file.root,
        file.path,
        file.rows,
        file.bytes,
        file.sha256,
        file.rows_sha256,
        file.first_id,
        file.last_id,
    )
