"""The `compare` job: what failing messages have in common that others have not.

Messages become rows of one field with one value (`compare_values.py`), which Spark counts, cuts and marks. What the
counts mean is said by poisonadmin/comparisons/domain, on the driver.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from poisonadmin.comparisons.domain.association import Association
from poisonadmin.comparisons.domain.comparison import Compared, ComparisonAnswer
from poisonadmin.comparisons.domain.conditions import FieldCondition, Operator
from poisonadmin.comparisons.domain.cuts import Bin, Cut, best_cut, bounds
from poisonadmin.comparisons.domain.features import ATTEMPT_FIELDS
from poisonadmin.comparisons.domain.findings import Candidate, Sample, find
from workers.spark.jobs import compare_values as values
from workers.spark.pieces import batch_slots
from workers.spark.tables.source import Extent, only_known_destinations, read_table_now

Report = Callable[[str], None]
"""Is told what is done next; it may raise, and then the comparison ends."""

_MESSAGES = ("id", "address", "original_address", "received_at", "received_by", "content_type", "payload_bytes", "keys",
             "headers")  # fmt: skip
_ATTEMPTS = ("message_id", "attempt_number", "destination", "node", "consumer_version")
# Conditions that are looked at together, those that tell most apart.
MOST_CONDITIONS = 4 * values.WORD_BITS - 1
# Of numeric fields those that most messages have; each has at least so many different numbers.
_MOST_NUMERIC, _FEWEST_NUMBERS, _POINTS = 100, 5, 64
_MOST_REFINED = 20
# Part of all messages that a field is of, which is compared as a number.
_MOSTLY = 0.9
_PRESENT = FieldCondition("address", Operator.EXISTS)


@dataclass
class _Tried:
    """Conditions with how many messages fulfil them, and how many were tried to find these."""

    conditions: list[tuple[FieldCondition, Association]] = field(default_factory=list)
    count: int = 0


def compare(spark: SparkSession, asked: Compared, report: Report = lambda _: None) -> ComparisonAnswer:
    """Return what the failing messages have in common. Those that are gone are left out."""
    with batch_slots(spark) as tasks:
        features = _features(spark, asked, tasks).persist()
        try:
            report("reading messages and counting values")
            sample = Sample(len(asked.failing), len(asked.others))
            counted = values.value_counts(features, fewest=sample.fewest).collect()
            fields = _compared([one for one in counted if one["field"] not in asked.excluded_fields], sample)
            tried = _of_values(fields, sample)
            report("looking for thresholds")
            _try_cuts(spark, features, fields, sample, tried)
            best = sorted(tried.conditions, key=lambda one: (-one[1].g, one[0].plainness))[:MOST_CONDITIONS]
            report("looking at what goes together")
            marks = _marks(spark, features, [one for one, _ in best])
        finally:
            features.unpersist()
    held, sample = _bits(asked, marks)
    everything = held[_PRESENT]
    candidates = [
        Candidate(one, everything & ~held[_presence(one)] if one.operator is Operator.MISSING else held[one])
        for one, _ in best
    ]
    found = find(candidates, sample, tested=tried.count)
    return ComparisonAnswer(sample.failing, sample.others, len(fields), tried.count, found)


def _features(spark: SparkSession, asked: Compared, tasks: int) -> DataFrame:
    ids = [*asked.failing, *asked.others]
    live = sorted({*ids} - {*asked.archived})
    is_failing = [True] * len(asked.failing) + [False] * len(asked.others)
    chosen = spark.createDataFrame(pa.table({"id": pa.array(ids, pa.int64()), "failing": is_failing}))

    def read(name: str, columns: Sequence[str], key: str) -> DataFrame:
        extent = Extent(files=asked.files.get(name, ()), ids=live)
        return values.only_chosen(read_table_now(spark, name, extent, columns=columns, tasks=tasks), chosen, key=key)

    messages = read("messages", [*_MESSAGES, *(["payload"] if asked.with_payload else [])], "id")
    attempts = only_known_destinations(read("attempts", _ATTEMPTS, "message_id"), asked.destinations)
    return values.features_of_messages(messages).unionByName(values.features_of_attempts(attempts))


def _compared(fields: Sequence[Row], sample: Sample) -> list[Row]:
    """Return the fields but those of attempts that few of the others have: of what is noted when something fails, the
    others could not have anything."""
    return [one for one in fields if one["field"] not in ATTEMPT_FIELDS or one["others"] * 2 >= sample.others]


def _of_values(fields: Sequence[Row], sample: Sample) -> _Tried:
    tried = _Tried()
    for row in fields:
        name = row["field"]
        tried.count += row["tested"]
        some = [
            (FieldCondition(name, Operator.IS, one["text"]), one["failing"], one["others"]) for one in row["values"]
        ]
        if name.startswith(("header.", "key.", "payload.")) and "[*]" not in name:
            failing, others = row["failing"], row["others"]
            tried.count += 2
            some += [
                (FieldCondition(name, Operator.EXISTS), failing, others),
                (FieldCondition(name, Operator.MISSING), sample.failing - failing, sample.others - others),
            ]
        for condition, hits, other_hits in some:
            _add(tried, condition, Association(hits, sample.failing, other_hits, sample.others), sample)
    return tried


def _add(tried: _Tried, condition: FieldCondition, counts: Association, sample: Sample) -> None:
    if counts.hits >= sample.fewest and counts.is_more:
        tried.conditions.append((condition, counts))


def _try_cuts(spark: SparkSession, features: DataFrame, fields: Sequence[Row], sample: Sample, tried: _Tried) -> None:
    """Find the best cut of each numeric field: between about equal parts first, then between single numbers."""
    numeric = sorted(
        (
            one
            for one in fields
            if one["numbers"] >= _FEWEST_NUMBERS and one["numeric"] >= _MOSTLY * (one["failing"] + one["others"])
        ),
        key=lambda one: (-one["numeric"], one["field"]),
    )[:_MOST_NUMERIC]
    if not numeric:
        return
    points = values.quantiles(features, [one["field"] for one in numeric], count=_POINTS).collect()
    ranges = [
        (row["field"], place, low, high) for row in points for place, (low, high) in enumerate(bounds(row["points"]))
    ]
    schema = "field string, place int, low double, high double"
    bins = _binned(values.range_counts(features, spark.createDataFrame(ranges, schema)).collect(), "low", "high")
    rough: dict[str, Cut] = {}
    for name, some in bins.items():
        tried.count += 2 * (len(some) - 1)
        if (cut := best_cut(some, sample.failing, sample.others)) is not None:
            rough[name] = cut
    near = sorted(rough, key=lambda name: -rough[name].g)[:_MOST_REFINED]
    if not near:
        return
    between = [(name, 0, bins[name][rough[name].after].low, bins[name][rough[name].until].high) for name in near]
    single = _binned(values.number_counts(features, spark.createDataFrame(between, schema)).collect(), *["number"] * 2)
    for name in near:
        some = [*bins[name][: rough[name].after], *single[name], *bins[name][rough[name].until + 1 :]]
        tried.count += 2 * (len(some) - 1)
        if (cut := best_cut(some, sample.failing, sample.others)) is not None:
            within = some[cut.until :] if cut.operator is Operator.AT_LEAST else some[: cut.until]
            counts = Association(
                sum(one.failing for one in within), sample.failing, sum(one.others for one in within), sample.others
            )
            _add(tried, FieldCondition(name, cut.operator, cut.value), counts, sample)


def _binned(rows: Sequence[Row], low: str, high: str) -> dict[str, list[Bin]]:
    """Return the bins of each field, by rising values."""
    ordered = sorted(rows, key=lambda row: (row["field"], row[low]))
    return {
        name: [Bin(row[low], row[high], row["failing"], row["others"]) for row in some]
        for name, some in groupby(ordered, key=lambda row: row["field"])
    }


def _presence(one: FieldCondition) -> FieldCondition:
    return FieldCondition(one.field, Operator.EXISTS)


@dataclass(frozen=True)
class _Marks:
    conditions: Sequence[FieldCondition]
    table: pa.Table


def _marks(spark: SparkSession, features: DataFrame, best: Sequence[FieldCondition]) -> _Marks:
    wanted = [_presence(one) if one.operator is Operator.MISSING else one for one in best]
    conditions = list(dict.fromkeys([_PRESENT, *wanted]))
    return _Marks(conditions, values.condition_words(features, spark, conditions).toArrow())


def _bits(asked: Compared, marks: _Marks) -> tuple[Mapping[FieldCondition, int], Sample]:
    """Return which messages fulfil each condition, the failing ones in the lowest bits, and how many there are."""
    ids = marks.table["id"].to_numpy()
    is_failing = np.isin(ids, np.array(asked.failing, dtype=np.int64))
    order = np.argsort(~is_failing, kind="stable")
    sample = Sample(int(is_failing.sum()), int((~is_failing).sum()))
    return dict(_held(marks, order)), sample


def _held(marks: _Marks, order: "np.ndarray[Any, Any]") -> Iterator[tuple[FieldCondition, int]]:
    for number, condition in enumerate(marks.conditions):
        words = marks.table[f"word_{number // values.WORD_BITS}"].to_numpy()[order]
        bits = np.packbits(((words >> (number % values.WORD_BITS)) & 1).astype(bool), bitorder="little")
        yield condition, int.from_bytes(bits.tobytes(), "little")
