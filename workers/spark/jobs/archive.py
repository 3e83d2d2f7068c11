"""The `archive` job: pieces of messages are written to Parquet files, which are then read back.

A task has a piece: one snapshot of the database, some files a table, and what the database had in that snapshot.
`archive.commands.runs` compares that with what there is then, and removes the rows.
`SparkArchiveStore` is how they use the files.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from psycopg import sql
from pyarrow import fs
from pyspark.sql import SparkSession

from poisonadmin.archive.domain.pieces import (
    CHOSEN,
    PieceOrder,
    Rewrite,
    WriteOrder,
    WrittenFile,
    WrittenPiece,
    versions_of,
)
from poisonadmin.core.domain.archive_place import file_path, path_of, unfinished
from poisonadmin.core.domain.secret_settings import database_url
from workers.spark.pieces import do_pieces
from workers.spark.tables.archive_files import NewFile, PieceNotWritten, check_file, located
from workers.spark.tables.columns import ARCHIVED, EXTRAS, MESSAGES, RowSchema, Table, arrow_schema

# A row a file of the archive; and first one a piece, whose `versions` (JSON) is not null.
ARCHIVED_PART = RowSchema(
    "piece long, versions string, table string, day string, root string, path string, rows long, bytes long,"
    " sha256 string, rows_sha256 string, first_id long, last_id long"
)
_BATCH_BYTES = "adbc.postgresql.batch_size_hint_bytes"
_MOST_BATCH_BYTES = str(8 * 1024 * 1024)
# The attempts of a piece are sorted without files.
_SORT_MEMORY = "64MB"
# Of one process. A task and its database take a core, and so do the deletes beside it: others are to have the rest.
_MOST_TASKS = max((os.cpu_count() or 1) // 2, 1)
_DAY, _ROOT = "archive_day", "archive_root"
_ROWS = sql.SQL("""
SELECT {columns}, chosen.day AS archive_day, chosen.root AS archive_root FROM {source}
WHERE {id} > {after} AND {id} <= {until} ORDER BY {order}
""")
_CHOOSE = f"""
CREATE TEMP TABLE chosen ON COMMIT DROP AS
SELECT m.id, to_char(m.state_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, split_part(a.name, '.', 1) AS root
{CHOSEN} ORDER BY m.id
"""


def write_pieces(spark: SparkSession, order: WriteOrder, pieces: Sequence[PieceOrder]) -> dict[int, WrittenPiece]:
    """Write the pieces and read them back; return what was written by the piece's id.

    A piece may be written again, under another name. The tasks read `DATABASE_URL` from their environment.
    """
    work = partial(_write_piece, order, tuple(pieces))
    return as_written(do_pieces(spark, len(pieces), work, ARCHIVED_PART, most=_MOST_TASKS))


def as_written(rows: Sequence[dict[str, Any]]) -> dict[int, WrittenPiece]:
    """Return what tasks have written, by the piece's id."""
    written = {row["piece"]: WrittenPiece(json.loads(row["versions"])) for row in rows if row["versions"] is not None}
    for row in rows:
        if row["versions"] is None:
            piece, day = row.pop("piece"), date.fromisoformat(row.pop("day"))
            row.pop("versions")
            written[piece].files.append(WrittenFile(day=day, **row))
    return written


def _write_piece(order: WriteOrder, pieces: Sequence[PieceOrder], part: int) -> list[dict[str, Any]]:
    piece = pieces[part]
    values = {
        "cutoffs": sql.Literal(order.cutoffs).as_string(), "after": str(piece.after), "until": str(piece.until),
    }  # fmt: skip
    with adbc.connect(database_url(os.environ)) as session, session.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute(f"SET LOCAL work_mem = '{_SORT_MEMORY}'")
        cursor.execute(_CHOOSE % values)
        cursor.execute("ANALYZE chosen")
        cursor.execute(versions_of("chosen") % values)
        versions = {name: [int(n), int(sum_of)] for name, n, sum_of in cursor.fetchall()}
        files: list[WrittenFile] = []
        if versions["message"][0]:
            for table in ARCHIVED:
                files += _write_table(cursor, table, order, piece)
        session.rollback()
    _compare(files, versions)
    return [
        {"piece": piece.id, "versions": json.dumps(versions)},
        *({"piece": piece.id, **vars(file), "day": str(file.day)} for file in files),
    ]


def _compare(files: Sequence[WrittenFile], versions: dict[str, list[int]]) -> None:
    there = {
        "messages": versions["message"][0],
        "attempts": versions["attempt"][0],
        "history": versions["history"][0],
        "extras": sum(versions[table][0] for table in ("hop", "payload_version", "confirmation")),
        "results": versions["operation_result"][0],
    }
    for name, count in there.items():
        found = sum(file.rows for file in files if file.table == name)
        if found != count:
            raise PieceNotWritten(f"The database has {count} rows of {name}, the files have {found}.")


def _write_table(cursor: Any, table: Table, order: WriteOrder, piece: PieceOrder) -> list[WrittenFile]:
    schema = arrow_schema(table.columns)
    joins = " ".join(dict.fromkeys(column.join for column in table.columns if column.join))
    joins %= {"after": piece.after, "until": piece.until}
    query = _ROWS.format(
        columns=sql.SQL(", ".join(column.as_sql for column in table.columns)),
        source=sql.SQL(f"{table.own} JOIN chosen ON chosen.id = {table.id} {joins}"),
        id=sql.SQL(table.id),
        after=piece.after,
        until=piece.until,
        order=sql.SQL(", ".join((table.id, *table.order))),
    )
    cursor.adbc_statement.set_options(**{_BATCH_BYTES: _MOST_BATCH_BYTES})
    cursor.execute(query.as_string())
    key = schema.names[0]
    with ExitStack() as files:
        open_files: dict[tuple[str, str], NewFile] = {}
        for batch in cursor.fetch_record_batch():
            for (day, root), rows in _divided(batch, schema):
                if (day, root) not in open_files:
                    path = file_path(order.run_id, table.name, date.fromisoformat(day), root, piece.name)
                    open_files[day, root] = files.enter_context(NewFile(order.place, path, schema, key))
                open_files[day, root].add(rows)
        return [file.finished(table.name, date.fromisoformat(day), root) for (day, root), file in open_files.items()]


def _divided(batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[tuple[tuple[str, str], pa.RecordBatch]]:
    """Yield the rows of each day and root, in their order."""
    place = pc.binary_join_element_wise(batch.column(_DAY), batch.column(_ROOT), "/")
    rows = batch.select(schema.names).cast(schema)
    for one in place.unique().to_pylist():
        day, _, root = one.partition("/")
        yield (day, root), rows.filter(pc.equal(place, one))


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
