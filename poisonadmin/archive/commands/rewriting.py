"""Files of the archive are written anew, without some rows or payloads, and put in the place of the former ones.

The new ones count from the transaction on that also says what has changed. What is written is noted before, and what is
replaced stays noted until its file is removed, so that no file is forgotten, whoever is killed.
"""

import json
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from django.conf import settings
from django.db.backends.utils import CursorWrapper

from poisonadmin.archive.commands.manifest import manifest
from poisonadmin.archive.domain.pieces import Rewrite, WrittenFile
from poisonadmin.archive.domain.place import manifest_path, unfinished
from poisonadmin.archive.domain.runs import PieceState
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.store.models.archive import ArchiveFile, ArchiveRun

_FORMER = """
SELECT id, path FROM archive_file AS f WHERE NOT is_current AND EXISTS (
    SELECT FROM archive_piece WHERE id = f.piece_id AND state = %s)
"""


@dataclass(frozen=True)
class Replacement:
    """A file, the row that notes its successor, and the successor; None when nothing is left."""

    old: ArchiveFile
    noted: ArchiveFile
    new: WrittenFile | None


class FileReplaced(Exception):
    """Raised when somebody else has written a file anew meanwhile; nothing has happened, and the next turn goes on."""


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
) -> list[Replacement]:
    """Write the files of a piece anew that have messages of the change; return each with its successor.

    `tables`: which of them; all by default.
    """
    files = ArchiveFile.objects.filter(piece_id=piece_id, is_current=True).order_by("id")
    if tables is not None:
        files = files.filter(table_name__in=tables)
    token = secrets.token_hex(4)
    replaced: list[Replacement] = []
    for old in files:
        if any(old.first_id <= one <= old.last_id for one in change.ids):
            stem = old.path.removesuffix(".parquet").rpartition("-")[0]
            noted = _noted(old, f"{stem}-{token}.parquet")
            new = store.rewrite(settings.ARCHIVE, _written(old), change, noted.path)
            replaced.append(Replacement(old, noted, new))
    return replaced


def try_alone(cursor: CursorWrapper) -> bool:
    """Hold the tables alone until the transaction ends; return False while somebody reads them."""
    cursor.execute("SELECT pg_try_advisory_xact_lock(%s, 0)", [Lock.TABLES])
    return bool(cursor.fetchone()[0])


def put_in_place(replaced: Sequence[Replacement]) -> None:
    """Have the new files count, and the former ones no more. Call it alone with the tables. Errors: `FileReplaced`."""
    for one in replaced:
        if not ArchiveFile.objects.filter(id=one.old.id, is_current=True).update(is_current=False):
            raise FileReplaced(one.old.path)
        if one.new is not None:
            values = {name: value for name, value in vars(one.new).items() if name != "table"}
            if not ArchiveFile.objects.filter(id=one.noted.id).update(is_current=True, **values):
                raise FileReplaced(one.old.path)


def tidy(store: FileStore, piece_id: int) -> None:
    """Bring the manifest of a piece's run up to date, and remove the former files."""
    run = ArchiveRun.objects.get(archivepiece=piece_id)
    if run.ended_at is not None:
        store.put(manifest_path(run.id), json.dumps(manifest(run), indent=1).encode())
    remove_former(store)


def remove_former(store: FileStore) -> None:
    """Remove the files in whose place others are, and those that were written and do not count."""
    former: dict[int, str] = dict(fetch_rows(_FORMER, [PieceState.ARCHIVED]))
    if former:
        store.remove(name for path in former.values() for name in (path, unfinished(path)))
        ArchiveFile.objects.filter(id__in=list(former), is_current=False).delete()


def _noted(old: ArchiveFile, path: str) -> ArchiveFile:
    """Note a file that is going to be written; it does not count yet."""
    values = {field.attname: getattr(old, field.attname) for field in ArchiveFile._meta.concrete_fields}  # noqa: SLF001
    return ArchiveFile.objects.create(**values | {"id": None, "path": path, "is_current": False})


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
