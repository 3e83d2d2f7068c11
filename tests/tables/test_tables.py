"""The tables that Spark reads: every column, pruned and filtered, live and from files."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from django.db import connection
from pyspark.sql import Row, SparkSession

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.intake.commands.batch import accept_stream
from poisonadmin.messages.domain.id_ranges import IdRange
from tests.fixtures.decisions import quarantine
from workers.spark.tables.columns import TABLES, arrow_schema
from workers.spark.tables.source import Extent, read_table

pytestmark = pytest.mark.django_db(transaction=True)
EVERYTHING = Extent([IdRange(0, 2**62)])


def put(count: int, address: str = "orders.eu") -> list[int]:
    lines = b"".join(
        b'{"address": "%s", "message_id": "m-%d", "payload": "\\u00e9 %d", "headers": {"n": "%d%%{}"}}\n'
        % (address.encode(), n, n, n)
        for n in range(count)
    )
    assert accept_stream([lines], principal=SYSTEM).accepted == count
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM message ORDER BY id DESC LIMIT %s", [count])
        return sorted(row[0] for row in cursor.fetchall())


@pytest.mark.parametrize("name", TABLES)
def test_every_column_of_a_table_has_the_type_that_it_declares(spark: SparkSession, name: str) -> None:
    quarantine(put(3), principal=SYSTEM, reason="no")
    frame = read_table(spark, name, EVERYTHING, tasks=2)
    assert [field.name for field in frame.schema] == [column.name for column in TABLES[name].columns]
    assert len(frame.collect()) == {"messages": 3, "attempts": 0, "history": 6, "operations": 0, "results": 0}[name]


def test_a_message_is_read_with_its_bytes(spark: SparkSession) -> None:
    (one,) = put(1)
    row = read_table(spark, "messages", EVERYTHING, tasks=1).collect()[0]
    assert (row.id, row.message_id, row.address, row.state) == (one, "m-0", "orders.eu", "TBDL")
    assert (row.headers, bytes(row.payload).decode(), row.keys) == ('{"n":"0%{}"}', "é 0", None)


def test_ranges_divide_the_messages(spark: SparkSession) -> None:
    ids = put(10)
    extent = Extent([IdRange(0, ids[2]), IdRange(ids[2], ids[5]), IdRange(ids[5], ids[8])])
    frame = read_table(spark, "messages", extent, columns=["id"], tasks=2)
    assert sorted(row.id for row in frame.collect()) == ids[:9]
    assert frame.columns == ["id"]


def test_single_messages_are_read_beside_ranges(spark: SparkSession) -> None:
    ids = put(10)
    extent = Extent([IdRange(0, ids[1])], ids=[*ids[4:9:2], 2**40])
    frame = read_table(spark, "messages", extent, columns=["id", "message_id"], tasks=2)
    assert sorted(row.id for row in frame.collect()) == [ids[0], ids[1], ids[4], ids[6], ids[8]]
    assert [row.id for row in frame.where("message_id IN ('m-3', 'm-4')").collect()] == [ids[4]]


@pytest.mark.parametrize(
    ("condition", "places"),
    [
        ("message_id = 'm-2'", [2]),
        ("message_id IN ('m-1', \"m-3%{}'\", 'm-0')", [0, 1]),
        ("message_id <> 'm-2'", [0, 1, 3]),
        ("conversation_id IS NULL AND message_id >= 'm-2'", [2, 3]),
        ("payload_bytes > 1000", []),
        ("received_at > TIMESTAMP '2020-01-01 00:00:00'", [0, 1, 2, 3]),
        ("length(message_id) = 3", [0, 1, 2, 3]),
    ],
)
def test_a_filter_finds_the_same_in_the_database_and_in_files(spark, tmp_path: Path, condition, places) -> None:
    ids = put(4)
    columns = TABLES["messages"].columns
    whole = read_table(spark, "messages", EVERYTHING, tasks=1).toArrow().cast(arrow_schema(columns))
    pq.write_table(whole, tmp_path / "some.parquet")
    for extent in (EVERYTHING, Extent(files=[str(tmp_path / "some.parquet")])):
        found = read_table(spark, "messages", extent, tasks=2).where(condition).select("id")
        assert sorted(row.id for row in found.collect()) == [ids[place] for place in places]


def test_a_comparison_is_answered_where_the_rows_are(spark: SparkSession) -> None:
    put(2)
    found = read_table(spark, "messages", EVERYTHING, tasks=1).where("state = 'NDLV' AND length(address) > 2")
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "length(address" in plan
    assert "= NDLV" not in plan


def test_live_rows_and_files_are_one_table(spark: SparkSession, tmp_path: Path) -> None:
    ids = put(6)
    first = read_table(spark, "messages", Extent([IdRange(0, ids[2])]), tasks=1).toArrow()
    pq.write_table(first.cast(arrow_schema(TABLES["messages"].columns)), tmp_path / "first.parquet")
    extent = Extent([IdRange(ids[2], ids[5])], [str(tmp_path / "first.parquet")])
    frame = read_table(spark, "messages", extent, columns=["id"], tasks=4)
    assert sorted(row.id for row in frame.collect()) == ids


def test_a_column_that_is_later_than_a_file_is_empty_in_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    ids = put(2)
    whole = read_table(spark, "messages", EVERYTHING, tasks=1).toArrow().cast(arrow_schema(TABLES["messages"].columns))
    pq.write_table(whole.drop_columns(["content_type"]), tmp_path / "former.parquet")
    extent = Extent(files=[str(tmp_path / "former.parquet")])

    def read(condition: str) -> list[Row]:
        return read_table(spark, "messages", extent, tasks=1).where(condition).collect()

    assert sorted(row.id for row in read("content_type IS NULL")) == ids
    assert read("content_type = 'text/plain'") == []
    assert {row.payload for row in read("id > 0")} == set(whole["payload"].to_pylist())
