"""Running a query and getting its rows as frozen values."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar

from django.db import connection, transaction
from django.db.utils import OperationalError
from psycopg.errors import QueryCanceled

from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.sql import Sql, name, names, raw

Row = TypeVar("Row")
Parameters = Sequence[Any] | Mapping[str, Any]

SEARCH_SECONDS = 10
_JSONB = 3802
# The database unpacks a compressed value from its beginning for each slice, so many small ones are slow; a slice stands
# in memory about four times.
SLICE_BYTES = 2 * 1024 * 1024


class QueryTooExpensive(PoisonAdminError):
    """Raised when a search was stopped because it would read too much; a narrower one is needed."""

    code = "query_too_expensive"
    status = 422


class Versioned:
    """A row whose changes are counted."""

    version: int

    @property
    def etag(self) -> str:
        """The ETag that `If-Match` is compared with."""
        return f'"{self.version}"'


def columns(row: type[Any], table: str) -> Sql:
    """Return the columns of `table` that are the fields of a dataclass."""
    return names(f"{table}.{field.name}" for field in fields(row))


def execute(cursor: Any, sql: Sql | str, parameters: Parameters = ()) -> None:
    """Execute a statement: an `Sql`, or a text with its parameters."""
    if isinstance(sql, Sql):
        cursor.execute(sql.text, sql.parameters)
    else:
        cursor.execute(sql, parameters)


def fetch(row: type[Row], sql: Sql | str, parameters: Parameters = ()) -> list[Row]:
    """Return each result as a `row`, whose fields are the result's column names."""
    with connection.cursor() as cursor:
        execute(cursor, sql, parameters)
        names = [column.name for column in cursor.description]
        # Django leaves jsonb as text, so that its JSONField can choose the decoder.
        documents = [index for index, column in enumerate(cursor.description) if column.type_code == _JSONB]
        return [row(**dict(zip(names, _parsed(values, documents), strict=True))) for values in cursor.fetchall()]


def _parsed(values: tuple[Any, ...], documents: Sequence[int]) -> Sequence[Any]:
    if not documents:
        return values
    return [
        json.loads(value) if index in documents and value is not None else value for index, value in enumerate(values)
    ]


def fetch_one(row: type[Row], sql: Sql | str, parameters: Parameters = ()) -> Row | None:
    """Return the only result, or None."""
    rows = fetch(row, sql, parameters)
    return rows[0] if rows else None


def fetch_by_id(row: type[Row], sql: Sql | str, row_id: int) -> Row | None:
    """Return the result of `sql`, which compares with one id; None where there is none of this id, or can be none."""
    return fetch_one(row, sql, [row_id]) if 0 < row_id <= MAX_ID else None


def known(row: Row | None, what: str) -> Row:
    """Return the row; raise NotFound where there is none."""
    if row is None:
        raise NotFound(f"There is no {what}.")
    return row


def fetch_rows(sql: Sql | str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
    """Return each result as a tuple."""
    with connection.cursor() as cursor:
        execute(cursor, sql, parameters)
        return list(cursor.fetchall())


def fetch_values(sql: Sql | str, parameters: Parameters = ()) -> list[Any]:
    """Return the first column."""
    return [values[0] for values in fetch_rows(sql, parameters)]


def database_time() -> datetime:
    """Return the time at which the transaction began, by the database's clock."""
    found: datetime = fetch_values("SELECT now()")[0]
    return found


def one_of(column: str, values: Sequence[str] | Sequence[int]) -> Sql:
    """Return the condition that the column has one of the values: ids, which may be many, or codes of ours."""
    if not values:
        return Sql("FALSE")
    if any(isinstance(one, str) for one in values):
        return raw(f"{column} IN ({', '.join(repr(str(one)) for one in values)})")
    ids = ",".join(str(int(one)) for one in values)
    # One text is read sooner than thousands of numbers.
    return raw(f"{column} = {ids}" if len(values) == 1 else f"{column} = ANY('{{{ids}}}')")


@contextmanager
def bounded(seconds: float = SEARCH_SECONDS) -> Iterator[None]:
    """Stop a statement inside after `seconds` and raise QueryTooExpensive: nobody can hold a back end with a search."""
    was = fetch_values("SELECT current_setting('statement_timeout')")[0] if connection.in_atomic_block else None
    try:
        with transaction.atomic():
            _set_timeout(f"{round(seconds * 1000)}ms")
            yield
            if was is not None:
                _set_timeout(was)
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise QueryTooExpensive(
                f"This search was stopped after {seconds:g} s; add a state, an address or an id to it."
            ) from error
        raise


def _set_timeout(timeout: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [timeout])


class BytesGone(Exception):
    """Raised when the row was removed while it was read; what has been sent by then is to be broken off."""


@dataclass(frozen=True)
class StoredBytes:
    """A value and its size. `slices` may be read once, and reads each slice when it is asked for it."""

    size_bytes: int
    slices: Iterator[bytes]


def stored_bytes(table: str, column: str, *key: int, where: str = "id = %s") -> StoredBytes | None:
    """Return the value in the row with this key; None where there is none. The names are no input of anybody's."""
    row = Sql("{table} WHERE {where}", table=name(table), where=raw(where, key))
    sizes = fetch_values(Sql("SELECT octet_length({column}) FROM {row}", column=name(column), row=row))
    return StoredBytes(sizes[0], _slices(row, name(column), sizes[0])) if sizes else None


def _slices(row: Sql, column: Sql, size_bytes: int) -> Iterator[bytes]:
    for start in range(0, size_bytes, SLICE_BYTES):
        found = fetch_values(
            Sql(
                "SELECT substring({column} FROM {first} FOR {most}) FROM {row}",
                column=column,
                first=start + 1,
                most=SLICE_BYTES,
                row=row,
            )
        )
        # Whoever reads slowly must not keep one of the pool's connections meanwhile.
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
        if not found:
            raise BytesGone
        yield bytes(found[0])
