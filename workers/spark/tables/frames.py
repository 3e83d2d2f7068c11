"""The tables as DataFrames: what is live and what is archived, as one."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from poisonadmin.messages.domain.id_ranges import IdRange
from workers.spark.tables.columns import TABLES, spark_schema
from workers.spark.tables.source import FORMAT, TableSource


@dataclass(frozen=True)
class Extent:
    """How much of a table is read: ranges of ids in the database, and files of the archive (paths or URLs).

    `ids`: single messages in the database beside the ranges, rising.
    """

    ranges: Sequence[IdRange] = ()
    files: Sequence[str] = ()
    ids: Sequence[int] = ()


def read_table(
    spark: SparkSession, name: str, extent: Extent, *, columns: Iterable[str] | None = None, tasks: int
) -> DataFrame:
    """Return the rows of a table (`columns.TABLES`) within the extent, in no order.

    `columns`: those that are needed, all by default; headers and payload cost most. `tasks`: at most so many read it.
    A comparison with a constant is answered where the rows are. Errors: `KeyError` for a column that there is not.
    """
    spark.dataSource.register(TableSource)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    chosen = TABLES[name].chosen(columns)
    return (
        spark.read.format(FORMAT)
        .schema(spark_schema(chosen))
        .option("table", name)
        .option("ranges", json.dumps([[one.after, one.until] for one in extent.ranges]))
        .option("files", json.dumps(list(extent.files)))
        .option("ids", json.dumps(list(extent.ids)))
        .option("tasks", str(tasks))
        .load()
    )
