"""A file of the archive: written whole or not at all, and read back."""

import hashlib
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from poisonadmin.archive.domain.pieces import WrittenFile
from poisonadmin.core.domain.archive_place import unfinished


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


_ROWS_A_GROUP = 4_000
_READ_BYTES = 4 * 1024 * 1024


class PieceNotWritten(RuntimeError):
    """Raised when what was read back from the files of the archive is not what was written."""


def located(place: str, path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of the archive, and a file's path there.

    The path is no part of a URL: it may have `%`, which a URL would mean something by.
    """
    where, begin = _file_system(place)
    return where, f"{begin.rstrip('/')}/{path}"


@cache
def _file_system(place: str) -> tuple[fs.FileSystem, str]:
    """Return the archive's file system and its own path there; a client of a store is made once, as it is slow."""
    found: tuple[fs.FileSystem, str] = (
        fs.FileSystem.from_uri(place) if "://" in place else (fs.LocalFileSystem(), place)
    )
    return found


class ArchiveFileMissing(FileNotFoundError):
    """Raised when a file that is to be read is not in the archive; the text says which, and where it should be."""


@contextmanager
def naming(file: str) -> Iterator[None]:
    """Have an error say where a file of the archive, a path or URL, should be, when it is not there."""
    try:
        yield
    except FileNotFoundError:
        text = f"{platform.node()} has no file {file} of the archive; check POISONADMIN_ARCHIVE there."
        raise ArchiveFileMissing(text) from None


class NewFile:
    """Takes rows. On a disk it has another name until it is whole and the disk has it; a store shows no half object."""

    def __init__(self, place: str, path: str, schema: pa.Schema, key: str) -> None:
        self._place, self._path = place, path
        self._where, self._full = located(place, path)
        self._is_local = isinstance(self._where, fs.LocalFileSystem)
        self._name = unfinished(self._full) if self._is_local else self._full
        if self._is_local:
            self._where.create_dir(os.path.dirname(self._full), recursive=True)  # noqa: PTH120  (of any file system)
        self._bytes = _Hashed(self._where.open_output_stream(self._name))
        self._writer = pq.ParquetWriter(pa.PythonFile(self._bytes, mode="w"), schema, compression="zstd")
        self._digest = RowDigest(schema.names)
        self._key = key
        self._first, self._last = 2**63 - 1, 0

    def __enter__(self) -> "NewFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None and not self._bytes.closed:
            self._writer.close()
            self._bytes.close()

    def add(self, rows: pa.RecordBatch) -> None:
        """Write some rows; their keys never fall."""
        self._digest.add(rows)
        self._writer.write_batch(rows, row_group_size=_ROWS_A_GROUP)
        ids = rows.column(self._key)
        self._first, self._last = min(self._first, ids[0].as_py()), max(self._last, ids[-1].as_py())

    def finished(self, table: str, day: date, root: str) -> WrittenFile:
        """Close the file, have the disk keep it, and give it its name. Errors: `PieceNotWritten`, as `check_file`."""
        self._writer.close()
        self._bytes.close()
        if self._is_local:
            _sync(self._name)
            Path(self._name).replace(self._full)
            _sync(os.path.dirname(self._full))  # noqa: PTH120
        written = WrittenFile(
            table,
            day,
            root,
            self._path,
            self._digest.rows,
            self._bytes.size,
            self._bytes.hash.hexdigest(),
            self._digest.hexdigest(),
            self._first,
            self._last,
        )
        check_file(self._place, written, "does not read back as it was written")
        return written


def check_file(place: str, file: WrittenFile, why: str) -> None:
    """Read a file back. Errors: `PieceNotWritten`, with `why`, where rows or bytes are not those that were written."""
    where, full = located(place, file.path)
    whole = hashlib.sha256()
    with naming(full), where.open_input_stream(full) as stream:
        while some := stream.read(_READ_BYTES):
            whole.update(some)
    with where.open_input_file(full) as stored, pq.ParquetFile(stored) as rows:
        digest = RowDigest(rows.schema_arrow.names)
        for batch in rows.iter_batches(batch_size=_ROWS_A_GROUP):
            digest.add(batch)
    if (digest.rows, digest.hexdigest(), whole.hexdigest()) != (file.rows, file.rows_sha256, file.sha256):
        raise PieceNotWritten(f"{file.path} {why}.")


class _Hashed:
    """Passes on what is written, and hashes it on its way."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self.hash = hashlib.sha256()
        self.size = 0

    def write(self, some: bytes) -> int:
        self.hash.update(some)
        self.size += len(some)
        self._stream.write(some)
        return len(some)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        pass

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)

    def close(self) -> None:
        if not self._stream.closed:
            self._stream.close()


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
