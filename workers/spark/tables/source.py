"""The tables as DataFrames, by a Spark data source: rows of the live tables by ranges of ids, then of archived files.

Each range is one query of its own, so that no snapshot of the database is held for longer than that.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import and_

import adbc_driver_postgresql.dbapi as adbc
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import datasource as asked
from pyspark.sql import functions as fn
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from poisonadmin.archive.domain.aliases import ALIASED, ALIASES, Aliases
from poisonadmin.core.domain.archive_place import path_of, place_and_path
from poisonadmin.core.domain.secret_settings import database_url
from poisonadmin.messages.domain.id_ranges import IdRange
from workers.spark.tables.archive_files import located, naming
from workers.spark.tables.columns import TABLES, Column, Table, arrow_schema, spark_schema
from workers.spark.tables.filters import as_expression, as_sql, column_of, is_known


@dataclass(frozen=True)
class Extent:
    """The extent in which a table is read: ranges of ids in the database, and files of the archive (paths or URLs).

    `ids`: single messages in the database beside the ranges, rising.
    """

    ranges: Sequence[IdRange] = ()
    files: Sequence[str] = ()
    ids: Sequence[int] = ()

    def as_options(self) -> dict[str, str]:
        """Return the extent as options of a Spark data source."""
        ranges = [[one.after, one.until] for one in self.ranges]
        return {"ranges": json.dumps(ranges), "files": json.dumps(list(self.files)), "ids": json.dumps(list(self.ids))}


def from_options(options: Mapping[str, str]) -> Extent:
    """Return the extent that options of a Spark data source say."""
    ranges = [IdRange(after, until) for after, until in json.loads(options.get("ranges", "[]"))]
    return Extent(ranges, json.loads(options.get("files", "[]")), json.loads(options.get("ids", "[]")))


FORMAT = "poisonadmin"
_BATCH_ROWS = 2_000
_LEFT_OUT = """
SELECT path, array_agg(message_id) FROM archive_file JOIN archive_left_out USING (piece_id)
WHERE path = ANY(%s) GROUP BY path
"""
# Of single messages, in one query.
_MANY_IDS = 2_000


class Part(InputPartition):
    """The rows that one task reads: ranges of ids of the database, lists of single ids, and files of the archive."""

    def __init__(self, ranges: Sequence[IdRange], files: Sequence[str], some: Sequence[Sequence[int]] = ()) -> None:
        super().__init__(None)
        self.ranges = ranges
        self.files = files
        self.some = some


class TableSource(DataSource):
    """Options: `table`; `ranges`: JSON of [after, until] pairs; `files`: JSON of paths or URLs; `ids`: JSON of ids;
    `tasks`: at most."""

    @classmethod
    def name(cls) -> str:
        """Return what `spark.read.format` calls it."""
        return FORMAT

    def schema(self) -> str:
        """Return all columns of the table; a reader that names a schema reads no others."""
        return spark_schema(TABLES[self.options["table"]].columns)

    def reader(self, schema: StructType) -> "TableReader":
        """Return what reads the columns of the schema."""
        tasks = int(self.options.get("tasks", "1"))
        return TableReader(TABLES[self.options["table"]], schema.fieldNames(), from_options(self.options), tasks)


class TableReader(DataSourceReader):
    """Reads some columns of a table, by so many tasks at most.

    `conditions`: of live rows, as `Table.select` has them. `as_written`: with the former fingerprints that archived
    failures have in their files.
    """

    def __init__(
        self,
        table: Table,
        names: Sequence[str],
        extent: Extent,
        tasks: int,
        conditions: Sequence[tuple[Column, str]] = (),
        *,
        as_written: bool = False,
    ) -> None:
        self._table = table
        self._columns = table.chosen(names)
        self._extent = extent
        self._tasks = tasks
        self._conditions = conditions
        self._aliased = None if as_written else ALIASED.get(table.name)
        self._filters: list[asked.Filter] = []

    def pushFilters(self, filters: list[asked.Filter]) -> Iterable[asked.Filter]:  # noqa: N802  (Spark's name)
        """Keep the filters that can be answered here; return the others, and those that only live rows are asked."""
        self._filters = [one for one in filters if is_known(one, self._table)]
        again = self._of_aliases() if self._extent.files else []
        return [one for one in filters if one not in self._filters or one in again]

    def _of_aliases(self) -> list[asked.Filter]:
        changed = self._aliased.changed if self._aliased else ()
        return [one for one in self._filters if column_of(one) in changed]

    def partitions(self) -> list[Part]:
        """Return what each task reads: every range, list and file once, spread over the tasks."""
        step, extent = self._tasks, self._extent
        # All tasks have some, and no query has many.
        each = max(1, min(_MANY_IDS, -(-len(extent.ids) // step)))
        some = [extent.ids[start : start + each] for start in range(0, len(extent.ids), each)]
        parts = [Part(extent.ranges[n::step], extent.files[n::step], some[n::step]) for n in range(step)]
        return [part for part in parts if part.ranges or part.files or part.some] or [Part([], [])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        assert isinstance(partition, Part)
        schema = arrow_schema(self._columns)
        if partition.ranges or partition.some:
            yield from self._live(partition, schema)
        if partition.files:
            yield from self._archived(partition.files, schema)

    def _live(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        conditions = [*self._conditions, *as_sql(self._filters, self._table)]
        query = self._table.select(self._columns, conditions)
        queries = [query % {"after": one.after, "until": one.until} for one in part.ranges]
        for ids in part.some:
            text = f"{self._table.id} = ANY('{{{','.join(map(str, ids))}}}'::bigint[])"
            queries.append(f"{query} AND {text}" % {"after": ids[0] - 1, "until": ids[-1]})
        with adbc.connect(database_url(os.environ), autocommit=True) as connection:
            for one in queries:
                with connection.cursor() as cursor:
                    cursor.execute(one)
                    for batch in cursor.fetch_record_batch():
                        yield batch.cast(schema)

    def _archived(self, files: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        left_out = _left_out(files, self._table)
        aliases = aliases_in(files) if self._aliased else Aliases()
        again = self._of_aliases()
        expression = as_expression(one for one in self._filters if one not in again)
        needed = self._aliased.needed if self._aliased and aliases.former else ()
        chosen = arrow_schema(self._table.chosen(dict.fromkeys([*schema.names, *needed])))
        for file in files:
            where, path = located(*place_and_path(file))
            conditions = [one for one in (expression, left_out.get(path_of(file))) if one is not None]
            with naming(file):
                rows = ds.dataset(path, filesystem=where, format="parquet")
            # The columns of later versions are empty in a file of an earlier one.
            later = [column for column in chosen if column.name not in rows.schema.names]
            batches = rows.replace_schema(pa.schema([*rows.schema, *later])).to_batches(
                columns=chosen.names, filter=reduce(and_, conditions) if conditions else None, batch_size=_BATCH_ROWS
            )
            for batch in batches:
                yield _renamed(batch, self._table, aliases).select(schema.names).cast(schema)


def aliases_in(files: Sequence[str]) -> Aliases:
    """Return the aliases of the failures in some files of the archive."""
    if not files:
        return Aliases()
    with psycopg.connect(database_url(os.environ), connect_timeout=5) as connection:
        return Aliases(connection.execute(ALIASES, [[path_of(file) for file in files]]).fetchall())


def _renamed(batch: pa.RecordBatch, table: Table, aliases: Aliases) -> pa.RecordBatch:
    """Return rows of a file with the fingerprints that their failures have now."""
    if not aliases.former or aliases.former.isdisjoint(pc.unique(batch.column("fingerprint")).to_pylist()):
        return batch
    aliased = ALIASED[table.name]
    changed = [name for name in batch.schema.names if name in aliased.changed]
    chosen = batch.select([*dict.fromkeys([*aliased.needed, *changed])]).to_pylist()
    rows = [aliases.applied(table.name, row) for row in chosen]
    for name in changed:
        at = batch.schema.get_field_index(name)
        values = pa.array([row[name] for row in rows], batch.schema.field(at).type)
        batch = batch.set_column(at, batch.schema.field(at), values)
    return batch


def _left_out(files: Sequence[str], table: Table) -> dict[str, pc.Expression]:
    """Return of each path which rows count, where some do not: their messages are live again, or erased."""
    with psycopg.connect(database_url(os.environ), connect_timeout=5) as connection:
        found = connection.execute(_LEFT_OUT, [[path_of(file) for file in files]]).fetchall()
    key = pc.field(table.columns[0].name)
    return {path: ~key.isin(ids) for path, ids in found}


def read_table(
    spark: SparkSession, name: str, extent: Extent, *, columns: Iterable[str] | None = None, tasks: int
) -> DataFrame:
    """Return the rows of a table (`columns.TABLES`) within the extent, in no order.

    `columns`: those that are needed, all by default; headers and payload cost most. `tasks`: at most so many read it.
    A comparison with a constant is answered where the rows are. Read a frame once, and make another for other rows:
    Spark asks without a filter what it asked with one before. Errors: `KeyError` for a column that there is not.
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
