"""The tables as DataFrames: what is live and what is archived, as one."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from workers.spark.tables.columns import TABLES, spark_schema
from workers.spark.tables.source import FORMAT, Extent, Part, TableReader, TableSource


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
    source = spark.read.format(FORMAT).schema(spark_schema(chosen)).option("table", name).option("tasks", str(tasks))
    return source.options(**extent.as_options()).load()


def read_table_now(
    spark: SparkSession,
    name: str,
    extent: Extent,
    *,
    columns: Iterable[str] | None = None,
    conditions: Sequence[tuple[str, str]] = (),
    tasks: int,
) -> DataFrame:
    """Return the same as `read_table`, of live rows those only for which all conditions hold.

    `conditions`: a column's name and SQL, `{0}` standing for the column. Nothing else is asked of the database. What is
    read is planned here: Spark would plan it in three Python processes one after the other, which takes about a second,
    and seconds the first time.
    """
    table = TABLES[name]
    chosen = table.chosen(columns)
    asked = [(table.by_name[column], text) for column, text in conditions]
    reader = TableReader(table, [column.name for column in chosen], extent, tasks, asked)
    parts = reader.partitions()
    rows = spark.range(0, len(parts), 1, len(parts))
    return rows.mapInArrow(partial(_read, reader, parts), spark_schema(chosen))


def only_known_destinations(attempts: DataFrame, names: Sequence[str] | None) -> DataFrame:
    """Return attempts without the destinations that are not among the names; None: with all."""
    if names is None:
        return attempts
    known = fn.col("destination").isin(list(names))
    return attempts.withColumn("destination", fn.when(known, fn.col("destination")))


def _read(reader: TableReader, parts: Sequence[Part], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from reader.read(parts[number])
