"""Run each job on the Spark that the environment names, and print what it gives, as JSON: a script for a test."""

import json
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from poisonadmin.archive.domain.pieces import PieceOrder, WriteOrder
from poisonadmin.comparisons.domain.comparison import Compared
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.reports.domain.reading import Reading
from poisonadmin.rules.domain.dry_run import Trial
from poisonadmin.search.deep.domain import Wave
from workers.spark.jobs.alike import alike_pairs
from workers.spark.jobs.archive import write_pieces
from workers.spark.jobs.compare import compare
from workers.spark.jobs.dry_run import try_rule
from workers.spark.jobs.regroup import SparkFailureReader
from workers.spark.jobs.report import collect
from workers.spark.jobs.search import find
from workers.spark.session import start_session
from workers.spark.tables.source import Extent, read_table

# {what: (the name of a job, its arguments after the session)}
Asked = Mapping[str, tuple[str, tuple[Any, ...]]]


def _table(spark: SparkSession, name: str, extent: Extent) -> list[list[str]]:
    return sorted([str(value) for value in row] for row in read_table(spark, name, extent, tasks=2).collect())


def _events_of_addresses(spark: SparkSession, extent: Extent) -> list[list[str]]:
    messages = read_table(spark, "messages", extent, columns=["id", "address"], tasks=2)
    history = read_table(spark, "history", extent, columns=["message_id", "event"], tasks=2)
    counted = (
        messages.join(history, messages.id == history.message_id)
        .where(f.col("event") != "claimed")
        .groupBy("address", "event")
        .agg(f.count("*").alias("n"), f.max("id").alias("last"))
        .select("address", "event", "n", "last")
    )
    return sorted([str(value) for value in row] for row in counted.collect())


def _found(spark: SparkSession, wave: Wave) -> list[int]:
    return sorted(hit.id for hit in find(spark, wave))


def _reported(spark: SparkSession, reading: Reading) -> list[dict[str, Any]]:
    return sorted(collect(spark, reading).to_pylist(), key=str)


def _alike(spark: SparkSession, rows: Sequence[tuple[int, list[str]]]) -> list[list[str]]:
    pairs = alike_pairs(spark.createDataFrame(rows, "place int, tokens array<string>"))
    return sorted([str(value) for value in row] for row in pairs.collect())


def _compared(spark: SparkSession, compared: Compared) -> dict[str, Any]:
    return asdict(compare(spark, compared))


def _tried(spark: SparkSession, trial: Trial, ranges: Sequence[IdRange]) -> list[Any]:
    return [[found.read, found.matched, found.error, found.as_json()] for found in try_rule(spark, trial, ranges)]


def _written(spark: SparkSession, order: WriteOrder, pieces: Sequence[PieceOrder]) -> list[Any]:
    return [
        [one, piece.versions, sorted([file.table, file.rows, file.rows_sha256] for file in piece.files)]
        for one, piece in sorted(write_pieces(spark, order, pieces).items())
    ]


def _regrouped(spark: SparkSession, ranges: Sequence[IdRange], files: Sequence[str]) -> list[Any]:
    failures = SparkFailureReader(spark)
    return [sorted(failures.survey(ranges, files)), sorted(failures.changes(ranges, files))]


JOBS: dict[str, Callable[..., Any]] = {
    "table": _table,
    "join": _events_of_addresses,
    "search": _found,
    "report": _reported,
    "alike": _alike,
    "comparison": _compared,
    "dry run": _tried,
    "archive": _written,
    "regrouping": _regrouped,
}


def carried_out(spark: SparkSession, asked: Asked, name: str) -> dict[str, Any]:
    """Return the result of each job that is asked for. `name`: of this Spark, which writes files of its own."""
    found = {}
    for what, (job, given) in asked.items():
        own = [replace(one, place=f"{one.place}/{name}") if isinstance(one, WriteOrder) else one for one in given]
        found[what] = JOBS[job](spark, *own)
    return found


def as_json(found: Mapping[str, Any]) -> str:
    """Return results as text, to be compared."""
    return json.dumps(found, default=str)


def main() -> None:
    """Print the results of what a file asks for."""
    file = Path(sys.argv[1])
    asked: Asked = pickle.loads(file.read_bytes())
    spark = start_session("everywhere")
    print(as_json(carried_out(spark, asked, f"{file.name}-files")))
    spark.stop()


if __name__ == "__main__":
    main()
