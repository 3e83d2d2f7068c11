"""The formats of reports, each written from Arrow batches, a batch at a time.

Cells that a spreadsheet would take for formulas are guarded in CSV (core/domain/spreadsheet.py); in XLSX they are texts
by their type. Times are in the report's time zone. In JSON and NDJSON ids are texts, as everywhere in the API.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq
import xlsxwriter

from poisonadmin.core.domain.spreadsheet import guarded
from poisonadmin.reports.domain.asked import AskedReport, ReportFormat
from poisonadmin.reports.domain.columns import ColumnType
from poisonadmin.reports.queries.shown import IDS

ROWS_A_SHEET = 1_048_576
MAX_CELL_CHARS = 32_767
# Numbers of more digits lose some in a spreadsheet.
EXACT = 10**15
TYPES = {
    ColumnType.TEXT: pa.string(),
    ColumnType.WHOLE: pa.int64(),
    ColumnType.DECIMAL: pa.float64(),
    ColumnType.TIME: pa.timestamp("us", tz="UTC"),
    ColumnType.BYTES: pa.binary(),
}
# All that `guarded` may change, and more: blanks that it skips, then what begins a formula.
_MAY_BE_FORMULA = "^[ \u00a0\u3000\u200b\ufeff\\x00]*[=+\\-@\\t\\r\\n\uff1d\uff0b\uff0d\uff20]"
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class Writer(Protocol):
    """Writes rows to a file, which is whole after `close`."""

    def write(self, batch: pa.RecordBatch) -> None: ...
    def close(self) -> None: ...


def schema_of(asked: AskedReport) -> pa.Schema:
    """Return the columns of a report as Arrow carries them: times in UTC, payloads as bytes."""
    return pa.schema([(name, TYPES[kind]) for name, kind in asked.schema])


def writer_of(asked: AskedReport, path: Path) -> Writer:
    """Return what writes a report to a file."""
    return _WRITERS[asked.format](asked, path)


def as_shown(batch: pa.RecordBatch, time_zone: str) -> pa.RecordBatch:
    """Return the rows with times in the time zone, to the millisecond, and payloads as text."""
    return pa.RecordBatch.from_arrays([_shown(column, time_zone) for column in batch.columns], names=batch.schema.names)


def _shown(column: pa.Array, time_zone: str) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ms", tz=time_zone), safe=False)
    if pa.types.is_binary(column.type):
        texts = [None if value is None else value.decode("utf-8", "replace") for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    return column


def _as_texts(batch: pa.RecordBatch, time_zone: str) -> pa.RecordBatch:
    """Return the rows as `as_shown`, with each time as RFC 3339 says it."""
    shown = as_shown(batch, time_zone)
    columns = [
        pc.strftime(column, format="%Y-%m-%dT%H:%M:%S%Ez") if pa.types.is_timestamp(column.type) else column
        for column in shown.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=shown.schema.names)


class CsvWriter:
    """RFC 4180 in UTF-8, a line a row, the names of the columns in the first."""

    def __init__(self, asked: AskedReport, path: Path) -> None:
        self._zone = asked.time_zone
        self._file = path.open("wb")
        header = ",".join(f'"{guarded(name).replace(chr(34), chr(34) * 2)}"' for name, _ in asked.schema)
        self._file.write(f"{header}\n".encode())

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows."""
        texts = _as_texts(batch, self._zone)
        columns = [_guarded(column) if pa.types.is_string(column.type) else column for column in texts.columns]
        table = pa.RecordBatch.from_arrays(columns, names=[f"c{place}" for place in range(len(columns))])
        pv.write_csv(table, self._file, pv.WriteOptions(include_header=False))

    def close(self) -> None:
        """End the file."""
        self._file.close()


def _guarded(column: pa.Array) -> pa.Array:
    column = pc.replace_substring(column, "\x00", "␀")
    may_be = pc.fill_null(pc.match_substring_regex(column, _MAY_BE_FORMULA), False)
    if not pc.any(may_be).as_py():
        return column
    cells = [guarded(text) for text in column.filter(may_be).to_pylist()]
    return pc.replace_with_mask(column, may_be, pa.array(cells, pa.string()))


class NdjsonWriter:
    """A JSON object a line."""

    def __init__(self, asked: AskedReport, path: Path) -> None:
        self._zone = asked.time_zone
        self._file = path.open("wb")

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows."""
        self._file.writelines(line + b"\n" for line in self._objects(batch))

    def _objects(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        for row in _as_texts(batch, self._zone).to_pylist():
            yield orjson.dumps(with_ids_as_texts(row))

    def close(self) -> None:
        """End the file."""
        self._file.close()


class JsonWriter(NdjsonWriter):
    """One array of objects."""

    def __init__(self, asked: AskedReport, path: Path) -> None:
        super().__init__(asked, path)
        self._begin = b"[\n"

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows."""
        for line in self._objects(batch):
            self._file.write(self._begin + line)
            self._begin = b",\n"

    def close(self) -> None:
        """End the file."""
        self._file.write(b"[]\n" if self._begin == b"[\n" else b"\n]\n")
        super().close()


def with_ids_as_texts(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its ids as texts: a browser's numbers end at 2^53."""
    return {name: str(value) if name in IDS and value is not None else value for name, value in row.items()}


class ParquetWriter:
    """A column a column, typed, compressed."""

    def __init__(self, asked: AskedReport, path: Path) -> None:
        self._zone = asked.time_zone
        schema = pa.schema([(name, self._type(kind)) for name, kind in asked.schema])
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")
        self._schema = schema

    def _type(self, kind: ColumnType) -> pa.DataType:
        if kind is ColumnType.TIME:
            return pa.timestamp("ms", tz=self._zone)
        return pa.string() if kind is ColumnType.BYTES else TYPES[kind]

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows."""
        self._writer.write_batch(as_shown(batch, self._zone).cast(self._schema))

    def close(self) -> None:
        """End the file."""
        self._writer.close()


class XlsxWriter:
    """A workbook with as many sheets as its rows need."""

    def __init__(self, asked: AskedReport, path: Path) -> None:
        options = {
            "constant_memory": True,
            "strings_to_formulas": False,
            "strings_to_urls": False,
            "strings_to_numbers": False,
            "nan_inf_to_errors": True,
            "tmpdir": str(path.parent),
        }
        self._book = xlsxwriter.Workbook(str(path), options)
        self._book.use_zip64()
        self._time = self._book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss.000"})
        self._bold = self._book.add_format({"bold": True})
        self._zone = ZoneInfo(asked.time_zone)
        self._names = [name for name, _ in asked.schema]
        self._cells = [self._cell_of(kind) for _, kind in asked.schema]
        self._sheets = 0
        self._begin_sheet()

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows."""
        columns = [column.to_pylist() for column in as_shown(batch, self._zone.key).columns]
        for row in zip(*columns, strict=True):
            if self._row == ROWS_A_SHEET:
                self._begin_sheet()
            for place, (value, put) in enumerate(zip(row, self._cells, strict=True)):
                if value is not None:
                    put(place, value)
            self._row += 1

    def close(self) -> None:
        """End the file."""
        self._book.close()

    def _begin_sheet(self) -> None:
        self._sheets += 1
        self._sheet = self._book.add_worksheet(f"Rows {self._sheets}")
        self._sheet.freeze_panes(1, 0)
        for place, name in enumerate(self._names):
            self._sheet.write_string(0, place, name, self._bold)
        self._row = 1

    def _cell_of(self, kind: ColumnType) -> Callable[[int, Any], None]:
        if kind is ColumnType.TIME:
            return self._put_time
        return self._put_number if kind in (ColumnType.WHOLE, ColumnType.DECIMAL) else self._put_text

    def _put_text(self, place: int, value: str) -> None:
        text = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", value).replace("\r\n", "\n").replace("\r", "\n")
        self._sheet.write_string(self._row, place, text[:MAX_CELL_CHARS])

    def _put_number(self, place: int, value: float) -> None:
        if abs(value) < EXACT:
            self._sheet.write_number(self._row, place, value)
        else:
            self._sheet.write_string(self._row, place, str(value))

    def _put_time(self, place: int, value: datetime) -> None:
        # Spreadsheets know no time zones.
        self._sheet.write_datetime(self._row, place, value.replace(tzinfo=None), self._time)


_WRITERS: Mapping[ReportFormat, Callable[[AskedReport, Path], Writer]] = {
    ReportFormat.CSV: CsvWriter,
    ReportFormat.XLSX: XlsxWriter,
    ReportFormat.NDJSON: NdjsonWriter,
    ReportFormat.JSON: JsonWriter,
    ReportFormat.PARQUET: ParquetWriter,
}


def batch_of(asked: AskedReport, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """Return rows of values as a batch in the columns of the report."""
    schema = schema_of(asked)
    columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
