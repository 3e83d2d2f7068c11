"""The `report` job: the rows of a wave of a report, read from the database or from the archive's files."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

from poisonadmin.core.domain.exports import ColumnType
from poisonadmin.core.domain.secret_settings import database_url
from poisonadmin.decisions.operations.domain.actions import DECISION_EVENTS
from poisonadmin.reports.domain.asked import AskedReport
from poisonadmin.reports.domain.kinds import Grain
from poisonadmin.reports.domain.reading import Archived, Reading, SparkDialect
from workers.spark.pieces import batch_slots
from workers.spark.tables.columns import SPARK_TYPES, columns_in
from workers.spark.tables.source import Extent, only_known_destinations, read_table

ID, PLACE, COUNT = "_id", "_place", "_count"
_TYPES = {
    ColumnType.TEXT: pa.string(),
    ColumnType.WHOLE: pa.int64(),
    ColumnType.DECIMAL: pa.float64(),
    ColumnType.TIME: pa.timestamp("us", tz="UTC"),
    ColumnType.BYTES: pa.binary(),
}
_ENDS = ("DLVD", "NDLV", "FAIL")


def collect(spark: SparkSession, reading: Reading) -> pa.Table:
    """Return the rows of a wave in the order of their messages, or how often its groups have which value.

    Shape: the columns of `asked.read`; for groups also `_count`.
    """
    asked = reading.asked
    schema = _arrow(_columns(asked))
    with batch_slots(spark) as tasks:
        if reading.archived is None:
            return _live(spark, reading.statements, schema, tasks)
        found = _archived(spark, asked, reading.archived, tasks).toArrow()
    if asked.measures is None:
        found = found.sort_by([(ID, "ascending"), (PLACE, "ascending")]).drop_columns([ID, PLACE])
    return found.cast(schema)


def _columns(asked: AskedReport) -> list[tuple[str, ColumnType]]:
    counted = [] if asked.measures is None else [(COUNT, ColumnType.WHOLE)]
    return [*((one.name, one.type) for one in asked.read), *counted]


def _arrow(columns: Iterable[tuple[str, ColumnType]]) -> pa.Schema:
    return pa.schema([(name, _TYPES[kind]) for name, kind in columns])


def _live(spark: SparkSession, statements: Sequence[str], schema: pa.Schema, tasks: int) -> pa.Table:
    """Return the rows of the statements in the order of these: each task carries out some that follow one another.

    Spark carries them as bytes. As columns they would become rows of the JVM, which takes half of the processor time.
    """
    tasks = max(1, min(tasks, len(statements)))
    begins = [len(statements) * task // tasks for task in range(tasks + 1)]
    shares = [tuple(statements[begin:end]) for begin, end in pairwise(begins)]
    found = spark.range(0, tasks, 1, tasks).mapInArrow(partial(_ask, shares, schema), "rows binary").toArrow()
    batches = (batch for some in found["rows"] for batch in pa.ipc.open_stream(some.as_buffer()))
    return pa.Table.from_batches(batches, schema)


def _ask(
    shares: Sequence[Sequence[str]], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield batches of one row, which holds rows of the report as Arrow's stream."""
    with adbc.connect(database_url(os.environ), autocommit=True) as connection, connection.cursor() as cursor:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for statement in shares[task]:
                    cursor.execute(statement)
                    for found in cursor.fetch_record_batch():
                        # Behind the columns of the report stands what the rows are ordered by. PostgreSQL cuts names.
                        rows = found.select(range(len(schema))).rename_columns(schema.names).cast(schema)
                        yield pa.RecordBatch.from_pydict({"rows": [_stream(rows)]})


def _stream(rows: pa.RecordBatch) -> bytes:
    content = pa.BufferOutputStream()
    with pa.ipc.new_stream(content, rows.schema) as stream:
        stream.write_batch(rows)
    found: bytes = content.getvalue().to_pybytes()
    return found


def _archived(spark: SparkSession, asked: AskedReport, archived: Archived, tasks: int) -> DataFrame:
    def read(name: str, columns: Sequence[str] | None = None) -> DataFrame:
        return read_table(spark, name, Extent(files=archived.files[name]), columns=columns, tasks=tasks)

    messages = only_of_messages(read("messages", _message_columns(asked, archived)), archived.where)

    def read_attempts() -> DataFrame:
        return only_known_destinations(read("attempts"), archived.destinations)

    rows = _rows(asked, messages, read_attempts, lambda: read("history"))
    return shown(rows.where(archived.rows), asked)


def _message_columns(asked: AskedReport, archived: Archived) -> list[str]:
    """Return the columns of messages that are asked for; headers and payload cost most."""
    dialect = SparkDialect(asked.time_zone)
    statement = " ".join([archived.where, archived.rows, *(one.expression(dialect) for one in asked.read)])
    return list(dict.fromkeys([*_LIGHT, *columns_in(statement)]))


_LIGHT = (
    *("id", "message_id", "address", "original_address", "state", "reason", "state_at", "received_at", "received_by"),
    *("failed_at", "expires_at", "conversation_id", "bookmark", "content_type", "payload_bytes", "attempt_number"),
    *("failure_count", "crash_count", "group_id", "fingerprint", "failure", "operation_id", "owner", "tags", "keys"),
)


def only_of_messages(messages: DataFrame, where: str) -> DataFrame:
    """Return the messages for which the condition holds, their tags no longer as JSON but as people read them."""
    found = messages.alias("m").where(where)
    return found.withColumn("tags", fn.expr("array_join(from_json(tags, 'array<string>'), ', ')")).alias("m")


def _rows(
    asked: AskedReport,
    messages: DataFrame,
    read_attempts: Callable[[], DataFrame],
    read_history: Callable[[], DataFrame],
) -> DataFrame:
    grain = asked.of_kind.grain
    of_message = fn.expr("t.message_id = m.id")
    if grain is Grain.MESSAGE:
        if "last" not in asked.needs:
            return messages
        return messages.join(last_failures(_tries(read_attempts())).alias("t"), of_message, how="left")
    if grain is Grain.ATTEMPT:
        return messages.join(_tries(read_attempts()).alias("t"), of_message, how="inner")
    lives = with_neighbours(read_history()).alias("h")
    return messages.join(lives, fn.expr("h.message_id = m.id"), how="inner")


def _tries(attempts: DataFrame) -> DataFrame:
    return attempts.select(
        *("message_id", "attempt_number", "started_at", "finished_at", "outcome", "error_class", "cause_class"),
        fn.substring("error_message", 1, 2000).alias("error_message"),
        *("title", "status_code", "destination", "ruling", "node", "rule", "consumer_version"),
    )


def last_failures(attempts: DataFrame) -> DataFrame:
    """Return the last try of each message that failed with an error."""
    latest = Window.partitionBy("message_id").orderBy(fn.desc("attempt_number"))
    failed = attempts.where("outcome <> 'delivered' AND error_class IS NOT NULL")
    return failed.withColumn("_nth", fn.row_number().over(latest)).where("_nth = 1").drop("_nth")


def with_neighbours(history: DataFrame) -> DataFrame:
    """Return decisions and what ended a stay, each with the state and the time of the next, and the time before."""
    life = Window.partitionBy("message_id").orderBy("seq")
    is_wanted = fn.col("event").isin(*DECISION_EVENTS) | fn.col("to_state").isin(*_ENDS)
    return (
        history.where((fn.col("event") != "assigned") & is_wanted)
        .withColumn("next_state", fn.lead("to_state").over(life))
        .withColumn("next_at", fn.lead("at").over(life))
        .withColumn("before_at", fn.lag("at").over(life))
    )


_PLACES = {Grain.MESSAGE: "0", Grain.ATTEMPT: "t.attempt_number", Grain.DECISION: "h.seq"}


def shown(rows: DataFrame, asked: AskedReport) -> DataFrame:
    """Return the columns of the report, or the counts of its groups."""
    dialect = SparkDialect(asked.time_zone)
    columns = [
        fn.expr(one.expression(dialect)).cast(SPARK_TYPES[_TYPES[one.type]]).alias(one.name) for one in asked.read
    ]
    if asked.measures is None:
        places = [
            fn.expr("m.id").cast("long").alias(ID),
            fn.expr(_PLACES[asked.of_kind.grain]).cast("long").alias(PLACE),
        ]
        return rows.select(*columns, *places)
    selected = rows.select(*columns)
    # By place: a name may hold a dot.
    plain = selected.toDF(*(f"c{place}" for place in range(len(columns))))
    counted = plain.groupBy(*plain.columns).agg(fn.count(fn.lit(1)).alias(COUNT))
    return counted.toDF(*(one.name for one in asked.read), COUNT)
