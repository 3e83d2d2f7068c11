"""Long values of bytes, read out of the database a slice at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db import connection

from poisonadmin.core.queries.rows import fetch, fetch_values

# The database unpacks a compressed value from its beginning for each slice, so many small ones are slow; a slice stands
# in memory about four times.
SLICE_BYTES = 2 * 1024 * 1024


class BytesGone(Exception):
    """Raised when the row was removed while it was read; what has been sent by then is to be broken off."""


@dataclass(frozen=True)
class StoredBytes:
    """A value and its size. `slices` may be read once, and reads each slice when it is asked for it."""

    size_bytes: int
    slices: Iterator[bytes]


@dataclass(frozen=True)
class _Size:
    size_bytes: int


def stored_bytes(table: str, column: str, row_id: int) -> StoredBytes | None:
    """Return the value in the row with this `id`; None where there is none. The names are no input of anybody's."""
    rows = fetch(_Size, f"SELECT octet_length({column}) AS size_bytes FROM {table} WHERE id = %s", [row_id])  # noqa: S608
    return StoredBytes(rows[0].size_bytes, _slices(table, column, row_id, rows[0].size_bytes)) if rows else None


def _slices(table: str, column: str, row_id: int, size_bytes: int) -> Iterator[bytes]:
    for start in range(0, size_bytes, SLICE_BYTES):
        found = fetch_values(
            f"SELECT substring({column} FROM %s FOR %s) FROM {table} WHERE id = %s",  # noqa: S608
            [start + 1, SLICE_BYTES, row_id],
        )
        # Whoever reads slowly must not keep one of the pool's connections meanwhile.
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
        if not found:
            raise BytesGone
        yield bytes(found[0])
