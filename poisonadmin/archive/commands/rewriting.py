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

from poisonadmin.archive.commands.manifest import manifest
from poisonadmin.archive.domain.pieces import Rewrite, WrittenFile
from poisonadmin.archive.domain.runs import PieceState
from poisonadmin.core.domain.archive_place import manifest_path, unfinished
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
    """Raised when somebody reads the tables, or has written a file anew meanwhile; nothing has happened, and the next
    turn goes on."""


class FileStore(Protocol):
    """The store of the archive's files. Passed in: the workers, which write, import this package."""

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
    changing = [old for old in files if any(old.first_id <= one <= old.last_id for one in change.ids)]
    return [
        Replacement(old, noted, store.rewrite(settings.ARCHIVE, as_written(old), change, noted.path))
        for old, noted in note_successors(changing)
    ]


def note_successors(files: Iterable[ArchiveFile]) -> list[tuple[ArchiveFile, ArchiveFile]]:
    """Note the files that are going to be written in the place of some; they do not count yet. Return each with its
    successor."""
    token = secrets.token_hex(4)
    names = [field.attname for field in ArchiveFile._meta.concrete_fields]  # noqa: SLF001
    found = []
    for old in files:
        stem = old.path.removesuffix(".parquet").rpartition("-")[0]
        changed = {"id": None, "path": f"{stem}-{token}.parquet", "is_current": False}
        values = {name: getattr(old, name) for name in names}
        found.append((old, ArchiveFile.objects.create(**values | changed)))
    return found


def as_written(file: ArchiveFile) -> WrittenFile:
    """Return a file as who writes it anew takes it."""
    names = ("day", "root", "path", "rows", "bytes", "sha256", "rows_sha256", "first_id", "last_id")
    return WrittenFile(file.table_name, **{name: getattr(file, name) for name in names})


def put_in_place(replaced: Sequence[Replacement]) -> None:
    """Have the new files count, and the former ones no more. Call it under `Lock.TABLES`. Errors: `FileReplaced`."""
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


def has_former() -> bool:
    """Return whether `remove_former` would remove files."""
    return bool(fetch_rows(f"{_FORMER} LIMIT 1", [PieceState.ARCHIVED]))


def remove_former(store: FileStore) -> None:
    """Remove the files in whose place others are, and those that were written and do not count."""
    former: dict[int, str] = dict(fetch_rows(_FORMER, [PieceState.ARCHIVED]))
    if former:
        store.remove(name for path in former.values() for name in (path, unfinished(path)))
        ArchiveFile.objects.filter(id__in=list(former), is_current=False).delete()
