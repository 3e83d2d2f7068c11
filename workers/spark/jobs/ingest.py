"""The `ingest` job: files become staged rows. Only `sources.commands.directories` calls it and merges the staged rows.

A task reads, parses and stages parts of files, and answers with a row for each.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, BinaryIO

import orjson
from pyspark.sql import SparkSession

from poisonadmin.core.domain.secret_settings import database_url
from poisonadmin.intake.domain.envelope import parse_line
from poisonadmin.intake.domain.quick_lines import quick_reader
from poisonadmin.intake.domain.staged_rows import intake_row
from poisonadmin.messages.domain.envelope_fields import InvalidEnvelope
from poisonadmin.sources.domain.files import FileKind, FileStaging, FileToTake, StagedFile
from workers.spark import sinks
from workers.spark.parquet import envelope_of, raw_of, row_count_of, rows_of
from workers.spark.pieces import do_pieces
from workers.spark.sources import (
    PART_BYTES,
    FileGone,
    FilePart,
    InvalidFile,
    lines_of,
    newlines_of,
    numbered,
    opened,
    parts_of,
)
from workers.spark.tables.columns import RowSchema

# A row a part. `outcome` is a `FileStaging`; `error` is null for a part that is staged.
STAGED_PART = RowSchema("part long, outcome string, staged long, rejected long, error string")
# A row a part, before it is staged. `newlines` and `messages`, the most there can be and one more, are null unless the
# outcome is STAGED: it can be read.
SURVEYED_PART = RowSchema("part long, outcome string, newlines long, messages long, error string")
Row = dict[str, Any]

_quick = quick_reader(orjson.loads, orjson.dumps, partial(orjson.dumps, option=orjson.OPT_SORT_KEYS))


def stage_files(spark: SparkSession, files: Sequence[FileToTake], *, part_bytes: int = PART_BYTES) -> list[StagedFile]:
    """Stage every line of the files, and answer for each file in their order; it is STAGED when all its parts are.

    First every part is read to count its lines, so that lines have their numbers, and messages ids in the order of the
    lines, whichever task comes first. Driver and executors read `DATABASE_URL` from their environment.
    """
    parts = parts_of(files, part_bytes=part_bytes)
    surveyed = _by_file(parts, _run(spark, parts, _survey, SURVEYED_PART))
    sound = [one for rows in surveyed.values() for one in rows if _outcome(rows) is FileStaging.STAGED]
    newlines = [row["newlines"] for _, row in sound]
    ranges = sinks.reserve_ids([row["messages"] for _, row in sound], database_url(os.environ))
    wanted = numbered([part for part, _ in sound], newlines, ranges)
    staged = _by_file(wanted, _run(spark, wanted, _stage, STAGED_PART))
    return [_staged_file(file.id, staged.get(file.id) or surveyed[file.id]) for file in files]


def _run(
    spark: SparkSession, parts: Sequence[FilePart], work: Callable[[FilePart], Row], shape: RowSchema
) -> list[Row]:
    """Do `work` for each part; return the rows, in any order."""
    return do_pieces(spark, len(parts), partial(_work_on, parts, work), shape)


def _work_on(parts: Sequence[FilePart], work: Callable[[FilePart], Row], index: int) -> list[Row]:
    return [{"part": index, **work(parts[index])}]


def _survey(part: FilePart) -> Row:
    return _answer(part, lambda handle: _counted(part, handle))


def _counted(part: FilePart, handle: BinaryIO) -> Row:
    if part.file.kind is FileKind.PARQUET:
        newlines, messages = 0, row_count_of(handle, part.file.size_bytes) + 1
    else:
        newlines, messages = newlines_of(part, handle)
    return {"newlines": newlines, "messages": messages}


def _stage(part: FilePart) -> Row:
    return _answer(part, lambda handle: asdict(sinks.stage(part, _checked(part, handle), database_url(os.environ))))


def _answer(part: FilePart, work: Callable[[BinaryIO], Row]) -> Row:
    """Return what the work on the opened file came to, or why the file cannot be read."""
    try:
        with opened(part.file) as handle:
            return {"outcome": FileStaging.STAGED.value, **work(handle)}
    except InvalidFile as error:
        return {"outcome": FileStaging.BROKEN.value, "error": str(error)[:2000]}
    except FileGone as error:
        return {"outcome": FileStaging.GONE.value, "error": str(error)}
    except OSError as error:
        return {"outcome": FileStaging.UNREADABLE.value, "error": str(error)}


def _checked(part: FilePart, handle: BinaryIO) -> Iterator[sinks.Parsed]:
    if part.file.kind is FileKind.PARQUET:
        for number, row in rows_of(handle, part.file.size_bytes):
            try:
                yield number, intake_row(envelope_of(row)), b""
            except InvalidEnvelope as why:
                yield number, why, raw_of(row)
    else:
        for number, raw in lines_of(part, handle):
            try:
                yield number, _quick(raw) or intake_row(parse_line(raw)), b""
            except InvalidEnvelope as why:
                yield number, why, raw


Answers = Sequence[tuple[FilePart, Row]]


def _by_file(parts: Sequence[FilePart], rows: Iterable[Row]) -> dict[int, Answers]:
    found: dict[int, list[tuple[FilePart, Row]]] = {}
    for row in sorted(rows, key=lambda row: row["part"]):
        part = parts[row["part"]]
        found.setdefault(part.file.id, []).append((part, row))
    return dict(found)


# Of the parts of one file the worst counts.
_WORST = (FileStaging.GONE, FileStaging.BROKEN, FileStaging.UNREADABLE, FileStaging.STAGED)


def _outcome(answers: Answers) -> FileStaging:
    return min((FileStaging(row["outcome"]) for _, row in answers), key=_WORST.index)


def _staged_file(file_id: int, answers: Answers) -> StagedFile:
    outcome = _outcome(answers)
    return StagedFile(
        file_id=file_id,
        outcome=outcome,
        batches=tuple(part.batch for part, _ in answers if part.id_ranges),
        staged=sum(row.get("staged") or 0 for _, row in answers),
        rejected=sum(row.get("rejected") or 0 for _, row in answers),
        error=next((row["error"] for _, row in answers if row["outcome"] == outcome), None),
    )
