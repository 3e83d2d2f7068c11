"""Files of the archive are written anew, without some rows or payloads, and put in the place of the former ones.

The new ones count from the transaction on that also says what has changed. What is written is noted before, and what is
replaced stays noted until its file is removed, so that no file is forgotten, whoever is killed.
"""

import json
import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from django.conf import settings
from django.db import connection, transaction

from poisonadmin.archive.domain.pieces import PieceState, Rewrite, WrittenFile
from poisonadmin.core.commands import locks
from poisonadmin.core.domain.archive_place import manifest_path, unfinished
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.runs.queries.runs import StoredRun, find_run
from poisonadmin.store.models.archive import ArchiveFile, ArchivePiece

_FORMER = """
SELECT id, path FROM archive_file AS f WHERE NOT is_current AND EXISTS (
    SELECT FROM archive_piece WHERE id = f.piece_id AND state = %s)
"""
# Rows in files that do not count, since their message came back, go when no file may have them.
_WITH_PAYLOADS = """
SELECT piece_id, array_agg(message_id) FROM archive_left_out JOIN removed_payload USING (message_id)
GROUP BY piece_id ORDER BY piece_id LIMIT 1
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
    run = find_run(KindName.ARCHIVE, ArchivePiece.objects.values_list("run_id", flat=True).get(id=piece_id))
    if run is not None and run.is_over:
        put_manifest(store, run)
    remove_former(store)


def put_manifest(store: FileStore, run: StoredRun) -> None:
    """Write down in the archive which files count of a run."""
    store.put(manifest_path(run.id), json.dumps(manifest(run), indent=1).encode())


def manifest(run: StoredRun) -> dict[str, Any]:
    """Return what a run has written, file by file, as its manifest says it."""
    files = ArchiveFile.objects.filter(run_id=run.id, is_current=True).order_by("id")
    return {
        "run": run.id,
        "as_of": run.params["as_of"],
        "requested_by": run.requested_by,
        "files": [
            {
                "table": file.table_name,
                "path": file.path,
                "day": file.day.isoformat(),
                "root": file.root,
                "rows": file.rows,
                "bytes": file.bytes,
                "sha256": file.sha256,
                "rows_sha256": file.rows_sha256,
            }
            for file in files
        ],
    }


def remove_former(store: FileStore) -> None:
    """Remove the files in whose place others are, and those that were written and do not count."""
    former: dict[int, str] = dict(fetch_rows(_FORMER, [PieceState.ARCHIVED]))
    if former:
        store.remove(name for path in former.values() for name in (path, unfinished(path)))
        ArchiveFile.objects.filter(id__in=list(former), is_current=False).delete()


def rewritten_without(store: FileStore, piece_id: int, ids: Collection[int]) -> bool:
    """Write the files of a piece anew without rows that do not count; return False while somebody reads the tables."""
    replaced = written_anew(store, piece_id, Rewrite(without=ids))
    with transaction.atomic(), connection.cursor() as cursor:
        is_alone = locks.try_lock(cursor, Lock.TABLES)
        if is_alone:
            put_in_place(replaced)
            cursor.execute(
                "DELETE FROM archive_left_out WHERE piece_id = %s AND message_id = ANY(%s)", [piece_id, list(ids)]
            )
    if is_alone:
        tidy(store, piece_id)
    else:
        remove_former(store)
    return is_alone


def remove_copies(store: FileStore, must_pause: Callable[[], bool]) -> bool | None:
    """Remove former copies of messages whose payloads are removed; return whether none is left, and None while somebody
    reads the tables.
    """
    while rows := fetch_rows(_WITH_PAYLOADS):
        if must_pause():
            return False
        if not rewritten_without(store, *rows[0]):
            return None
    return True
