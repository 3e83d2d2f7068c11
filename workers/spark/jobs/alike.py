"""The `alike` job: which fingerprints' failures may be alike.

A failure becomes a set of tokens, and the set a row of MinHashes (`pyspark.ml`). Failures that share a band of these
are neighbours, and those neighbours are pairs whose sets have enough in common. How alike a pair is, and what to
propose, is said by poisonadmin/groups/alike/domain.

The hashes are joined here and not by `approxSimilarityJoin`. That takes one equal hash for enough, so of thousands of
groups every pair that shares its class is looked at; and it pairs all that share a hash, so many groups of one kind
make a job that does not end.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.ml.feature import HashingTF, MinHashLSH
from pyspark.ml.functions import vector_to_array
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from poisonadmin.groups.alike.domain.proposals import AlikeAnswer, AskedGroups, ComparedGroup
from poisonadmin.groups.alike.domain.similarity import WORTH_COMPARING, ComparedFailure, compared, tokens
from poisonadmin.groups.domain.failures import Failure, stored_failure
from poisonadmin.messages.domain.outcomes import Outcome
from workers.spark.pieces import batch_slots
from workers.spark.tables.columns import RowSchema
from workers.spark.tables.source import Extent, read_table_now

# A row a fingerprint, as poisonadmin/groups/alike/domain/similarity.py says; `place`: the fingerprint's in the order in
# which groups should stay, `tokens`: what a MinHash compares, never empty.
COMPARED_FAILURE = RowSchema("place int, kind string, message string, frames array<string>, tokens array<string>")
# A pair that has half of its tokens in common shares a band in 995 of 1,000 cases, one that has a tenth in 39.
_BANDS, _HASHES_A_BAND = 40, 3
# In a band each has so many neighbours, and the first one of all that share it: many of one kind stay a star.
_NEIGHBOURS = 20
_MOST_PAIRS = 100_000
_TOKEN_BITS = 20
_SEED = 20_260_123
_REPORTED = [str(Outcome.IMPORTED), str(Outcome.RETURNED)]
_FAILURE = ("outcome", "error_class", "cause_class", "error_message", "stack", "title")
_ATTEMPTS = ("message_id", "attempt_number", *_FAILURE)

Report = Callable[[str], None]
"""Is told what is done next; it may raise, and then the search ends."""


def find_alike(spark: SparkSession, asked: AskedGroups, report: Report = lambda _: None) -> AlikeAnswer:
    """Return which of the fingerprints are worth comparing. One whose failure is gone is left out."""
    groups = asked.groups
    if not groups:
        return AlikeAnswer(0, [], {})
    with batch_slots(spark) as tasks:
        failures = _failures(spark, asked, tasks).persist()
        try:
            report("reading one failure of each group")
            rows = failures.drop("tokens").toArrow().to_pylist()
            report("looking for groups that may be alike")
            pairs = alike_pairs(failures).collect() if rows else []
        finally:
            failures.unpersist()
    return AlikeAnswer(
        len(rows),
        [(groups[pair["first"]].id, groups[pair["second"]].id) for pair in pairs],
        {groups[row["place"]].id: ComparedFailure(row["kind"], row["message"], tuple(row["frames"])) for row in rows},
    )


def _failures(spark: SparkSession, asked: AskedGroups, tasks: int) -> DataFrame:
    live = {at: one for at, one in enumerate(asked.groups) if one.attempt_number is not None}
    archived = {at: one for at, one in enumerate(asked.groups) if one.attempt_number is None}
    extent = Extent(ids=sorted({one.message_id for one in live.values()}))
    numbers = ", ".join(str(number) for number in sorted({one.attempt_number or 0 for one in live.values()}))
    conditions = [("attempt_number", f"{{0}} IN ({numbers})")] if live else []
    found = (
        read_table_now(spark, "attempts", extent, columns=_ATTEMPTS, conditions=conditions, tasks=tasks)
        .join(_asked(spark, live, "attempt_number", pa.int32()), ["message_id", "attempt_number"], "inner")
        .select("place", *_FAILURE)
    )
    if archived:
        files, columns = Extent(files=asked.files), [*_ATTEMPTS, "fingerprint"]
        found = found.unionByName(
            read_table_now(spark, "attempts", files, columns=columns, tasks=tasks)
            .join(_asked(spark, archived, "fingerprint", pa.string()), ["message_id", "fingerprint"], "inner")
            .groupBy("place")
            .agg(F.min_by(F.struct(*_FAILURE), "attempt_number").alias("first"))
            .select("place", "first.*")
        )
    return found.mapInArrow(_compare, COMPARED_FAILURE.spark)


def _asked(spark: SparkSession, groups: Mapping[int, ComparedGroup], name: str, kind: pa.DataType) -> DataFrame:
    """Return a row a group: `message_id`, the field of this name, `place`."""
    columns = {
        "message_id": pa.array([one.message_id for one in groups.values()], pa.int64()),
        name: pa.array([getattr(one, name) for one in groups.values()], kind),
        "place": pa.array(list(groups), pa.int32()),
    }
    return F.broadcast(spark.createDataFrame(pa.table(columns)))


def _compare(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Bring failures into the form that is compared, in Python: by the functions that make fingerprints."""
    for batch in batches:
        yield pa.RecordBatch.from_pylist([_compared(row) for row in batch.to_pylist()], schema=COMPARED_FAILURE.arrow)


def _compared(row: Mapping[str, Any]) -> dict[str, Any]:
    known = {
        "error_class": row["error_class"] or "",
        "cause_class": row["cause_class"],
        "message": row["error_message"] or "",
        "stack": row["stack"] or "",
    }
    failure = stored_failure(**known, title=row["title"] or "", is_reported=row["outcome"] in _REPORTED)
    if failure is None:  # the frame that its deliverer knew was cut; the stack is what is left
        failure = Failure(known["error_class"], known["message"], known["cause_class"], stack=known["stack"])
    found = compared(failure)
    return {"place": row["place"], **found.as_json(), "tokens": tokens(found)}


def alike_pairs(failures: DataFrame) -> DataFrame:
    """Return a row a pair: `first`, `second` (places, rising), `common` (the Jaccard index of their tokens), at least
    `WORTH_COMPARING`; those with most in common first, at most `_MOST_PAIRS`.

    `failures`: `place`, `tokens`.
    """
    hashed = HashingTF(inputCol="tokens", outputCol="features", numFeatures=1 << _TOKEN_BITS, binary=True)
    hashes = MinHashLSH(inputCol="features", outputCol="hashes", numHashTables=_BANDS * _HASHES_A_BAND, seed=_SEED)
    features = hashed.transform(failures.select("place", "tokens"))
    bands = hashes.fit(features).transform(features).select("place", F.explode(_bands("hashes")).alias("band"))
    sets = failures.select("place", F.transform("tokens", _hash).alias("tokens"))
    common = F.size(F.array_intersect("one.tokens", "other.tokens")) / F.size(
        F.array_union("one.tokens", "other.tokens")
    )
    return (
        _neighbours(bands)
        .join(sets.alias("one"), F.col("first") == F.col("one.place"), "inner")
        .join(sets.alias("other"), F.col("second") == F.col("other.place"), "inner")
        .select("first", "second", common.alias("common"))
        .where(F.col("common") >= WORTH_COMPARING)
        .orderBy(F.desc("common"), "first", "second")
        .limit(_MOST_PAIRS)
        .select("first", "second", "common")
    )


def _hash(token: Column) -> Column:
    return F.xxhash64(token)


def _bands(hashes: str) -> Column:
    """Return the bands of a row: one long for each few hashes, unlike that of any other band."""
    return F.array(
        *(
            F.xxhash64(
                F.lit(band),
                *(
                    vector_to_array(F.col(hashes)[band * _HASHES_A_BAND + number])[0]
                    for number in range(_HASHES_A_BAND)
                ),
            )
            for band in range(_BANDS)
        )
    )


def _neighbours(bands: DataFrame) -> DataFrame:
    """Return a row a pair of places that share a band: `first`, `second`, rising."""
    in_order = Window.partitionBy("band").orderBy("place")
    before = F.collect_list("place").over(in_order.rowsBetween(-_NEIGHBOURS, -1))
    first = F.first("place").over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    return (
        bands.select(F.col("place").alias("second"), F.array_union(before, F.array(first)).alias("firsts"))
        .select(F.explode("firsts").alias("first"), "second")
        .where(F.col("first") < F.col("second"))
        .distinct()
        .select("first", "second")
    )
