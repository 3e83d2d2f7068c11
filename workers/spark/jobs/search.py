"""The `search` job: which messages of a wave hold what is looked for, as a DataFrame over live rows and archived files.

What Spark's functions answer comes first; JSON is parsed only of payloads that have the names that a path needs.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial, reduce
from operator import and_, or_
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from poisonadmin.core.domain.json_path import parse_path
from poisonadmin.search.deep.domain import (
    Clause,
    HeaderIs,
    Hit,
    PayloadAt,
    PayloadHolds,
    Wave,
    payload_test,
)
from workers.spark.pieces import batch_slots
from workers.spark.tables.columns import MESSAGES, arrow_schema, columns_in, spark_schema
from workers.spark.tables.filters import literal
from workers.spark.tables.source import Extent, read_table, read_table_now

_ESCAPES = b"\\"
# Single messages are few.
_TASKS_OF_IDS = 2
_SHOWN = ("message_id", "address", "state", "received_at")


def find(spark: SparkSession, wave: Wave) -> list[Hit]:
    """Return the messages of a wave that are what it asks for, in any order. The tasks read `DATABASE_URL`."""
    with batch_slots(spark, max(len(wave.ranges), len(wave.files), min(len(wave.ids), _TASKS_OF_IDS))) as tasks:
        if wave.files:
            names = list(dict.fromkeys(["id", *_SHOWN, *columns_in(wave.where), *_read(wave)]))
            files = read_table(spark, "messages", Extent(files=wave.files), columns=names, tasks=tasks)
            found = only_holding(files.alias("m").where(wave.where), wave.clauses)
            return [Hit(**row) for row in found.select("id", *_SHOWN).toArrow().to_pylist()]
        extent = Extent(wave.ranges, ids=wave.ids)
        columns, conditions = ["id", *_read(wave)], _conditions(wave.clauses)
        live = read_table_now(spark, "messages", extent, columns=columns, conditions=conditions, tasks=tasks)
        found = only_holding(live, wave.clauses)
        return [Hit(message_id) for message_id in found.select("id").toArrow()["id"].to_pylist()]


def _read(wave: Wave) -> list[str]:
    """Return the large columns that the wave needs."""
    is_header = [isinstance(clause, HeaderIs) for clause in wave.clauses]
    return [*(["headers"] if any(is_header) else []), *([] if all(is_header) else ["payload"])]


def _conditions(clauses: Iterable[Clause]) -> list[tuple[str, str]]:
    """Return what the database can tell of a message without sending it: not less than what the clauses find.

    A thousandth of all bodies is then left to be read as rows, which costs ten times as much as looking at the bytes.
    """
    found = []
    for clause in clauses:
        if isinstance(clause, PayloadHolds):
            found.append(("payload", _holds_in_sql(literal(clause.held), negated=clause.negated)))
        elif isinstance(clause, HeaderIs):
            # Of text, and so of whole characters.
            texts = [f"position({literal(text)} IN {{0}}) > 0" for text in clause.members]
            one_of = f"coalesce({' OR '.join(texts)}, FALSE)"
            found.append(("headers", f"NOT {one_of}" if clause.negated else one_of))
        elif not clause.negated and (needed := _needed_texts(clause)):
            texts = [_holds_in_sql(literal(text)) for text in needed]
            found.append(("payload", f"({' AND '.join(texts)}) OR {_holds_in_sql(literal(_ESCAPES))}"))
    return found


def _holds_in_sql(held: str, *, negated: bool = False) -> str:
    return f"position({held} IN coalesce({{0}}, '')) {'=' if negated else '>'} 0"


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
    """Return whether a payload has the texts that are needed, or escapes characters."""
    payload = sf.col("payload")
    needed = [sf.contains(payload, sf.lit(text)) for text in _needed_texts(clause)]
    if not needed:
        return payload.isNotNull()
    return reduce(and_, needed) | sf.contains(payload, sf.lit(_ESCAPES))


def _needed_texts(clause: PayloadAt) -> list[bytes]:
    """Return the names of the path, and the text that is wanted, as JSON has them where it escapes nothing."""
    names = [step for step in parse_path(clause.condition["path"]) if isinstance(step, str)]
    wanted = clause.condition.get("one_of", ())
    texts = [*names, *(wanted if len(wanted) == 1 and isinstance(wanted[0], str) else ())]
    return [json.dumps(text, ensure_ascii=False).encode() for text in texts]


def _holding(
    clauses: Sequence[PayloadAt], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    test = payload_test(clauses, loads=_loads)
    for batch in batches:
        payloads = batch.column(batch.schema.get_field_index("payload"))
        yield batch.filter(pa.array([test(payload.as_py()) for payload in payloads], pa.bool_())).cast(schema)


def _loads(payload: bytes) -> Any:
    """Parse JSON as orjson does; also where a number is beyond a double, or half of a surrogate pair stands alone."""
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError:
        return json.loads(payload)
