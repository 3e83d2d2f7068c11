"""The files of the archive, as the commands of `poisonadmin.archive` use them."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import SparkSession

from poisonadmin.archive.domain.pieces import PieceOrder, Rewrite, WriteOrder, WrittenFile, WrittenPiece
from poisonadmin.core.domain.archive_place import path_of, unfinished
from workers.spark.jobs.archive import write_pieces
from workers.spark.tables.archive_files import NewFile, check_file, located
from workers.spark.tables.columns import EXTRAS, MESSAGES


class SparkArchiveStore:
    """Writes pieces by Spark tasks; what is small, from here."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        self._spark = spark
        self._place = place

    def write(self, order: WriteOrder, pieces: Sequence[PieceOrder]) -> Mapping[int, WrittenPiece]:
        """Write the pieces and read them back."""
        return write_pieces(self._spark, order, pieces)

    def rewrite(self, place: str, file: WrittenFile, change: Rewrite, path: str) -> WrittenFile | None:
        """Write a file anew at `path`, and read it back; None when nothing is left of it.

        Errors: `PieceNotWritten`: the file is not as it was noted, or the new one does not read back.
        """
        check_file(place, file, "is not what was written")
        where, full = located(place, file.path)
        gone, emptied = (pa.array(list(ids), pa.int64()) for ids in (change.without, change.emptied))
        with where.open_input_file(full) as stored, pq.ParquetFile(stored) as old, ExitStack() as new:
            # Its own: it has the columns that there were when it was written.
            schema = old.schema_arrow
            key = schema.names[0]
            target: NewFile | None = None
            for batch in old.iter_batches():
                rows = batch.filter(pc.invert(pc.is_in(batch.column(key), value_set=gone)))
                if rows.num_rows:
                    target = target or new.enter_context(NewFile(place, path, schema, key))
                    target.add(_without_payloads(file.table, rows, pc.is_in(rows.column(key), value_set=emptied)))
            return None if target is None else target.finished(file.table, file.day, file.root)

    def put(self, path: str, content: bytes) -> None:
        """Put a small file, whole or not at all."""
        where, full = located(self._place, path)
        is_local = isinstance(where, fs.LocalFileSystem)
        if is_local:
            where.create_dir(os.path.dirname(full), recursive=True)  # noqa: PTH120  (of any file system)
        with where.open_output_stream(unfinished(full) if is_local else full) as stream:
            stream.write(content)
        if is_local:
            Path(unfinished(full)).replace(full)

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files, also such as are gone."""
        for path in paths:
            where, full = located(self._place, path)
            if where.get_file_info(full).type != fs.FileType.NotFound:
                where.delete_file(full)

    def listed(self, directory: str) -> list[str]:
        """Return the paths of all files below a directory of the archive."""
        where, full = located(self._place, directory)
        found = where.get_file_info(fs.FileSelector(full, allow_not_found=True, recursive=True))
        return [path_of(one.path) for one in found if one.type == fs.FileType.File]


# As PostgreSQL writes no bytes into JSON.
_NO_BYTES = "\\x"


def _without_payloads(table: str, rows: pa.RecordBatch, is_emptied: pa.BooleanArray) -> pa.RecordBatch:
    """Return the rows with empty payloads where `is_emptied`: of messages, and of what they held before."""
    if table == MESSAGES.name:
        payloads = pc.if_else(is_emptied, pa.scalar(b"", pa.binary()), rows.column("payload"))
        return rows.set_column(rows.schema.get_field_index("payload"), rows.schema.field("payload"), payloads)
    if table == EXTRAS.name:
        texts = [
            _without_payload(row) if kind == "payload_version" and empties else row
            for row, kind, empties in zip(
                rows.column("row").to_pylist(), rows.column("kind").to_pylist(), is_emptied.to_pylist(), strict=True
            )
        ]
        index = rows.schema.get_field_index("row")
        return rows.set_column(index, rows.schema.field("row"), pa.array(texts, pa.string()))
    return rows


def _without_payload(row: str) -> str:
    return json.dumps(json.loads(row) | {"payload": _NO_BYTES}, ensure_ascii=False)
