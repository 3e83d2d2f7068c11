"""The `ingest` job: files become staged rows. `operations.sources` calls it, merges what it staged, and nobody else.

Parts of files are the rows of a DataFrame, one a task; the task reads, parses and stages its part and answers with a
row.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from poisonadmin.domain.envelope import InvalidEnvelope, parse_line
from poisonadmin.domain.source_files import FileKind, FileToTake, StagedFile, Staging
from workers.spark import sinks
from workers.spark.parquet import envelope_of, raw_of, rows_of
from workers.spark.parts import PART_BYTES, Part, parts_of, with_first_lines
from workers.spark.schemas import NEWLINES, STAGED_PART, Shape
from workers.spark.sources import FileBroken, FileGone, lines_of, newlines_of, opened

Row = dict[str, Any]


def stage_files(spark: SparkSession, files: Sequence[FileToTake], *, part_bytes: int = PART_BYTES) -> list[StagedFile]:
    """Stage every line of the files, and answer for each file in their order.

    What an earlier run has staged of them stays; a file is STAGED when all its parts are. The executors read
    `DATABASE_URL` from their environment.
    """
    parts = parts_of(files, part_bytes=part_bytes)
    cut = [part for part in parts if part.file.size_bytes > part.end - part.start]
    newlines = {cut[row["part"]].batch: row["newlines"] for row in _run(spark, cut, _count_newlines, NEWLINES)}
    numbered = with_first_lines(parts, newlines)
    rows = sorted(_run(spark, numbered, _stage_part, STAGED_PART), key=lambda row: row["part"])
    return [
        _staged_file([(numbered[row["part"]], row) for row in of_file])
        for _, of_file in groupby(rows, key=lambda row: numbered[row["part"]].file.id)
    ]


def _run(spark: SparkSession, parts: Sequence[Part], work: Callable[[Part], Row], shape: Shape) -> list[Row]:
    """Do `work` for each part, a task each; return the rows, in any order."""
    if not parts:
        return []
    tasks = spark.range(0, len(parts), 1, len(parts))
    return [row.asDict() for row in tasks.mapInArrow(partial(_work_on, parts, work, shape), shape.spark).collect()]


def _work_on(
    parts: Sequence[Part], work: Callable[[Part], Row], shape: Shape, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [{"part": index, **work(parts[index])} for index in batch.column(0).to_pylist()]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=shape.arrow)


def _count_newlines(part: Part) -> Row:
    try:
        with opened(part.file) as handle:
            return {"newlines": newlines_of(part, handle)}
    except (FileGone, OSError):
        return {"newlines": 0}  # staging meets the same and says so


def _stage_part(part: Part) -> Row:
    try:
        with opened(part.file) as handle:
            counted = sinks.stage(part, _checked(part, handle), os.environ["DATABASE_URL"])
    except FileBroken as error:
        return _not_staged(Staging.BROKEN, error)
    except FileGone as error:
        return _not_staged(Staging.GONE, error)
    except OSError as error:
        return _not_staged(Staging.UNREADABLE, error)
    return {"outcome": Staging.STAGED.value, "staged": counted.staged, "rejected": counted.rejected, "error": None}


def _not_staged(outcome: Staging, error: Exception) -> Row:
    return {"outcome": outcome.value, "staged": 0, "rejected": 0, "error": str(error)[:2000]}


def _checked(part: Part, handle: Any) -> Iterator[sinks.Parsed]:
    if part.file.kind is FileKind.PARQUET:
        for number, row in rows_of(handle, part.file.size_bytes):
            try:
                yield number, envelope_of(row), b""
            except InvalidEnvelope as why:
                yield number, why, raw_of(row)
    else:
        for number, raw in lines_of(part, handle):
            try:
                yield number, parse_line(raw), b""
            except InvalidEnvelope as why:
                yield number, why, raw


# Of the parts of one file the worst counts.
_WORST = (Staging.GONE, Staging.BROKEN, Staging.UNREADABLE, Staging.STAGED)


def _staged_file(parts: Sequence[tuple[Part, Row]]) -> StagedFile:
    outcome = min((Staging(row["outcome"]) for _, row in parts), key=_WORST.index)
    return StagedFile(
        file_id=parts[0][0].file.id,
        outcome=outcome,
        batches=tuple(part.batch for part, _ in parts),
        staged=sum(row["staged"] for _, row in parts),
        rejected=sum(row["rejected"] for _, row in parts),
        error=next((row["error"] for _, row in parts if row["outcome"] == outcome), None),
    )
