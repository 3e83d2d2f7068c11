"""Files of directory sources as rows: seen, staged, taken or broken. Each change asks for the state that it leaves."""

import contextlib
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.intake.commands.staged import drop_batches
from poisonadmin.sources.domain.files import FileToTake, StagedFile, is_unfinished, kind_of, stored_path
from poisonadmin.sources.domain.roots import directory_below, open_without_links
from poisonadmin.store.models.intake import FileState, RejectedLine, Source, SourceFile

STABLE_SECONDS = 2.0
# A file that could not be opened is tried again after this time.
PATIENCE_SECONDS = 60

_UNKNOWN_KIND = (
    "Not a kind of file that is taken in: its name ends in none of .ndjson, .jsonl, .json (each also .gz), .parquet."
)

# Asks before it inserts: a conflicting insert would use up an id for each known file at each check.
_ADD_NEW = """
INSERT INTO source_file (source_id, path, size_bytes, modified_ns, state, error)
SELECT %(source)s, seen.path, seen.size_bytes, seen.modified_ns,
       CASE WHEN seen.error IS NULL THEN 'seen' ELSE 'broken' END, seen.error
FROM unnest(%(paths)s::text[], %(sizes)s::bigint[], %(times)s::bigint[], %(errors)s::text[])
     WITH ORDINALITY AS seen(path, size_bytes, modified_ns, error, place)
WHERE NOT EXISTS (SELECT FROM source_file AS known WHERE known.source_id = %(source)s AND known.path = seen.path
                  AND known.size_bytes = seen.size_bytes AND known.modified_ns = seen.modified_ns)
ORDER BY seen.place
ON CONFLICT (source_id, path, size_bytes, modified_ns) DO NOTHING
"""


def see_files(source: Source, *, now: float | None = None) -> dict[str, bytes]:
    """Write down the directory's files that are new; return every stable file's path by its stored text.

    A file is stable when it has not changed for two seconds. Hidden files, links, and names that say "not finished" are
    passed over; a file of a kind that is not taken in is BROKEN at once, so that it is not overlooked.
    Shape: the path below the configured directory -> where that led to. Errors: `OSError` when the directory cannot be
    read, `OutsideRoots` when it may not be.
    """
    configured = os.fsencode(Path(source.config["path"]).absolute())
    directory = os.fsencode(directory_below(source.config["path"], settings.SOURCE_ROOTS))
    now_ns = int((time.time() if now is None else now) * 1e9)
    found: list[tuple[int, bytes, os.stat_result]] = []
    with _opened(directory) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            name = os.fsencode(entry.name)
            if is_unfinished(name) or not entry.is_file(follow_symlinks=False):
                continue
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            # A time in the future is a wrong clock, not a sign of writing.
            if abs(now_ns - facts.st_mtime_ns) >= STABLE_SECONDS * 1e9:
                found.append((facts.st_mtime_ns, name, facts))
    found.sort(key=lambda one: one[:2])
    # A file is known by the path as configured: a link that is set anew makes no other files of them.
    paths = {stored_path(b"%b/%b" % (configured, name)): b"%b/%b" % (directory, name) for _, name, _ in found}
    values: dict[str, Any] = {
        "source": source.id,
        "paths": list(paths),
        "sizes": [facts.st_size for _, _, facts in found],
        "times": [facts.st_mtime_ns for _, _, facts in found],
        "errors": [None if kind_of(name) else _UNKNOWN_KIND for _, name, _ in found],
    }
    with connection.cursor() as cursor:
        cursor.execute(_ADD_NEW, values)
    return paths


@contextlib.contextmanager
def _opened(directory: bytes) -> Iterator[int]:
    descriptor = open_without_links(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def files_to_take(source: Source, paths: Mapping[str, bytes]) -> list[FileToTake]:
    """Return the files that wait to be staged, oldest first; forget those that are not there any more."""
    rows = SourceFile.objects.filter(source=source, state=FileState.SEEN).order_by("id")
    waiting = [row for row in rows if row.error is None or _is_patience_over(source)]
    forget([row.id for row in waiting if row.path not in paths])
    files: list[FileToTake] = []
    for row in waiting:
        path = paths.get(row.path)
        kind = kind_of(path) if path else None
        if path and kind:
            files.append(FileToTake(row.id, source.id, path, kind, row.size_bytes, row.modified_ns))
    return files


def _is_patience_over(source: Source) -> bool:
    return source.last_error_at is None or source.last_error_at.timestamp() < time.time() - PATIENCE_SECONDS


def leftover_batches(source: Source) -> dict[int, set[str]]:
    """Return the batches staged of this source's files that are not merged, by file."""
    found: dict[int, set[str]] = {}
    for batch in fetch_values("SELECT DISTINCT batch FROM staged_message WHERE batch LIKE 'file:%%'"):
        found.setdefault(int(batch.split(":")[1]), set()).add(batch)
    ours = SourceFile.objects.filter(source=source, id__in=found).values_list("id", flat=True)
    return {file_id: found[file_id] for file_id in ours}


def mark_staged(file: StagedFile, *, job_id: int | None) -> bool:
    """Make a SEEN file STAGED; return whether it was SEEN."""
    changed = SourceFile.objects.filter(id=file.file_id, state=FileState.SEEN).update(
        state=FileState.STAGED, rejected=file.rejected, job_id=job_id, error=None
    )
    return bool(changed)


def mark_taken(file_id: int) -> None:
    """Make a STAGED file TAKEN."""
    SourceFile.objects.filter(id=file_id, state=FileState.STAGED).update(state=FileState.TAKEN, taken_at=Now())


def mark_broken(file: StagedFile, *, job_id: int | None) -> None:
    """Make a SEEN file BROKEN and drop what was staged of it: nothing of it is taken in."""
    with transaction.atomic():
        drop_staged(file.file_id, file.batches)
        SourceFile.objects.filter(id=file.file_id, state=FileState.SEEN).update(
            state=FileState.BROKEN, error=file.error, rejected=0, job_id=job_id
        )


def mark_unreadable(file: StagedFile) -> None:
    """Leave a file SEEN, with the error that kept it from being read; it is tried again later."""
    SourceFile.objects.filter(id=file.file_id, state=FileState.SEEN).update(error=file.error)
    Source.objects.filter(sourcefile__id=file.file_id).update(last_error=file.error, last_error_at=Now())


def forget(file_ids: Sequence[int]) -> None:
    """Remove SEEN files that are not there any more, with what was staged of them."""
    if not file_ids:
        return
    with transaction.atomic():
        rows = SourceFile.objects.filter(id__in=file_ids, state=FileState.SEEN)
        for file_id in rows.select_for_update().values_list("id", flat=True):
            batches = fetch_values(
                "SELECT DISTINCT batch FROM staged_message WHERE batch LIKE %s", [f"file:{file_id}:%"]
            )
            drop_staged(file_id, batches)
            rows.filter(id=file_id).delete()


def drop_staged(file_id: int, batches: Collection[str]) -> None:
    """Remove what was staged and set aside of a file that is not taken in."""
    with transaction.atomic(), connection.cursor() as cursor:
        if batches:
            drop_batches(cursor, batches)
        RejectedLine.objects.filter(source_file_id=file_id).delete()
