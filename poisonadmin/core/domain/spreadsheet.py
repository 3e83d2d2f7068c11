"""Records as CSV (RFC 4180, UTF-8) that no spreadsheet runs."""

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

BYTE_ORDER_MARK = "\ufeff"
# What makes a spreadsheet read a cell as a formula, and the full-width forms that some take for the same.
_STARTERS = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
_SKIPPED = " \u00a0\u3000\u200b\ufeff\x00"


def header_line(columns: Sequence[str], *, mark: bool = False) -> bytes:
    """Return the first line. `mark`: behind a byte order mark, which makes spreadsheets read all as UTF-8."""
    return (BYTE_ORDER_MARK.encode() if mark else b"") + lines([columns])


def lines(records: Iterable[Sequence[str]]) -> bytes:
    """Return a line a record. Its texts are those that `cell` makes."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(records)
    return text.getvalue().encode("utf-8", "backslashreplace")


def cell(value: object) -> str:
    """Return the text of a value, guarded: nothing for None, times in UTC.

    >>> cell(None), cell(7), cell(datetime(2026, 1, 31, 12, tzinfo=UTC))
    ('', '7', '2026-01-31T12:00:00.000Z')
    """
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return guarded(str(value).replace("\x00", "␀"))


def guarded(text: str) -> str:
    """Return the cell such that no spreadsheet runs it: an apostrophe goes before what would start a formula.

    >>> guarded("=1+1"), guarded(" @SUM(A1)"), guarded("a=b"), guarded("＝1")
    ("'=1+1", "' @SUM(A1)", 'a=b', "'＝1")
    """
    start = text.lstrip(_SKIPPED)[:1]
    # A tab or line break may hide behind the blanks, or be the blank itself.
    return f"'{text}" if start in _STARTERS and text else text
