"""A file of the archive is written anew: without the rows of some messages, or with their payloads empty."""

import json
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from poisonadmin.archive.domain.pieces import Rewrite, WrittenFile
from workers.spark.tables.archive_files import NewFile, PieceNotWritten, located, read_back
from workers.spark.tables.columns import EXTRAS, MESSAGES

# As PostgreSQL writes no bytes into JSON.
_NO_BYTES = "\\x"


def rewrite_file(place: str, file: WrittenFile, change: Rewrite, path: str) -> WrittenFile | None:
    """Write a file anew at `path`, and read it back; None when nothing is left of it.

    Errors: `PieceNotWritten`: the file is not as it was noted, or the new one does not read back.
    """
    if read_back(place, file.path) != (file.rows, file.rows_sha256, file.sha256):
        raise PieceNotWritten(f"{file.path} is not what was written.")
    where, full = located(place, file.path)
    gone, emptied = (pa.array(list(ids), pa.int64()) for ids in (change.without, change.emptied))
    left = 0
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
                left += rows.num_rows
        finished = target.finished() if target is not None else None
    if finished is None:
        return None
    if read_back(place, path) != (left, finished.rows_sha256, finished.sha256):
        raise PieceNotWritten(f"{path} does not read back as it was written.")
    return WrittenFile(file.table, file.day, file.root, **vars(finished))


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
