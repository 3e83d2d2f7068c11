"""The peer of every intake: the finished rows by binary COPY into the same tables with the same indexes."""

from pathlib import Path

import psycopg

from benchmarks import loads
from benchmarks.stopwatch import Rate, Stopwatch

# What one accepted message consists of.
TABLES = ("body", "envelope", "message", "history")
_CHUNK_BYTES = 1024 * 1024


def dump(database_url: str, directory: Path) -> None:
    """Write the messages that are there now into files, ready to be copied in again."""
    with psycopg.connect(database_url) as connection:
        for table in TABLES:
            with (
                _file(directory, table).open("wb") as file,
                connection.cursor() as cursor,
                cursor.copy(f"COPY {table} TO STDOUT (FORMAT binary)") as copy,
            ):
                for block in copy:
                    file.write(block)


def load(database_url: str, directory: Path, count: int) -> Rate:
    """Copy the dumped rows into the emptied tables, in one transaction."""
    loads.empty()
    watch = Stopwatch()
    with watch, psycopg.connect(database_url) as connection:
        for table in TABLES:
            with (
                _file(directory, table).open("rb") as file,
                connection.cursor() as cursor,
                cursor.copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy,
            ):
                while block := file.read(_CHUNK_BYTES):
                    copy.write(block)
    assert loads.count_not("none") == count, "not every row was copied"
    return watch.rate(count)


def _file(directory: Path, table: str) -> Path:
    return directory / f"{table}.copy"
