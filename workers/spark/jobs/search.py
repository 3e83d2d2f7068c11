"""The `search` job: which messages of a wave hold what is looked for, as a DataFrame over live rows and archived files.

What Spark's functions answer comes first; JSON is parsed only of payloads that have the names that a path needs.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from operator import and_, or_

import orjson
import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from poisonadmin.core.domain.json_path import parse_path
from poisonadmin.rules.domain.content_rules import Subject
from poisonadmin.rules.domain.json_conditions import Holds, json_condition
from poisonadmin.searches.domain.scan import Clause, ColumnIs, HeaderIs, Hit, PayloadAt, PayloadHolds, Wave
from workers.spark.pieces import batch_slots
from workers.spark.tables.columns import MESSAGES, arrow_schema, spark_schema
from workers.spark.tables.frames import Extent, read_table

_SHOWN = ("message_id", "address", "state", "received_at")


def find(spark: SparkSession, wave: Wave) -> list[Hit]:
    """Return the messages of a wave that are what it asks for, in any order. The tasks read `DATABASE_URL`."""
    with batch_slots(spark, max(len(wave.ranges), len(wave.files))) as tasks:
        if wave.files:
            names = list(dict.fromkeys(["id", *_SHOWN, *(column.column for column in wave.columns), *_read(wave)]))
            files = read_table(spark, "messages", Extent(files=wave.files), columns=names, tasks=tasks)
            found = only_holding(only_with_columns(files, wave.columns), wave.clauses)
            return [Hit(**row) for row in found.select("id", *_SHOWN).toArrow().to_pylist()]
        live = read_table(spark, "messages", Extent(wave.ranges), columns=["id", *_read(wave)], tasks=tasks)
        found = only_holding(live if wave.ids is None else only_with_ids(live, wave.ids), wave.clauses)
        return [Hit(message_id) for message_id in found.select("id").toArrow()["id"].to_pylist()]


def _read(wave: Wave) -> list[str]:
    """Return the large columns that the wave needs."""
    is_header = [isinstance(clause, HeaderIs) for clause in wave.clauses]
    return [*(["headers"] if any(is_header) else []), *([] if all(is_header) else ["payload"])]


def only_with_ids(messages: DataFrame, ids: Sequence[int]) -> DataFrame:
    """Return the messages with one of these ids; the database finds them."""
    return messages.where(f"id IN ({', '.join(str(int(one)) for one in ids)})")


def only_with_columns(messages: DataFrame, columns: Iterable[ColumnIs]) -> DataFrame:
    """Return the messages whose columns are so."""
    for column in columns:
        messages = messages.where(_not_null(_column_is(column), negated=column.negated))
    return messages


def _column_is(column: ColumnIs) -> Expression:
    one = sf.col(column.column)
    if column.name == "[]":
        return sf.arrays_overlap(
            sf.from_json(one, "array<string>"), sf.array(*(sf.lit(value) for value in column.values))
        )
    if column.name:
        return sf.from_json(one, "map<string,string>").getItem(column.name).isin(list(column.values))
    if column.operator != "=":
        compare: dict[str, Callable[[Expression], Expression]] = {
            ">": one.__gt__, ">=": one.__ge__, "<": one.__lt__, "<=": one.__le__,
        }  # fmt: skip
        return compare[column.operator](sf.lit(column.values[0]))
    known = [value for value in column.values if value is not None]
    is_known = one.isin(known) if known else sf.lit(False)
    return is_known | one.isNull() if None in column.values else is_known


def only_holding(messages: DataFrame, clauses: Iterable[Clause]) -> DataFrame:
    """Return the messages whose payload and headers are what all clauses say."""
    inside = [clause for clause in clauses if isinstance(clause, PayloadAt)]
    for clause in clauses:
        if isinstance(clause, PayloadHolds):
            holds = sf.contains(sf.col("payload"), sf.lit(clause.held))
        elif isinstance(clause, HeaderIs):
            holds = reduce(or_, (sf.contains(sf.col("headers"), sf.lit(text)) for text in clause.members))
        else:
            continue
        messages = messages.where(_not_null(holds, negated=clause.negated))
    if not inside:
        return messages
    for clause in inside:
        if not clause.negated:
            messages = messages.where(_may_hold(clause))
    columns = [column for column in MESSAGES.columns if column.name in messages.columns]
    ordered = messages.select(*(column.name for column in columns))
    return ordered.mapInArrow(partial(_holding, inside, arrow_schema(columns)), spark_schema(columns))


def _not_null(holds: Expression, *, negated: bool) -> Expression:
    """Return whether a condition holds, or does not; what is not known does not hold."""
    known = sf.coalesce(holds, sf.lit(False))
    return ~known if negated else known


def _may_hold(clause: PayloadAt) -> Expression:
    """Return whether a payload has the names of the path, and the text that is wanted, or escapes characters."""
    names = [step for step in parse_path(clause.condition["path"]) if isinstance(step, str)]
    wanted = clause.condition.get("one_of", ())
    texts = [*names, *(wanted if len(wanted) == 1 and isinstance(wanted[0], str) else ())]
    payload = sf.col("payload")
    needed = [sf.contains(payload, sf.lit(json.dumps(text, ensure_ascii=False).encode())) for text in texts]
    if not needed:
        return payload.isNotNull()
    return reduce(and_, needed) | sf.contains(payload, sf.lit(b"\\"))


def _holding(
    clauses: Sequence[PayloadAt], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    tests = [(json_condition(clause.condition), clause.negated) for clause in clauses]
    for batch in batches:
        payloads = batch.column(batch.schema.get_field_index("payload"))
        yield batch.filter(pa.array([_holds(payload.as_py(), tests) for payload in payloads], pa.bool_())).cast(schema)


def _holds(payload: bytes | None, tests: Sequence[tuple[Holds, bool]]) -> bool:
    subject = Subject(payload or b"", loads=orjson.loads)
    return all(_is_so(subject, holds) is not negated for holds, negated in tests)


def _is_so(subject: Subject, holds: Holds) -> bool:
    try:
        return subject.is_looked_into and holds(subject.document())
    except ValueError:  # the payload is not JSON
        return False
