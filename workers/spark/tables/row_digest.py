"""A checksum over the rows of a table, in their order: the same from the database, from a file, in any batches."""

import hashlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


class RowDigest:
    """Takes batches of one schema; says how many rows there were, and their SHA-256.

    Of each column it takes what is null, how long the texts are, and the values, each in a stream of its own.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._streams = {name: (hashlib.sha256(), hashlib.sha256(), hashlib.sha256()) for name in columns}
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take some rows."""
        self.rows += batch.num_rows
        for name, (nulls, lengths, values) in self._streams.items():
            column = batch.column(name)
            if column.null_count:
                nulls.update(_fixed(column.is_valid().cast(pa.uint8())))
                column = column.fill_null(_nothing(column.type))
            else:
                nulls.update(b"\1" * batch.num_rows)
            if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
                lengths.update(_fixed(pc.binary_length(column)))
                values.update(_texts(column))
            elif pa.types.is_boolean(column.type):
                values.update(_fixed(column.cast(pa.uint8())))
            else:
                values.update(_fixed(column))

    def hexdigest(self) -> str:
        """Return the SHA-256 of all rows."""
        whole = hashlib.sha256(self.rows.to_bytes(8, "big"))
        for name, streams in self._streams.items():
            whole.update(name.encode() + b"\0" + b"".join(stream.digest() for stream in streams))
        return whole.hexdigest()


def _nothing(kind: pa.DataType) -> Any:
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.scalar(b"").cast(kind)
    return pa.scalar(0).cast(kind)


def _fixed(column: pa.Array) -> bytes:
    width = column.type.bit_width // 8
    start = column.offset * width
    return column.buffers()[1].slice(start, len(column) * width).to_pybytes() if len(column) else b""


def _texts(column: pa.Array) -> memoryview | bytes:
    _, offsets, values = column.buffers()
    if values is None or not len(column):
        return b""
    ends = memoryview(offsets).cast("i")
    first, last = ends[column.offset], ends[column.offset + len(column)]
    return memoryview(values)[first:last]
