"""XLSX: xlsxwriter makes the workbook, and rows go into its sheets as they come, compressed at once.

xlsxwriter writes cell by cell, and keeps all it has written for the end, which would take minutes. A row here is a text
that is put together for a whole batch at once; a cell that names no place follows the one before it.
"""

import io
import re
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import xlsxwriter

from poisonadmin.core.commands.exports.cells import as_shown, changed, content_of, joined
from poisonadmin.core.domain.exports import ColumnType, Schema

ROWS_A_SHEET = 1_048_576
MAX_CELL_CHARS = 32_767
# Numbers of more digits lose some in a spreadsheet.
EXACT = 10**15
_MS_A_DAY = 86_400_000.0
# The day 1970-01-01, as a spreadsheet counts days.
_EPOCH = 25_569.0
_TIME = "yyyy-mm-dd hh:mm:ss.000"
_TIME_WIDTH = 23
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_ESCAPE = re.compile("_(?=x[0-9A-Fa-f]{4}_)")
# Texts that `_xml` changes.
_ODD = "[&<>\\x00-\\x08\\x0b-\\x1f\ufffe\uffff]|_x[0-9A-Fa-f]{4}_"
# As fast as the rows come; a higher level saves a tenth of the bytes.
_LEVEL = 1


class XlsxWriter:
    """A workbook with as many sheets as its rows need."""

    def __init__(self, schema: Schema, time_zone: str, path: Path) -> None:
        self._schema, self._zone = schema, time_zone
        (first,) = self._made(1).values()
        self._begin, _, self._end = first.partition(b"</sheetData>")
        style = re.search(rb'<col [^>]*style="(\d+)"', first)
        self._style = style[1].decode() if style else ""
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL)
        self._sheets = 0
        self._begin_sheet()

    def shape(self, batch: pa.RecordBatch) -> pa.Array:
        """Return each row as a sheet says it."""
        cells = [self._cells(kind, column) for (_, kind), column in zip(self._schema, batch.columns, strict=True)]
        return joined("<row>", *(pc.fill_null(some, "<c/>") for some in cells), "</row>")

    def put(self, rows: pa.Array) -> None:
        """Write rows."""
        while len(rows):
            if self._row == ROWS_A_SHEET:
                self._end_sheet()
                self._begin_sheet()
            some = rows.slice(0, ROWS_A_SHEET - self._row)
            self._sheet.write(content_of(some))
            self._row += len(some)
            rows = rows.slice(len(some))

    def close(self) -> None:
        """End the file."""
        self._end_sheet()
        self._made(self._sheets, self._zip)
        self._zip.close()

    def _begin_sheet(self) -> None:
        self._sheets += 1
        self._sheet = self._zip.open(f"xl/worksheets/sheet{self._sheets}.xml", "w", force_zip64=True)
        begin = self._begin if self._sheets == 1 else self._begin.replace(b' tabSelected="1"', b"")
        self._sheet.write(begin)
        self._row = 1

    def _end_sheet(self) -> None:
        self._sheet.write(b"</sheetData>" + self._end)
        self._sheet.close()

    def _made(self, sheets: int, into: zipfile.ZipFile | None = None) -> dict[str, bytes]:
        """Return the sheets of a workbook without rows; put all else of it into a file where one is given."""
        content = io.BytesIO()
        options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
        with xlsxwriter.Workbook(content, options) as book:
            bold, time = book.add_format({"bold": True}), book.add_format({"num_format": _TIME})
            for number in range(sheets):
                sheet = book.add_worksheet(f"Rows {number + 1}")
                sheet.freeze_panes(1, 0)
                for place, (name, kind) in enumerate(self._schema):
                    sheet.write_string(0, place, _plain(name), bold)
                    if kind is ColumnType.TIME:
                        sheet.set_column(place, place, _TIME_WIDTH, time)
        found: dict[str, bytes] = {}
        with zipfile.ZipFile(content) as made:
            for name in made.namelist():
                if name.startswith("xl/worksheets/"):
                    # How far it reaches is not known when it begins, and need not be said.
                    found[name] = re.sub(rb"<dimension [^>]*/>", b"", made.read(name))
                elif into is not None:
                    into.writestr(name, made.read(name))
        return found

    def _cells(self, kind: ColumnType, column: pa.Array) -> pa.Array:
        if kind is ColumnType.TIME:
            local = pc.local_timestamp(as_shown(column, self._zone)).cast(pa.int64()).cast(pa.float64())
            days = pc.add(pc.divide(local, _MS_A_DAY), _EPOCH)
            return joined(f'<c s="{self._style}"><v>', days.cast(pa.string()), "</v></c>")
        if kind is ColumnType.WHOLE:
            return _numbers(column, pc.less(pc.abs(column), EXACT))
        if kind is ColumnType.DECIMAL:
            return _numbers(column, pc.is_finite(column))
        return _texts(as_shown(column, self._zone))


def _numbers(column: pa.Array, are_exact: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    numbers = joined("<c><v>", texts, "</v></c>")
    return numbers if pc.all(are_exact, min_count=0).as_py() else pc.if_else(are_exact, numbers, _texts(texts))


def _texts(column: pa.Array) -> pa.Array:
    if (pc.max(pc.binary_length(column)).as_py() or 0) > MAX_CELL_CHARS:
        column = pc.utf8_slice_codeunits(column, 0, MAX_CELL_CHARS)
    shown = changed(column, _ODD, _xml)
    return joined('<c t="inlineStr"><is><t xml:space="preserve">', shown, "</t></is></c>")


def _plain(text: str) -> str:
    """Return a text as a cell can hold it."""
    shown = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text).replace("\r\n", "\n").replace("\r", "\n")
    return shown[:MAX_CELL_CHARS]


def _xml(text: str) -> str:
    r"""Return a text as the XML of a cell says it.

    >>> _xml("a < b & c\r\n_x0041_\x01")
    'a &lt; b &amp; c\n_x005F_x0041_�'
    """
    shown = _ESCAPE.sub("_x005F_", _plain(text))
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
