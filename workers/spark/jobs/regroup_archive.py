"""The `regroup` job over the archive: archived failures get the fingerprints that the rules of this version make.

`archive.commands.regrouping` has their moves counted, piece by piece of the archive, and then the files written anew.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from poisonadmin.archive.domain.pieces import WrittenFile
from poisonadmin.groups.domain.failures import MAX_MASKED_CHARS
from workers.spark.jobs.regroup import REPORTED, LoggedFailure, as_now
from workers.spark.pieces import batch_slots
from workers.spark.schemas import REGROUPED_FAILURE
from workers.spark.tables.archive_files import NewFile, PieceNotWritten, located, read_back
from workers.spark.tables.extent import Extent
from workers.spark.tables.frames import read_table

_COLUMNS = ("message_id", "attempt_number", "fingerprint", "error_class", "cause_class", "error_message", "stack",
            "title", "outcome", "finished_at")  # fmt: skip
_FIRST = ("title", "error_class", "message_id", "attempt_number", "finished_at")
_BATCH_ROWS = 2_000


class RegroupedFailure(NamedTuple):
    """The fingerprints of a failure before and now, and its title now."""

    attempt_number: int
    was: str
    fingerprint: str
    title: str


def archived_moves(spark: SparkSession, files: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row a move from a fingerprint to another, or to the same: how many failures in these files of attempts
    make it (`n`), the first of them, and when the last was."""
    with batch_slots(spark) as tasks:
        attempts = read_table(spark, "attempts", Extent(files=files), columns=_COLUMNS, tasks=tasks)
        # Collected as rows, times would be without a zone.
        found: list[dict[str, Any]] = moves(attempts).toArrow().to_pylist()
        return found


def moves(attempts: DataFrame) -> DataFrame:
    """Return the moves of rows of `attempts`, as `archived_moves` says. Fingerprints are made in Python, by the
    functions that deliveries use."""
    failures = attempts.where((F.col("outcome") != "delivered") & F.col("fingerprint").isNotNull()).withColumn(
        "error_message", F.substring("error_message", 1, MAX_MASKED_CHARS)
    )
    first = F.min_by(F.struct(*_FIRST), F.struct("message_id", "attempt_number")).alias("first")
    return (
        failures.select(*_COLUMNS)
        .mapInArrow(_regroup, REGROUPED_FAILURE.spark)
        .groupBy("was", "fingerprint")
        .agg(F.count("*").alias("n"), first, F.max("finished_at").alias("last_at"))
        .select("was", "fingerprint", "n", "first.*", "last_at")
    )


def _regroup(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = []
        for row in batch.to_pylist():
            mark, line = as_now(_logged(row))
            kept = {name: row[name] for name in ("message_id", "attempt_number", "finished_at")}
            named = {"was": row["fingerprint"], "fingerprint": mark, "title": line}
            rows.append({**kept, **named, "error_class": row["error_class"] or ""})
        yield pa.RecordBatch.from_pylist(rows, schema=REGROUPED_FAILURE.arrow)


def _logged(row: Mapping[str, Any]) -> LoggedFailure:
    return LoggedFailure(
        row["message_id"],
        row["attempt_number"],
        row["fingerprint"],
        row["error_class"] or "",
        row["cause_class"],
        (row["error_message"] or "")[:MAX_MASKED_CHARS],
        row["stack"] or "",
        row["title"] or "",
        row["outcome"] in REPORTED,
    )


def regroup_files(
    place: str, files: Collection[WrittenFile], paths: Mapping[str, str], seen_as: Mapping[str, int]
) -> tuple[dict[str, WrittenFile], dict[int, str]]:
    """Write the files of a piece anew, as far as they change, and read them back.

    Return the new ones by the paths of the former, and by message the fingerprint of its failure where that changes.
    `paths`: where each goes; `seen_as`: the group of each fingerprint. Errors: `PieceNotWritten`.
    """
    written: dict[str, WrittenFile] = {}
    changed: dict[int, list[RegroupedFailure]] = {}
    messages: dict[int, str] = {}
    for file in files:
        if file.table == "attempts" and (found := _changed_in(place, file)):
            changed |= found
            written[file.path] = _rewritten(place, file, paths[file.path], partial(_with_fingerprints, found))
    for file in files:
        if file.table == "messages" and any(file.first_id <= one <= file.last_id for one in changed):
            last = _last_failures(place, file, changed)
            if last:
                messages |= {one: failure.fingerprint for one, failure in last.items()}
                written[file.path] = _rewritten(place, file, paths[file.path], _Groups(last, seen_as).of)
    return written, messages


def _changed_in(place: str, file: WrittenFile) -> dict[int, list[RegroupedFailure]]:
    """Return by message the failures in a file of attempts that have another fingerprint now."""
    found: dict[int, list[RegroupedFailure]] = {}
    for batch in _batches(place, file, _COLUMNS):
        for row in batch.to_pylist():
            if row["outcome"] != "delivered" and row["fingerprint"] is not None:
                mark, line = as_now(_logged(row))
                if mark != row["fingerprint"]:
                    failure = RegroupedFailure(row["attempt_number"], row["fingerprint"], mark, line)
                    found.setdefault(row["message_id"], []).append(failure)
    return found


def _with_fingerprints(changed: Mapping[int, Sequence[RegroupedFailure]], batch: pa.RecordBatch) -> pa.RecordBatch:
    now = {(one, failure.attempt_number): failure for one, some in changed.items() for failure in some}
    keys = list(zip(*(batch.column(name).to_pylist() for name in ("message_id", "attempt_number")), strict=True))
    for name in ("fingerprint", "title"):
        values = [
            getattr(now[key], name) if key in now else value
            for key, value in zip(keys, batch.column(name).to_pylist(), strict=True)
        ]
        batch = _with_column(batch, name, values)
    return batch


def _last_failures(
    place: str, file: WrittenFile, changed: Mapping[int, Sequence[RegroupedFailure]]
) -> dict[int, RegroupedFailure]:
    """Return by message, of those in a file, the last failure of the fingerprint that the message has."""
    found: dict[int, RegroupedFailure] = {}
    for batch in _batches(place, file, ("id", "fingerprint")):
        for row in batch.to_pylist():
            mine = [failure for failure in changed.get(row["id"], ()) if failure.was == row["fingerprint"]]
            if mine:
                found[row["id"]] = max(mine)
    return found


class _Groups:
    """Gives messages the group of their last failure."""

    def __init__(self, last: Mapping[int, RegroupedFailure], seen_as: Mapping[str, int]) -> None:
        self._last, self._seen_as = last, seen_as

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the messages with their groups."""
        last = [self._last.get(one) for one in batch.column("id").to_pylist()]
        columns: dict[str, Callable[[RegroupedFailure], Any]] = {
            "fingerprint": lambda failure: failure.fingerprint,
            "failure": lambda failure: failure.title,
            "group_id": lambda failure: self._seen_as.get(failure.fingerprint),
        }
        for name, value in columns.items():
            kept = batch.column(name).to_pylist()
            batch = _with_column(
                batch, name, [was if one is None else value(one) for one, was in zip(last, kept, strict=True)]
            )
        return batch


def _with_column(batch: pa.RecordBatch, name: str, values: Sequence[Any]) -> pa.RecordBatch:
    at = batch.schema.get_field_index(name)
    return batch.set_column(at, batch.schema.field(at), pa.array(values, batch.schema.field(at).type))


def _rewritten(
    place: str, file: WrittenFile, path: str, change: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> WrittenFile:
    if read_back(place, file.path) != (file.rows, file.rows_sha256, file.sha256):
        raise PieceNotWritten(f"{file.path} is not what was written.")
    where, full = located(place, file.path)
    with where.open_input_file(full) as stored, pq.ParquetFile(stored) as old, ExitStack() as stack:
        # Its own: it has the columns that there were when it was written.
        new = stack.enter_context(NewFile(place, path, old.schema_arrow, old.schema_arrow.names[0]))
        for batch in old.iter_batches(batch_size=_BATCH_ROWS):
            new.add(change(batch))
        finished = new.finished()
    if read_back(place, path) != (file.rows, finished.rows_sha256, finished.sha256):
        raise PieceNotWritten(f"{path} does not read back as it was written.")
    return WrittenFile(file.table, file.day, file.root, **vars(finished))


def _batches(place: str, file: WrittenFile, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    where, full = located(place, file.path)
    with where.open_input_file(full) as stored, pq.ParquetFile(stored) as old:
        yield from old.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns) if columns else None)
