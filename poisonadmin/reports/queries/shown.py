"""Rows of a report as JSON has them, and as a page shows them."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from poisonadmin.reports.domain.asked import Row
from poisonadmin.reports.domain.columns import IDS


def as_objects(columns: Sequence[str], rows: Iterable[Row], time_zone: str) -> Iterator[dict[str, Any]]:
    """Yield each row by the names of its columns: times in the time zone, ids and payloads as texts."""
    zone = ZoneInfo(time_zone)
    for row in rows:
        yield {name: _value(name, value, zone) for name, value in zip(columns, row, strict=True)}


def _value(name: str, value: Any, zone: ZoneInfo) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(zone).isoformat(timespec="milliseconds")
    if isinstance(value, bytes | memoryview):
        return bytes(value).decode("utf-8", "replace")
    return str(value) if name in IDS and value is not None else value
