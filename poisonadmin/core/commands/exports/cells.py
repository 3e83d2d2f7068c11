"""Columns of Arrow as texts of cells, whole columns at once: in C, without a Python object a cell."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

_MS_A_MINUTE = 60_000


def joined(*parts: pa.Array | str) -> pa.Array:
    """Return the parts of each row as one text; null where one of them is."""
    return pc.binary_join_element_wise(*parts, "")


def content_of(texts: pa.Array) -> pa.Buffer:
    """Return texts, none of them null, one behind the other."""
    together = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return pc.binary_join(together, "")[0].as_buffer()


def changed(column: pa.Array, pattern: str, change: Callable[[str], str]) -> pa.Array:
    """Return texts with those changed that match a pattern: they become Python's, and mostly they are few."""
    matching = pc.fill_null(pc.match_substring_regex(column, pattern), False)
    if not pc.any(matching).as_py():
        return column
    cells = [change(text) for text in column.filter(matching).to_pylist()]
    return pc.replace_with_mask(column, matching, pa.array(cells, pa.string()))


def as_shown(column: pa.Array, time_zone: str) -> pa.Array:
    """Return times in the time zone, to the millisecond, payloads as text, and all else as it is."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ms", tz=time_zone), safe=False)
    if pa.types.is_binary(column.type):
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            texts = [None if value is None else value.decode("utf-8", "replace") for value in column.to_pylist()]
            return pa.array(texts, pa.string())
    return column


def time_texts(column: pa.Array) -> pa.Array:
    """Return each time as RFC 3339 says it, to the millisecond, in the column's time zone.

    `strftime` takes ten times as long.
    """
    local = pc.local_timestamp(column)
    ahead = pc.subtract(local.cast(pa.int64()), column.cast(pa.int64())).dictionary_encode()
    offsets = pa.array([_offset(ms) for ms in ahead.dictionary.to_pylist()], pa.string())
    return joined(pc.binary_replace_slice(local.cast(pa.string()), 10, 11, "T"), offsets.take(ahead.indices))


def _offset(ms: int) -> str:
    """Return how far a clock is ahead of UTC.

    >>> _offset(19_800_000), _offset(-12_600_000)
    ('+05:30', '-03:30')
    """
    minutes = abs(ms) // _MS_A_MINUTE
    return f"{'-' if ms < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
