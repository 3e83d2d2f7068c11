"""The formats of files of rows, each written from Arrow batches, a batch at a time.

Cells that a spreadsheet would take for formulas are guarded in CSV (core/domain/exports.py); in XLSX they are texts by
their type. In JSON and NDJSON ids are texts, as everywhere in the API.
"""

import codecs
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq

from poisonadmin.core.commands.exports.cells import as_shown, changed, content_of, joined, time_texts
from poisonadmin.core.commands.exports.workbook import XlsxWriter
from poisonadmin.core.domain.exports import IDS, ColumnType, FileFormat, Row, Schema, guarded

TYPES = {
    ColumnType.TEXT: pa.string(),
    ColumnType.WHOLE: pa.int64(),
    ColumnType.DECIMAL: pa.float64(),
    ColumnType.TIME: pa.timestamp("us", tz="UTC"),
    ColumnType.BYTES: pa.binary(),
}
# All that `guarded` may change, and more: blanks that it skips, then what begins a formula.
_MAY_BE_FORMULA = (
    "^[ \u00a0\u3000\u200b\ufeff\\x00]*[=+\\-@\\t\\r\\n\uff1d\uff0b\uff0d\uff20]"
    '|[;\\t\\r\\n][ \u00a0\u3000\u200b\ufeff\\x00"]*[=+\\-@\uff1d\uff0b\uff0d\uff20]'
    "|\\x00"
)
_ESCAPED_IN_JSON = '["\\\\\\x00-\\x1f]'


class Writer(Protocol):
    """Writes rows to a file, which is whole after `close`."""

    def shape(self, batch: pa.RecordBatch) -> Any:
        """Return rows as the file holds them. It changes nothing, and is called in other threads."""

    def put(self, shaped: Any) -> None:
        """Write what `shape` returned."""

    def close(self) -> None:
        """End the file."""


def schema_of(schema: Schema) -> pa.Schema:
    """Return columns as Arrow carries them: times in UTC, payloads as bytes."""
    return pa.schema([(name, TYPES[kind]) for name, kind in schema])


def writer_of(written_as: FileFormat, schema: Schema, time_zone: str, path: Path) -> Writer:
    """Return what writes rows to a file, with times in a time zone."""
    return _WRITERS[written_as](schema, time_zone, path)


class _BytesWriter:
    """Writes bytes."""

    def __init__(self, schema: Schema, time_zone: str, path: Path) -> None:
        self._names = [name for name, _ in schema]
        self._zone = time_zone
        self._file = path.open("wb")

    def put(self, shaped: pa.Buffer) -> None:
        """Write rows."""
        self._file.write(shaped)

    def close(self) -> None:
        """End the file."""
        self._file.close()


class CsvWriter(_BytesWriter):
    """RFC 4180 in UTF-8, a line a row, the names of the columns in the first."""

    def __init__(self, schema: Schema, time_zone: str, path: Path) -> None:
        super().__init__(schema, time_zone, path)
        self.put(_csv_header(self._names))

    def shape(self, batch: pa.RecordBatch) -> pa.Buffer:
        """Return lines."""
        return _as_csv([_as_csv_cells(as_shown(column, self._zone)) for column in batch.columns])


def csv_chunks(names: Sequence[str], slices: Iterable[Sequence[Row]], *, mark: bool = False) -> Iterator[bytes]:
    """Yield the lines of some rows at a time as a file in CSV has them, with times in UTC.

    `mark`: a byte order mark comes first, which makes spreadsheets read all as UTF-8.
    """
    yield (codecs.BOM_UTF8 if mark else b"") + _csv_header(names).to_pybytes()
    for rows in slices:
        columns = [as_shown(pa.array(values), "UTC") for values in zip(*rows, strict=True)]
        yield _as_csv([_as_csv_cells(column) for column in columns]).to_pybytes()


def _csv_header(names: Sequence[str]) -> pa.Buffer:
    # Of a pivot the names come from data, as cells do.
    return _as_csv([_guarded(pa.array([name], pa.string())) for name in names])


def _as_csv(cells: Sequence[pa.Array]) -> pa.Buffer:
    lines = pa.BufferOutputStream()
    table = pa.RecordBatch.from_arrays(cells, names=[f"c{place}" for place in range(len(cells))])
    pv.write_csv(table, lines, pv.WriteOptions(include_header=False, eol="\r\n"))
    return lines.getvalue()


def _as_csv_cells(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        return time_texts(column)
    return _guarded(column) if pa.types.is_string(column.type) else column


def _guarded(column: pa.Array) -> pa.Array:
    return changed(column, _MAY_BE_FORMULA, lambda text: guarded(text.replace("\x00", "␀")))


class NdjsonWriter(_BytesWriter):
    """A JSON object a line."""

    def shape(self, batch: pa.RecordBatch) -> pa.Buffer:
        """Return lines."""
        return content_of(joined(*self._objects(batch), "\n"))

    def _objects(self, batch: pa.RecordBatch) -> list[pa.Array | str]:
        parts: list[pa.Array | str] = []
        for name, column in zip(self._names, batch.columns, strict=True):
            begin = "," if parts else "{"
            value = _as_json(as_shown(column, self._zone), is_id=name in IDS)
            parts += [f"{begin}{orjson.dumps(name).decode()}:", pc.fill_null(value, "null")]
        return [*parts, "}"]


class JsonWriter(NdjsonWriter):
    """One array of objects."""

    def __init__(self, schema: Schema, time_zone: str, path: Path) -> None:
        super().__init__(schema, time_zone, path)
        self._begin = b"[\n"

    def shape(self, batch: pa.RecordBatch) -> pa.Buffer:
        """Return lines, each behind the comma that ends the one before it."""
        return content_of(joined(",\n", *self._objects(batch)))

    def put(self, shaped: pa.Buffer) -> None:
        """Write rows."""
        self._file.write(self._begin)
        # The first row has what begins the array in the place of its comma.
        self._file.write(shaped.slice(len(self._begin)))
        self._begin = b""

    def close(self) -> None:
        """End the file."""
        self._file.write(b"[]\n" if self._begin else b"\n]\n")
        super().close()


def _as_json(column: pa.Array, *, is_id: bool) -> pa.Array:
    """Return values as JSON says them; null where there is none."""
    if pa.types.is_timestamp(column.type):
        return joined('"', time_texts(column), '"')
    if pa.types.is_string(column.type):
        escaped = changed(column, _ESCAPED_IN_JSON, lambda text: orjson.dumps(text).decode()[1:-1])
        return joined('"', escaped, '"')
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_finite(column), column, None)
    numbers = column.cast(pa.string())
    # A browser's numbers end at 2^53.
    return joined('"', numbers, '"') if is_id else numbers


class ParquetWriter:
    """A column a column, typed, compressed."""

    def __init__(self, schema: Schema, time_zone: str, path: Path) -> None:
        self._zone = time_zone
        self._schema = pa.schema([(name, self._type(kind)) for name, kind in schema])
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")

    def _type(self, kind: ColumnType) -> pa.DataType:
        if kind is ColumnType.TIME:
            return pa.timestamp("ms", tz=self._zone)
        return pa.string() if kind is ColumnType.BYTES else TYPES[kind]

    def shape(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with the types of the file."""
        return pa.RecordBatch.from_arrays([as_shown(one, self._zone) for one in batch.columns], schema=self._schema)

    def put(self, shaped: pa.RecordBatch) -> None:
        """Write rows."""
        self._writer.write_batch(shaped)

    def close(self) -> None:
        """End the file."""
        self._writer.close()


_WRITERS: Mapping[FileFormat, Callable[[Schema, str, Path], Writer]] = {
    FileFormat.CSV: CsvWriter,
    FileFormat.XLSX: XlsxWriter,
    FileFormat.NDJSON: NdjsonWriter,
    FileFormat.JSON: JsonWriter,
    FileFormat.PARQUET: ParquetWriter,
}


def batch_of(schema: Schema, rows: Sequence[Row]) -> pa.RecordBatch:
    """Return rows of values as a batch in these columns."""
    typed = schema_of(schema)
    columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(typed)]
    return pa.RecordBatch.from_arrays(columns, schema=typed)
