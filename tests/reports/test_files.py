"""The files of reports, read back by two readers that are not ours to the same rows."""

import csv
import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import openpyxl
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest
from openpyxl.utils.escape import unescape
from python_calamine import CalamineWorkbook

from poisonadmin.core.commands.exports import workbook
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.exports import FileFormat, guarded
from poisonadmin.reports.domain.asked import asked_report
from poisonadmin.reports.queries.reports import ReportRow
from poisonadmin.reports.queries.rows import rows_at_once
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.run import LongRun
from tests.reports.conftest import Make, file_of, stored
from tests.reports.made import NOON, message

HOSTILE = [
    "=1+1", "\t=cmd|' /C calc'!A0", 'a,"b"\r\nc', "\u200b@SUM(A1)", "_x0041_", "＝1", "  x  ", "-5", "é\U0001f600",
    "{\"a\": [1]}", "NULL", "0123", "2026-01-01", "a;=1+1", "a\t@SUM(A1)", "b; \u3000-1+1", 'c;"=1+1;', "d\n+1+1",
    "e;\uff1d1", '"=1";"=2"', ";;=1\t\t=2", "f;\"\" =HYPERLINK(\"x\")",
]  # fmt: skip
COLUMNS = ["id", "address", "error_message", "header.X", "payload", "received_at", "status_code"]
ZONE = ZoneInfo("Europe/Berlin")


def hostile_messages() -> list[int]:
    """Store a message a hostile text, which is in its error, a header and its payload."""
    return [message(exception_message=text, headers={"X": text}, payload=text) for text in HOSTILE]


def made(make: Make, written_as: str) -> tuple[ReportRow, Path]:
    row = make("failures", columns=COLUMNS, time_zone="Europe/Berlin", format=written_as)
    assert file_of(row).rows == len(HOSTILE)
    return row, stored(row.id, FileFormat(written_as))


def expected(ids: list[int]) -> list[tuple[Any, ...]]:
    at = NOON.astimezone(ZONE)
    return [(one, "orders.eu", text, text, text, at, None) for one, text in zip(ids, HOSTILE, strict=True)]


def test_csv_is_read_back_with_every_formula_guarded(make: Make) -> None:
    ids = hostile_messages()
    row, path = made(make, "csv")
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    said = [
        (str(one), address, *(guarded(text) for text in texts), at.isoformat(timespec="milliseconds"), "")
        for one, address, *texts, at, _ in expected(ids)
    ]
    assert (header, [tuple(one) for one in rows]) == (COLUMNS, said)
    convert = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, "string"), strings_can_be_null=False)
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    table = pyarrow.csv.read_csv(path, parse_options=parse, convert_options=convert)
    assert [tuple(one.values()) for one in table.to_pylist()] == said
    assert file_of(row).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert file_of(row).bytes == path.stat().st_size


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_spreadsheet_with_another_separator_finds_no_formula_in_csv(make: Make, separator: str) -> None:
    hostile_messages()
    _, path = made(make, "csv")
    with path.open(newline="", encoding="utf-8") as file:
        cells = [cell for row in csv.reader(file, delimiter=separator) for cell in row]
    assert len(cells) > len(HOSTILE)
    # Text behind the quotes of a quoted cell is kept as it is by some, and with its quotes by others.
    for cell in (*cells, *(cell.strip('"') for cell in cells)):
        assert cell.lstrip(' \u00a0\u3000\ufeff\u200b"')[:1] not in set("=+-@\uff1d\uff0b\uff0d\uff20"), cell


def test_xlsx_is_read_back_by_two_readers_and_holds_no_formula(make: Make) -> None:
    ids = hostile_messages()
    _, path = made(make, "xlsx")
    at = NOON.astimezone(ZONE).replace(tzinfo=None)
    said = [(*one[:5], at, None) for one in expected(ids)]
    book = openpyxl.load_workbook(path)
    header, *rows = book["Rows 1"].iter_rows()
    assert [cell.value for cell in header] == COLUMNS
    # A spreadsheet has one character for the end of a line.
    found = [_plain(unescape(v) if isinstance(v := cell.value, str) else v for cell in row) for row in rows]
    assert found == [_plain(one) for one in said]
    assert {cell.data_type for row in rows for cell in row} <= {"n", "d", "s", "inlineStr"}
    assert b"<f>" not in zipfile.ZipFile(path).read("xl/worksheets/sheet1.xml")
    _, *rows = CalamineWorkbook.from_path(path).get_sheet_by_name("Rows 1").to_python()
    assert [_plain(value if value != "" else None for value in row) for row in rows] == [_plain(one) for one in said]


def _plain(values: Any) -> list[Any]:
    return [value.replace("\r\n", "\n") if isinstance(value, str) else value for value in values]


def test_ndjson_and_json_are_read_back(make: Make) -> None:
    ids = hostile_messages()
    said = [
        dict(zip(COLUMNS, (str(one), *texts, at.isoformat(timespec="milliseconds"), None), strict=True))
        for one, *texts, at, _ in expected(ids)
    ]
    _, path = made(make, "ndjson")
    assert [json.loads(line) for line in path.read_text().splitlines()] == said
    table = pyarrow.json.read_json(path).cast(pyarrow.schema([(name, "string") for name in COLUMNS]), safe=False)
    assert [one["error_message"] for one in table.to_pylist()] == HOSTILE
    _, path = made(make, "json")
    assert json.loads(path.read_text()) == said


def test_parquet_is_read_back_with_its_types(make: Make) -> None:
    import pandas as pd

    ids = hostile_messages()
    _, path = made(make, "parquet")
    table = pq.read_table(path)
    assert [tuple(one.values()) for one in table.to_pylist()] == expected(ids)
    assert str(table.schema.field("received_at").type) == "timestamp[ms, tz=Europe/Berlin]"
    frame = pd.read_parquet(path)
    assert list(frame["payload"]) == HOSTILE


@pytest.mark.parametrize("written_as", list(FileFormat))
def test_no_rows_are_a_file_too(make: Make, written_as: str) -> None:
    row = make("attempts", format=written_as)
    assert file_of(row).rows == 0
    assert stored(row.id, FileFormat(written_as)).exists()


def test_more_rows_than_a_sheet_has_go_on_the_next_one(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook, "ROWS_A_SHEET", 4)
    ids = [message() for _ in range(8)]
    row = make("failures", columns=["id"], format="xlsx")
    book = openpyxl.load_workbook(stored(row.id, FileFormat.XLSX))
    assert book.sheetnames == ["Rows 1", "Rows 2", "Rows 3"]
    found = [cell.value for sheet in book for cell in sheet["A"][1:]]
    assert found == ids


KINDS = [
    ("failures", {}),
    ("failures", {"group_by": ["address", "failed_day"]}),
    ("attempts", {}),
    ("decisions", {}),
    ("ageing", {}),
    ("redelivery", {}),
    ("redelivery", {"group_by": ["outcome"]}),
    ("blacklist", {}),
    ("time_to_decision", {}),
]


@pytest.mark.parametrize(("kind", "wishes"), KINDS)
def test_a_job_finds_the_rows_that_are_read_at_once(make: Make, kind: str, wishes: dict[str, Any]) -> None:
    from tests.reports.test_kinds import decided

    decided()
    hostile_messages()
    asked = asked_report(kind, format="parquet", **wishes)
    at_once = rows_at_once(asked, principal=SYSTEM)
    row = make(kind, format="parquet", **wishes)
    assert row.error is None
    table = pq.read_table(stored(row.id, FileFormat.PARQUET))
    assert table.column_names == list(asked.columns)
    found = [tuple(one.values()) for one in table.to_pylist()]
    assert at_once.rows <= found <= rows_at_once(asked, principal=SYSTEM).rows, "ages grow meanwhile"
    assert at_once.is_whole
    assert LongRun.objects.get(kind="report").id == row.id
    assert file_of(row).rows == len(at_once.rows)
    requested, finished = Audit.objects.filter(object_type="report").order_by("id")
    assert (requested.action, finished.action) == ("report.requested", "report.made")
    assert requested.details["columns"] == list(asked.columns)
    assert finished.details["rows"] == len(at_once.rows)
