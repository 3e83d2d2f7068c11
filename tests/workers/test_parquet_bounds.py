"""A Parquet file of a few kilobytes that stands for gigabytes is broken, and fills no memory."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers.spark.parquet import row_count_of, rows_of
from workers.spark.sources import InvalidFile

MIB = 1024 * 1024
MANY = 2_000


def repeated(value: str, count: int) -> pa.Array:
    """Return an array that holds its one value once."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([value]))


def file_of(table: pa.Table) -> tuple[io.BytesIO, int]:
    """Return the table as a file, and its size."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    size = sink.tell()
    sink.seek(0)
    return sink, size


def read(table: pa.Table) -> list[tuple[int, dict[str, Any]]]:
    """Read the table out of its file, as a task does."""
    sink, size = file_of(table)
    assert row_count_of(sink, size) == table.num_rows
    sink.seek(0)
    return list(rows_of(sink, size))


def peak_of(table: pa.Table, why: str) -> int:
    """Return the most bytes that Arrow has had while it read a file that expands beyond measure."""
    sink, size = file_of(table)
    assert size < 100_000
    pool = pa.default_memory_pool()
    before, reached = pool.bytes_allocated(), [0]
    reads = (reached.append(pool.bytes_allocated() - before) for _ in rows_of(sink, size))
    with pytest.raises(InvalidFile, match=why):
        list(reads)
    return max(reached)


@pytest.mark.parametrize("column", ["payload", "conversation_id", "headers", "not_known"])
def test_one_long_value_in_very_many_rows_is_held_once(column: str) -> None:
    table = pa.table({"address": ["a"] * MANY, column: repeated("x" * 5 * MIB, MANY)})
    assert peak_of(table, "expands to more than") < 64 * MIB


@pytest.mark.parametrize(
    "nested",
    [
        pa.ListArray.from_arrays([0, 1_000_000], repeated("x" * MIB, 1_000_000)),
        pa.ListArray.from_arrays([0, 1], pa.ListArray.from_arrays([0, 1_000_000], repeated("x" * MIB, 1_000_000))),
        pa.ListArray.from_arrays([0, 20_000_000], pa.nulls(20_000_000, pa.int64()).fill_null(7)),
    ],
    ids=["list of one long text", "list of lists", "list of numbers"],
)
def test_a_value_of_very_many_parts_is_never_made(nested: pa.Array) -> None:
    table = pa.table({"address": ["a"], "headers": nested})
    assert peak_of(table, "expand beyond measure") == 0


def test_a_map_of_one_long_value_is_never_made() -> None:
    many = MANY * 10
    keys = pa.array([str(n) for n in range(many)])
    headers = pa.MapArray.from_arrays([0, many], keys, repeated("x" * 100_000, many))
    sink, size = file_of(pa.table({"address": ["a"], "headers": headers}))
    with pytest.raises(InvalidFile, match="beyond measure"):
        list(rows_of(sink, size))


def test_a_file_that_says_it_has_more_rows_than_it_could_hold_gets_no_ids() -> None:
    sink, size = file_of(pa.table({"address": repeated("a", 5_000_000)}))
    assert size < 100_000
    with pytest.raises(InvalidFile, match="expands beyond measure"):
        row_count_of(sink, size)


def test_a_page_that_unfolds_to_more_than_memory_is_not_read() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"payload": ["x" * 100 * MIB]}), sink, compression="zstd", use_dictionary=False)
    size = sink.tell()
    sink.seek(0)
    assert size < MIB // 8
    with pytest.raises(InvalidFile, match="expands beyond measure"):
        row_count_of(sink, size)


def test_ordinary_columns_of_every_kind_are_read_as_they_are() -> None:
    table = pa.table(
        {
            "address": ["a", "b", None],
            "payload": pa.array([b"\x00", None, b"y"], pa.binary()),
            "headers": pa.array([[("k", "v"), ("l", "")], None, []], pa.map_(pa.string(), pa.string())),
            "dead_letter": pa.array([None, {"reason": "late", "delivery_count": 4}, None]),
            "list": pa.array([["p", None], None, []], pa.large_list(pa.string())),
        }
    )
    assert read(table) == [
        (1, {"address": "a", "payload": b"\x00", "headers": [("k", "v"), ("l", "")], "list": ["p", None]}),
        (2, {"address": "b", "dead_letter": {"reason": "late", "delivery_count": 4}}),
        (3, {"payload": b"y", "headers": [], "list": []}),
    ]
