"""Rows as files: their columns, their formats, and cells that no spreadsheet runs."""

import re
from enum import StrEnum
from typing import Any

# In JSON they are texts: a browser's numbers end at 2^53.
IDS = frozenset({"id", "group_id", "operation_id"})
# What makes a spreadsheet read a cell as a formula, and the full-width forms that some take for the same.
_STARTERS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
_NUMBER = re.compile(r"[+-]?\d{1,1000}(\.\d{1,1000})?([eE][+-]?\d{1,4})?", re.ASCII)
_SKIPPED = " \u00a0\u3000\u200b\ufeff\x00"
# A tab or line break may hide behind the blanks, or be the blank itself.
_START = f"^[{_SKIPPED}]*+[{_STARTERS}\t\r\n]"
# Where semicolons or tabs separate cells, those of a CSV file begin anew behind each, and quotes end nothing there.
_INSIDE = f'[;\t\r\n][{_SKIPPED}"]*+(?=[{_STARTERS}])'


class ColumnType(StrEnum):
    """The types of columns. BYTES are shown as text, in UTF-8 as far as they are."""

    TEXT = "text"
    WHOLE = "whole"
    DECIMAL = "decimal"
    TIME = "time"
    BYTES = "bytes"


Row = tuple[Any, ...]
Schema = tuple[tuple[str, ColumnType], ...]
"""The name and the type of each column."""


class FileFormat(StrEnum):
    """The formats of files of rows."""

    JSON = "json"
    CSV = "csv"
    XLSX = "xlsx"
    NDJSON = "ndjson"
    PARQUET = "parquet"


def guarded(text: str) -> str:
    """Return the cell such that no spreadsheet runs it: an apostrophe goes before what would start a formula.

    A number alone is none, and stays as it came (R19).

    >>> guarded("=1+1"), guarded(" @SUM(A1)"), guarded("a=b"), guarded("＝1"), guarded("a; =1")
    ("'=1+1", "' @SUM(A1)", 'a=b', "'＝1", "a; '=1")
    >>> guarded("-9007199254740993")
    '-9007199254740993'
    """
    inside = re.sub(_INSIDE, r"\g<0>'", text)
    return f"'{inside}" if re.match(_START, text) and not _NUMBER.fullmatch(text) else inside
