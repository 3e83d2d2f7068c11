"""Fields and values of messages as a DataFrame, and how often each occurs among failing messages and others.

A row of features is a field of a message with one of its values: `id`, `failing`, `field`, `text` (null where it is too
long, or holds others), `number` (null where it is none).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from poisonadmin.comparisons.domain.conditions import FieldCondition, Operator
from poisonadmin.comparisons.domain.features import ATTEMPT_FIELDS, ComparedMessage, features
from workers.spark.tables.columns import RowSchema

# A row a value of a field of a message, as poisonadmin/comparisons/domain/features.py says.
FEATURE = RowSchema("id long, failing boolean, field string, text string, number double")
# So many messages are turned into one batch of features.
_MESSAGES = 2_000
# A long has 64 bits, and the last one is the sign's.
WORD_BITS = 62


def only_chosen(frame: DataFrame, chosen: DataFrame, *, key: str) -> DataFrame:
    """Return the rows whose message, by this `key`, is one of `chosen` (`id`, `failing`), with `failing`.

    A file of the archive holds others, too.
    """
    return frame.join(F.broadcast(chosen.withColumnRenamed("id", key)), key, "inner")


def features_of_messages(messages: DataFrame) -> DataFrame:
    """Return the features of rows of `messages` with `failing`. JSON is flattened in Python: Spark has no function
    that does it for documents of any shape, and bounds what it makes of them."""
    return messages.mapInArrow(_flatten, FEATURE.spark)


def _flatten(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, _MESSAGES):
            yield _features(batch.slice(start, _MESSAGES).to_pylist())


def _features(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    found: list[list[Any]] = [[] for _ in FEATURE.arrow]
    ids, failing, fields, texts, numbers = found
    for row in rows:
        subject = ComparedMessage(
            row["original_address"] or row["address"],
            row["received_at"],
            row["received_by"],
            row["content_type"],
            row["payload_bytes"],
            headers=row["headers"],
            keys=row["keys"],
            payload=row.get("payload"),
        )
        for one in features(subject, loads=orjson.loads):
            ids.append(row["id"])
            failing.append(row["failing"])
            fields.append(one.field)
            texts.append(one.text)
            numbers.append(one.number)
    columns = [pa.array(values, each.type) for values, each in zip(found, FEATURE.arrow, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=FEATURE.arrow)


def features_of_attempts(attempts: DataFrame) -> DataFrame:
    """Return what is known of the last attempt of each message in rows of `attempts` with `failing`."""
    names = sorted(ATTEMPT_FIELDS)
    latest = F.max_by(F.struct(*names), "attempt_number").alias("latest")
    pairs = [F.struct(F.lit(name).alias("field"), F.col(f"latest.{name}").alias("text")) for name in names]
    return (
        attempts.groupBy(F.col("message_id").alias("id"), "failing")
        .agg(latest)
        .select("id", "failing", F.inline(F.array(*pairs)))
        .where(F.col("text").isNotNull())
        .select("id", "failing", "field", "text", F.lit(None).cast("double").alias("number"))
    )


def value_counts(features: DataFrame, *, fewest: int) -> DataFrame:
    """Return a row a field: messages that have it, `failing` and `others`; `values` that so many failing ones have.

    `tested`: how many values so many messages have. `numbers`: how many different ones, which `numeric` messages have.
    """
    failing, others = F.col("failing"), F.col("others")
    is_value, is_number = F.col("text").isNotNull(), F.col("number").isNotNull()
    counted = features.groupBy("field", "text").agg(*_counts(), F.max("number").alias("number"))
    return (
        counted.groupBy("field")
        .agg(
            F.sum(failing).alias("failing"),
            F.sum(others).alias("others"),
            F.count_if(is_value & (failing + others >= fewest)).alias("tested"),
            F.count_if(is_number).alias("numbers"),
            F.sum(F.when(is_number, failing + others).otherwise(0)).alias("numeric"),
            F.collect_list(F.when(is_value & (failing >= fewest), F.struct("text", "failing", "others"))).alias(
                "values"
            ),
        )
        .where(failing + others >= fewest)
    )


def _counts() -> tuple[Column, Column]:
    return F.count_if("failing").alias("failing"), F.count_if(~F.col("failing")).alias("others")


def quantiles(features: DataFrame, fields: Sequence[str], *, count: int) -> DataFrame:
    """Return a row a field: `points`, about so many, which cut its numbers into parts of about the same size.

    Half of them cut those of failing messages, half those of all.
    """
    shares = F.array(*(F.lit((number + 1) / (count // 2 + 1)) for number in range(count // 2)))
    failing = F.when(F.col("failing"), F.col("number"))
    return (
        features.where(F.col("field").isin(*fields) & F.col("number").isNotNull())
        .groupBy("field")
        .agg(
            F.percentile_approx("number", shares, 2_000).alias("of_all"),
            F.percentile_approx(failing, shares, 2_000).alias("of_failing"),
        )
        .select("field", F.array_sort(F.array_union("of_all", F.coalesce("of_failing", F.array()))).alias("points"))
    )


def range_counts(features: DataFrame, ranges: DataFrame) -> DataFrame:
    """Return a row a range of numbers that has any: `field`, `place`, the `low`est and `high`est number, counts.

    `ranges`: `field`, `place`, `low` (in it), `high` (not in it).
    """
    within = _within(features, ranges, F.col("number") < F.col("ranges.high"))
    return within.groupBy("ranges.field", "ranges.place").agg(
        F.min("number").alias("low"), F.max("number").alias("high"), *_counts()
    )


def number_counts(features: DataFrame, ranges: DataFrame) -> DataFrame:
    """Return a row a number within the ranges, both ends in it: `field`, `number`, `failing`, `others`."""
    within = _within(features, ranges, F.col("number") <= F.col("ranges.high"))
    return within.groupBy("ranges.field", "number").agg(*_counts())


def _within(features: DataFrame, ranges: DataFrame, is_low_enough: Column) -> DataFrame:
    """Return the features whose numbers are within a range of their field, with the range."""
    is_of_field = F.col("features.field") == F.col("ranges.field")
    is_within = is_of_field & (F.col("number") >= F.col("ranges.low")) & is_low_enough
    return features.alias("features").join(F.broadcast(ranges.alias("ranges")), is_within, "inner")


def condition_words(features: DataFrame, spark: SparkSession, conditions: Sequence[FieldCondition]) -> DataFrame:
    """Return a row a message: `id`, and `word_0`, `word_1`, …, whose bits say which conditions it fulfils.

    `WORD_BITS` conditions a word, the first in the lowest bit. Messages that fulfil none have no row.
    """
    rows = [
        {
            "asked": one.field,
            "operator": str(one.operator),
            "wanted": one.value if isinstance(one.value, str) else None,
            "bound": one.value if isinstance(one.value, float) else None,
            "word": number // WORD_BITS,
            "bit": 1 << number % WORD_BITS,
        }
        for number, one in enumerate(conditions)
    ]
    schema = "asked string, operator string, wanted string, bound double, word int, bit long"
    operator, number, bound = F.col("operator"), F.col("number"), F.col("bound")
    holds = (F.col("field") == F.col("asked")) & (
        (operator == Operator.EXISTS)
        | ((operator == Operator.IS) & (F.col("text") == F.col("wanted")))
        | ((operator == Operator.AT_LEAST) & (number >= bound))
        | ((operator == Operator.BELOW) & (number < bound))
    )
    words = range((len(conditions) - 1) // WORD_BITS + 1)
    return (
        features.join(F.broadcast(spark.createDataFrame(rows, schema)), holds, "inner")
        .groupBy("id")
        .agg(
            *(
                F.bit_or(F.when(F.col("word") == word, F.col("bit")).otherwise(0)).alias(f"word_{word}")
                for word in words
            )
        )
        .select("id", *(f"word_{word}" for word in words))
    )
