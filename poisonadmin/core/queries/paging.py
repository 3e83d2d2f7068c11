"""Keyset paging: a page begins where the last one ended, so a deep page costs what the first one costs."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.rows import QueryTooExpensive, bounded, fetch, fetch_values
from poisonadmin.core.queries.sql import TRUE, Sql, raw

Row = TypeVar("Row")

DEFAULT_LIMIT = 50
MAX_LIMIT = 500
# Rows of a list are counted up to this number, and no longer than this: a page does not wait for its total.
CAP = 10_000
COUNT_SECONDS = 0.1
_SQL_TYPES: dict[type, str] = {int: "bigint", datetime: "timestamptz", str: "text"}


class InvalidCursor(PoisonAdminError):
    """Raised when a cursor does not belong to this list."""

    code = "invalid_cursor"


@dataclass(frozen=True)
class Count:
    """The number of rows; `capped`: at least so many."""

    n: int
    capped: bool


@dataclass(frozen=True)
class Page(Generic[Row]):
    """`next` and `previous` are cursors, None where there is nothing more that way.

    `counting` counts the whole list; None: it has no more than `results`.
    """

    results: list[Row]
    next: str | None
    previous: str | None
    counting: Callable[[], Count | None] | None = field(default=None, compare=False, repr=False)

    def total(self) -> Count:
        """Return how many rows all pages have together; at least those of this page, where counting takes too long."""
        if self.counting is None:
            return Count(len(self.results), capped=False)
        return self.counting() or Count(len(self.results), capped=True)


@dataclass(frozen=True)
class Key:
    """The columns that order a list, unique together; `kinds` (int, datetime, str) is what a cursor must hold.

    `fields` are a row's with the same values, where they have other names than the columns.
    """

    columns: tuple[str, ...]
    kinds: tuple[type, ...]
    descending: bool = True
    fields: tuple[str, ...] = ()

    def of(self, row: Any) -> tuple[Any, ...]:
        """Return the row's place in the list."""
        return tuple(getattr(row, field.rpartition(".")[2]) for field in self.fields or self.columns)


NEWEST_FIRST = Key(("id",), (int,))


@dataclass(frozen=True)
class Window:
    """Which rows one page reads; one more than it shows tells whether there is more."""

    key: Key
    limit: int
    after: tuple[Any, ...] | None = None
    backward: bool = False

    @property
    def _falling(self) -> bool:
        return self.key.descending is not self.backward

    @property
    def where(self) -> Sql:
        """The condition that a row is on this page or behind it."""
        if self.after is None:
            return TRUE
        places = ", ".join(f"%s::{_SQL_TYPES[kind]}" for kind in self.key.kinds)
        return raw(f"({', '.join(self.key.columns)}) {'<' if self._falling else '>'} ({places})", self.after)

    @property
    def direction(self) -> str:
        """The SQL for the order of each column."""
        return "DESC" if self._falling else "ASC"

    @property
    def order(self) -> Sql:
        """ORDER BY and LIMIT."""
        return ordered_by(self.key.columns, self.direction, self.limit + 1)

    def page(self, rows: Sequence[Row], counting: Callable[[], Count | None] | None = None) -> Page[Row]:
        """Return the page that `rows`, read as this window says, make up; `counting` counts the list they are of."""
        more = len(rows) > self.limit
        shown = list(rows[: self.limit])
        if self.backward:
            shown.reverse()
        has_next = bool(shown) and (more or self.backward)
        has_previous = bool(shown) and (more if self.backward else self.after is not None)
        return Page(
            shown,
            _encode(self.key.of(shown[-1]), backward=False) if has_next else None,
            _encode(self.key.of(shown[0]), backward=True) if has_previous else None,
            None if self.after is None and not more else counting or _not_counted,
        )


def ordered_by(columns: Sequence[str], direction: str, limit: int) -> Sql:
    """Return ORDER BY and LIMIT, all columns in one direction: ASC or DESC."""
    order = ", ".join(f"{column} {direction}" for column in columns)
    return raw(f"ORDER BY {order} LIMIT {limit}")


def _not_counted() -> Count | None:
    return None


def window(cursor: str | None, limit: int = DEFAULT_LIMIT, key: Key = NEWEST_FIRST, *, most: int = MAX_LIMIT) -> Window:
    """Return the window of `cursor` (None: the first page), 1 to `most` rows; raise InvalidCursor."""
    limit = max(1, min(limit, most))
    if cursor is None:
        return Window(key, limit)
    after, backward = _decode(cursor, key)
    return Window(key, limit, after, backward)


def fetch_page(row: type[Row], whole: Sql, page: Window) -> Page[Row]:
    """Return the page of what a statement selects; it ends in a condition."""
    rows = fetch(row, Sql("{whole} AND {place} {order}", whole=whole, place=page.where, order=page.order))
    return page.page(rows, lambda: count_rows(whole))


def count_rows(whole: Sql) -> Count | None:
    """Return how many rows are selected, counted to 10,000; None where that takes more than a tenth of a second."""
    try:
        with bounded(COUNT_SECONDS):
            counted = Sql("SELECT count(*) FROM ({whole} LIMIT {most}) counted", whole=whole, most=CAP + 1)
            found = fetch_values(counted)[0]
    except QueryTooExpensive:
        return None
    return Count(min(found, CAP), found > CAP)


def _encode(values: tuple[Any, ...], *, backward: bool) -> str:
    texts = [value.isoformat() if isinstance(value, datetime) else value for value in values]
    return base64.urlsafe_b64encode(json.dumps([int(backward), *texts]).encode()).decode().rstrip("=")


def _decode(cursor: str, key: Key) -> tuple[tuple[Any, ...], bool]:
    try:
        backward, *values = json.loads(
            base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        )
        if backward not in (0, 1) or len(values) != len(key.kinds):
            raise InvalidCursor("This cursor does not belong to this list.")
        return tuple(_checked(value, kind) for value, kind in zip(values, key.kinds, strict=True)), bool(backward)
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise InvalidCursor("This cursor is not one that the list gave out.") from error


def _checked(value: Any, kind: type) -> Any:
    if kind is int:
        if type(value) is not int or not 0 <= value <= MAX_ID:
            raise ValueError(value)
        return value
    if kind is str:
        if type(value) is not str or "\x00" in value:
            raise ValueError(value)
        return value.encode().decode()
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError(value)
    return moment
