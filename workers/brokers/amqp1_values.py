"""AMQP 1.0 values: read as Python's, found as slices that keep their bytes, and written.

What goes back to a broker is cut out of what came, so it keeps its types. Source: AMQP 1.0, part 1 (Types).
"""

import base64
import json
import struct
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

NULL = b"\x40"
TRUE = b"\x41"
FALSE = b"\x42"
_NO_WIDTH: dict[int, Any] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0}
_FIXED = {
    code: struct.Struct(">" + kind)
    for code, kind in {
        0x50: "B", 0x51: "b", 0x52: "B", 0x53: "B", 0x54: "b", 0x55: "b", 0x56: "?", 0x60: "H", 0x61: "h", 0x70: "I",
        0x71: "i", 0x72: "f", 0x80: "Q", 0x81: "q", 0x82: "d",
    }.items()
}  # fmt: skip
_TEXTS = frozenset((0xA1, 0xB1, 0xA3, 0xB3))
_LISTS = frozenset((0xC0, 0xD0))
_MAPS = frozenset((0xC1, 0xD1))
_ARRAYS = frozenset((0xE0, 0xF0))
# The upper half of a constructor says how long the value is.
_WIDTHS = {0x40: 0, 0x50: 1, 0x60: 2, 0x70: 4, 0x80: 8, 0x90: 16}
_LENGTH = struct.Struct(">I")
_SIZE_AND_COUNT = struct.Struct(">II")
# Lists may hold lists; what is nested deeper is not read. A described value may be described itself.
_MAX_DEPTH = 32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_MS = 253402300799999


class Described(tuple[Any, Any]):
    """A value with what describes it: `(descriptor, value)`."""

    __slots__ = ()


def end_of(raw: bytes, start: int, depth: int = 0) -> int:
    """Return where the value that begins at `start` ends; raise ValueError when that is past the end."""
    try:
        code = raw[start]
        if code == 0:
            if depth > _MAX_DEPTH:
                raise ValueError("a value is nested too deeply")
            return end_of(raw, end_of(raw, start + 1, depth + 1), depth + 1)
        end = _end_of_value(raw, code, start + 1)
    except (IndexError, struct.error):
        raise ValueError("a value ends too early") from None
    if end > len(raw):
        raise ValueError("a value ends too early")
    return end


def read(raw: bytes, start: int = 0, depth: int = 0) -> Any:
    """Return the value at `start`: numbers, texts, symbols as texts, bytes, lists, maps as lists of pairs.

    Texts that are not UTF-8 stay bytes, decimals are their bytes. Errors: ValueError.
    """
    end = end_of(raw, start)
    code = raw[start]
    if depth > _MAX_DEPTH:
        raise ValueError("a value is nested too deeply")
    if code == 0:
        middle = end_of(raw, start + 1)
        return Described((read(raw, start + 1, depth + 1), read(raw, middle, depth + 1)))
    return _value(raw, code, start + 1, end, depth)


def items(raw: bytes, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield where each element of the list or map at `start` begins and ends; a map's are keys and values in turn.

    Errors: ValueError when it is neither, or its bytes do not make sense.
    """
    code = raw[start]
    if code == 0x45:
        return
    if code not in _LISTS and code not in _MAPS:
        raise ValueError("a list or a map was expected")
    end = end_of(raw, start)
    count, place = _counted(raw, code, start + 1)
    for _ in range(count):
        after = end_of(raw, place)
        if after > end:
            raise ValueError("an element ends too late")
        yield place, after
        place = after


def as_text(value: Any) -> str:
    """Return a value as a person, a rule or a key reads it: texts as they are, bytes as base64, the rest as JSON.

    >>> as_text("eu"), as_text(7), as_text(True), as_text(b"\\xff"), as_text([("at", None)])
    ('eu', '7', 'true', '/w==', '[["at", null]]')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | datetime | uuid.UUID):
        return _shown(value)
    return json.dumps(value, ensure_ascii=False, default=_shown)


def text(value: str) -> bytes:
    """Return a string."""
    return _with_length(0xA1, 0xB1, value.encode("utf-8", "replace"))


def symbol(value: str) -> bytes:
    """Return a symbol; ASCII only."""
    return _with_length(0xA3, 0xB3, value.encode("ascii", "replace"))


def binary(value: bytes) -> bytes:
    """Return bytes."""
    return _with_length(0xA0, 0xB0, value)


def boolean(value: bool) -> bytes:
    """Return a truth value."""
    return TRUE if value else FALSE


def uint(value: int) -> bytes:
    """Return an unsigned number of 32 bits."""
    return b"\x52%c" % value if value < 256 else b"\x70" + _LENGTH.pack(value)


def ubyte(value: int) -> bytes:
    """Return an unsigned number of 8 bits."""
    return b"\x50%c" % value


def a_list(values: Iterable[bytes]) -> bytes:
    """Return a list of values that are written already."""
    return _compound(0xC0, 0xD0, list(values))


def a_map(keys_and_values: Iterable[bytes]) -> bytes:
    """Return a map of keys and values in turn that are written already."""
    return _compound(0xC1, 0xD1, list(keys_and_values))


def described(code: int, value: bytes) -> bytes:
    """Return a value described by a number."""
    return b"\x00\x53%c%b" % (code, value)


def _end_of_value(raw: bytes, code: int, start: int) -> int:
    kind = code & 0xF0
    width = _WIDTHS.get(kind)
    if width is not None:
        return start + width
    if kind in (0xA0, 0xC0, 0xE0):
        return start + 1 + raw[start]
    if kind in (0xB0, 0xD0, 0xF0):
        return start + 4 + int(_LENGTH.unpack_from(raw, start)[0])
    raise ValueError(f"a value has the unknown type {code:#x}")


def _value(raw: bytes, code: int, start: int, end: int, depth: int) -> Any:
    if (number := _FIXED.get(code)) is not None:
        return number.unpack_from(raw, start)[0]
    if code in _NO_WIDTH:
        return _NO_WIDTH[code]
    if code & 0xE0 == 0xA0:
        content = raw[start + (1 if code & 0xF0 == 0xA0 else 4) : end]
        return _text(content) if code in _TEXTS else content
    if code == 0x45 or code in _LISTS:
        return [read(raw, place, depth + 1) for place, _ in items(raw, start - 1)]
    if code in _MAPS:
        flat = [read(raw, place, depth + 1) for place, _ in items(raw, start - 1)]
        return list(zip(flat[::2], flat[1::2], strict=True))
    if code in _ARRAYS:
        return _array(raw, code, start, end, depth)
    if code == 0x83:
        at = int.from_bytes(raw[start:end], signed=True)
        return _EPOCH + timedelta(milliseconds=min(max(at, 0), _MAX_MS))
    if code == 0x98:
        return uuid.UUID(bytes=raw[start:end])
    if code == 0x73:
        point = int.from_bytes(raw[start:end])
        return chr(point) if point < 0x110000 and not 0xD800 <= point < 0xE000 else point
    return raw[start:end]


def _array(raw: bytes, code: int, start: int, end: int, depth: int) -> list[Any]:
    # One constructor, then values without theirs.
    count, place = _counted(raw, code, start)
    if place >= end or raw[place] == 0:
        return []
    kind, place = raw[place], place + 1
    found = []
    for _ in range(count if kind not in _NO_WIDTH else 0):
        after = _end_of_value(raw, kind, place)
        if after > end:
            raise ValueError("an element ends too late")
        found.append(_value(raw, kind, place, after, depth + 1))
        place = after
    return found


def _counted(raw: bytes, code: int, start: int) -> tuple[int, int]:
    # What is empty but for its size has no count.
    try:
        if code & 0xF0 in (0xC0, 0xE0):
            return raw[start + 1], start + 2
        return int(_LENGTH.unpack_from(raw, start + 4)[0]), start + 8
    except (IndexError, struct.error):
        raise ValueError("a list has no count") from None


def _with_length(short: int, long: int, content: bytes) -> bytes:
    if len(content) < 256:
        return b"%c%c%b" % (short, len(content), content)
    return b"%c%b%b" % (long, _LENGTH.pack(len(content)), content)


def _compound(short: int, long: int, parts: list[bytes]) -> bytes:
    content = b"".join(parts)
    if len(content) < 255 and len(parts) < 256:
        return b"%c%c%c%b" % (short, len(content) + 1, len(parts), content)
    return b"%c%b%b" % (long, _SIZE_AND_COUNT.pack(len(content) + 4, len(parts)), content)


def _text(content: bytes) -> str | bytes:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, datetime) else str(value)
