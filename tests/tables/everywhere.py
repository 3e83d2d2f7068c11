"""Run each job on the Spark that the environment names, and print what it gives, as JSON: a script for a test."""

import json
import sys
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from poisonadmin.messages.domain.id_ranges import IdRange
from workers.spark.session import start_session
from workers.spark.tables.columns import TABLES
from workers.spark.tables.extent import Extent
from workers.spark.tables.frames import read_table

RANGES = [IdRange(0, 20), IdRange(20, 2**62)]


def _table(name: str) -> Callable[[SparkSession, Extent], DataFrame]:
    return lambda spark, extent: read_table(spark, name, extent, tasks=2)


def _by_address(spark: SparkSession, extent: Extent) -> DataFrame:
    messages = read_table(spark, "messages", extent, columns=["id", "address"], tasks=2)
    history = read_table(spark, "history", extent, columns=["message_id", "event"], tasks=2)
    return (
        messages.join(history, messages.id == history.message_id)
        .where(f.col("event") != "claimed")
        .groupBy("address", "event")
        .agg(f.count("*").alias("n"), f.max("id").alias("last"))
        .select("address", "event", "n", "last")
    )


JOBS = {**{name: _table(name) for name in TABLES}, "by address": _by_address}


def main() -> None:
    """Print {job: rows in their order}; the argument is a file of the archive with messages, or nothing."""
    extent = Extent(RANGES, sys.argv[1:])
    spark = start_session("everywhere")
    found = {
        name: sorted(
            [str(value) for value in row]
            for row in job(spark, Extent(RANGES) if name != "messages" else extent).collect()
        )
        for name, job in JOBS.items()
    }
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
