"""A file of the archive: written whole or not at all, and read back."""

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from poisonadmin.archive.domain.place import unfinished
from workers.spark.tables.row_digest import RowDigest

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


@dataclass(frozen=True)
class Finished:
    """A file that was written: its rows and bytes, and the SHA-256 of both."""

    path: str
    rows: int
    bytes: int
    sha256: str
    rows_sha256: str
    first_id: int
    last_id: int


class NewFile:
    """Takes rows. On a disk it has another name until it is whole and the disk has it; a store shows no half object."""

    def __init__(self, place: str, path: str, schema: pa.Schema, key: str) -> None:
        self._path = path
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

    def finished(self) -> Finished:
        """Close the file, have the disk keep it, and give it its name."""
        self._writer.close()
        self._bytes.close()
        if self._is_local:
            _sync(self._name)
            Path(self._name).replace(self._full)
            _sync(os.path.dirname(self._full))  # noqa: PTH120
        return Finished(
            self._path,
            self._digest.rows,
            self._bytes.size,
            self._bytes.hash.hexdigest(),
            self._digest.hexdigest(),
            self._first,
            self._last,
        )


def read_back(place: str, path: str) -> tuple[int, str, str]:
    """Return how many rows a file has, their SHA-256, and that of its bytes."""
    where, full = located(place, path)
    whole = hashlib.sha256()
    with where.open_input_stream(full) as stream:
        while some := stream.read(_READ_BYTES):
            whole.update(some)
    with where.open_input_file(full) as stored, pq.ParquetFile(stored) as file:
        digest = RowDigest(file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=_ROWS_A_GROUP):
            digest.add(batch)
    return digest.rows, digest.hexdigest(), whole.hexdigest()


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
