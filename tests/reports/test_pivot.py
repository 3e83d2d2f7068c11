"""Pivots: the values of one column as columns, read at once, made by a job, and counted by a plain loop."""

import csv
import json
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.exports import FileFormat, guarded
from poisonadmin.core.queries.rows import QueryTooExpensive
from poisonadmin.reports.domain import groups
from poisonadmin.reports.domain.asked import asked_report, from_json
from poisonadmin.reports.domain.columns import InvalidReport
from poisonadmin.reports.queries import rows
from poisonadmin.reports.queries.rows import TooManyGroups, rows_at_once
from tests.reports.conftest import Make, file_of, stored
from tests.reports.made import DAY, HOUR, NOON, attempt, message
from tests.reports.test_files import HOSTILE
from tests.reports.test_kinds import decided
from tests.reports.test_runs import archive

pytestmark = pytest.mark.django_db(transaction=True)


def table_of(kind: str, **wishes: Any) -> list[tuple[Any, ...]]:
    """Return the names of the columns, then the rows, of a report that is read at once."""
    found = rows_at_once(asked_report(kind, **wishes), principal=SYSTEM)
    assert found.is_whole
    return [found.columns, *found.rows]


def test_the_values_of_a_column_are_columns_and_the_whole_group_comes_last() -> None:
    for address, state in (("orders.eu", "NDLV"), ("orders.eu", "NDLV"), ("orders.eu", "FAIL"), ("orders.us", "FAIL")):
        message(address, state=state)
    assert table_of("failures", group_by=["address"], pivot="state") == [
        ("address", "FAIL", "NDLV", "count"),
        ("orders.eu", 1, 2, 3),
        ("orders.us", 1, 0, 1),
    ]


def test_days_and_attempts_are_in_their_order_and_a_cell_without_rows_has_no_mean() -> None:
    decided()
    assert table_of("time_to_decision", group_by=["decision"], pivot="decided_day", figure="mean_seconds") == [
        ("decision", "2026-03-02", "mean_seconds"),
        ("approved", 8400.0, 8400.0),
        ("marked_fail", 21600.0, 21600.0),
    ]
    one, two = message("parked.eu", state="TBDL"), message("parked.us", state="TBDL")
    attempt(one, 2, "delivered")
    attempt(two, 10, "failed")
    assert table_of("redelivery", group_by=["address"], pivot="attempt_number", figure="success_percent") == [
        ("address", "2", "10", "success_percent"),
        ("parked.eu", 100.0, None, 100.0),
        ("parked.us", None, 0.0, 0.0),
    ]
    # The kind's own groups are the rows, but for what is the pivot.
    assert table_of("redelivery", pivot="attempt_number")[0] == ("policy", "2", "10", "tries")


def test_the_most_frequent_values_have_columns_and_the_rest_have_one_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "PIVOT_VALUES", 2)
    for kind, n in (("a", 1), ("b", 3), ("c", 2), ("d", 1)):
        for _ in range(n):
            message(headers={"kind": kind})
    message("orders.us")
    assert table_of("failures", group_by=["address"], pivot="header.kind") == [
        ("address", "b", "c", "others (3 values)", "count"),
        ("orders.eu", 3, 2, 2, 7),
        ("orders.us", 0, 0, 1, 1),
    ]


def test_no_two_columns_have_one_name_whatever_the_values_are() -> None:
    for text in ("address", "count", "(none)", "", "id", "x" * 300, "x" * 299 + "y"):
        message(headers={"kind": text})
    message()
    (names, row) = table_of("failures", group_by=["address"], pivot="header.kind")
    assert len(set(names)) == len(names) == 10
    assert sorted(names[1:-1], key=len)[:6] == ["(none)", "id (2)", "(empty)", "count (2)", "(none) (2)", "address (2)"]
    assert row == ("orders.eu", *[1] * 8, 8)


def test_names_that_come_from_data_are_read_back_from_each_format_and_start_no_formula(make: Make) -> None:
    for text in HOSTILE:
        message(exception_message=text, headers={"X": text})
    wishes: dict[str, Any] = {"group_by": ["address"], "pivot": "header.X"}
    names, row = table_of("failures", **wishes)
    assert sorted(names[1:-1]) == sorted(HOSTILE)

    def made(written_as: FileFormat) -> Path:
        found = make("failures", format=written_as, **wishes)
        assert file_of(found).rows == 1
        return stored(found.id, written_as)

    with made(FileFormat.CSV).open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [[guarded(name) for name in names], [str(value) for value in row]]
    assert json.loads(made(FileFormat.NDJSON).read_text()) == dict(zip(names, row, strict=True))
    assert json.loads(made(FileFormat.JSON).read_text()) == [dict(zip(names, row, strict=True))]
    table = pq.read_table(made(FileFormat.PARQUET))
    assert (tuple(table.column_names), [tuple(one.values()) for one in table.to_pylist()]) == (names, [row])
    header, *rest = openpyxl.load_workbook(made(FileFormat.XLSX))["Rows 1"].iter_rows()
    assert {cell.data_type for cell in header} <= {"s", "inlineStr"}
    assert len(header) == len(names)
    assert [[cell.value for cell in one] for one in rest] == [list(row)]


def by_a_plain_loop(plain: list[tuple[Any, ...]]) -> dict[tuple[Any, Any], Counter[Any]]:
    """Count rows of two groups and a value."""
    found: dict[tuple[Any, Any], Counter[Any]] = defaultdict(Counter)
    for first, second, value in plain:
        found[first, second][value] += 1
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_at_once_by_a_job_live_and_archived_and_by_a_plain_loop_the_figures_are_equal(
    make: Make, spark: SparkSession, home: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(groups, "PIVOT_VALUES", 4)
    values = ["a", "b", "=c", "", "\u00e9", "d d", "count", "7"]
    made = []
    for _ in range(40):
        headers = {"kind": chance.choice(values)} if chance.random() < 0.8 else {}
        at = NOON + chance.randrange(3) * DAY + chance.randrange(24) * HOUR
        made.append(message(chance.choice(["orders.eu", "orders.us"]), at=at, headers=headers))
    names = ["address", "failed_day", "header.kind"]
    plain = rows_at_once(asked_report("failures", columns=names), principal=SYSTEM).rows
    wishes: dict[str, Any] = {"group_by": names[:2], "pivot": names[2], "time_zone": "UTC"}
    columns, *at_once = table_of("failures", **wishes)

    counted = by_a_plain_loop(plain)
    sizes = Counter(value for *_, value in plain)
    shown = {None: "(none)", "": "(empty)", "count": "count (2)"}
    heading = {value: shown.get(value, value) for value in sizes}
    assert {(row[0], row[1]): row[-1] for row in at_once} == {key: one.total() for key, one in counted.items()}
    own = [value for value in sizes if heading[value] in columns]
    assert min(sizes[value] for value in own) >= max(sizes[value] for value in sizes if value not in own)
    for row in at_once:
        cells = dict(zip(columns, row, strict=True))
        assert {heading[value]: cells[heading[value]] for value in own} == {
            heading[value]: counted[row[0], row[1]][value] for value in own
        }
        assert sum(row[2:-1]) == row[-1]

    for moved in ([], chance.sample(made, 15)):
        if moved:
            archive(spark, home, sorted(moved), "2026-03-05")
        report = make("failures", format="parquet", **wishes)
        assert report.error is None
        table = pq.read_table(stored(report.id, FileFormat.PARQUET))
        assert tuple(table.column_names) == columns
        assert [tuple(one.values()) for one in table.to_pylist()] == at_once


@pytest.mark.parametrize(
    ("wishes", "field"),
    [
        ({"pivot": "state"}, "group_by"),
        ({"pivot": "nothing", "group_by": ["address"]}, "pivot"),
        ({"pivot": "payload", "group_by": ["address"]}, "pivot"),
        ({"pivot": "address", "group_by": ["address"]}, "pivot"),
        ({"pivot": "state", "group_by": ["address"], "columns": ["address"]}, "columns"),
        ({"pivot": "state", "group_by": ["address"], "figure": "mean_seconds"}, "figure"),
        ({"figure": "count", "group_by": ["address"]}, "figure"),
    ],
)
def test_what_is_no_pivot_is_refused_by_its_field(wishes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidReport) as refused:
        asked_report("failures", **wishes)
    assert refused.value.field == field


def test_a_pivot_is_kept_and_a_report_that_was_kept_before_there_were_any_is_read() -> None:
    asked = asked_report("redelivery", pivot="attempt_number", figure="success_percent")
    assert from_json(asked.as_json()) == asked
    before = asked_report("failures", group_by=["address"]).as_json()
    kept = {name: value for name, value in before.items() if name not in ("pivot", "figure")}
    assert from_json(kept).as_json() == before


def test_a_report_of_too_many_groups_says_so_before_they_fill_the_memory(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MAX_GROUPS", 3)
    for _ in range(5):
        message()
    with pytest.raises(TooManyGroups):
        table_of("failures", group_by=["message_id"])
    assert "more than 3 groups" in str(make("failures", group_by=["message_id"], format="csv").error)
    monkeypatch.setattr(rows, "COUNTS_AT_ONCE", 3)
    with pytest.raises(QueryTooExpensive):
        table_of("failures", group_by=["message_id"])
