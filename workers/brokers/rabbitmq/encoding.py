"""Writes and reads a message's properties and header tables as AMQP 0-9-1 has them.

Properties are kept as bytes where they are not needed. Header tables are read entry by entry: what goes back to a
broker keeps its bytes, and so its types.
"""

import base64
import json
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

# In the order of their flags, from bit 15 down. "s" a short string, "F" a table, "B" an octet, "T" a time.
_PROPERTY_KINDS = "ssFBBssssTssss"
NAMES = (
    "content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to",
    "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip
_BITS = tuple(
    (1 << (15 - place), name, kind) for place, (name, kind) in enumerate(zip(NAMES, _PROPERTY_KINDS, strict=True))
)
_FLAGS = struct.Struct(">H")
_LENGTH = struct.Struct(">I")
_TIME = struct.Struct(">Q")
_BASIC = 60

# Each kind of field with the bytes of its value; four bytes of length come before the others.
_SIZES = {
    ord(kind): size
    for kind, size in {
        "t": 1, "b": 1, "B": 1, "s": 2, "u": 2, "I": 4, "i": 4, "f": 4, "D": 5, "l": 8, "L": 8, "d": 8, "T": 8, "V": 0,
    }.items()
}  # fmt: skip
_LONG = frozenset(b"SxAF")
_NUMBERS = {
    ord(kind): struct.Struct(">" + code)
    for kind, code in {
        "b": "b", "B": "B", "s": "h", "u": "H", "I": "i", "i": "I", "l": "q", "L": "q", "f": "f", "d": "d",
    }.items()
}  # fmt: skip
# A table may hold tables; what is nested deeper is shown as its bytes.
_MAX_DEPTH = 16
_MAX_SECONDS = 253402300799  # the last second of the year 9999

Value = bytes | int

Field = tuple[str, int, int, int, int]
"""One entry of a table: its name, its value's kind, where it starts, where its value does, and where both end."""


class Content(NamedTuple):
    """The properties that are set, by name: short strings as bytes, numbers; `headers` is the table's bytes."""

    properties: dict[str, Value]
    headers: bytes


def read_content(frame: bytes) -> Content:
    """Return what a content header frame says; raise ValueError when its bytes do not make sense."""
    (flags,) = _FLAGS.unpack_from(frame, 12)
    place = 14
    more = flags
    while more & 1:  # nobody has defined more than these flags
        (more,) = _FLAGS.unpack_from(frame, place)
        place += 2
    found: dict[str, Value] = {}
    headers = b""
    try:
        for bit, name, kind in _BITS:
            if not flags & bit:
                continue
            if kind == "s":
                start = place + 1
                place = start + frame[place]
                found[name] = frame[start:place]
            elif kind == "B":
                found[name] = frame[place]
                place += 1
            elif kind == "T":
                found[name] = _TIME.unpack_from(frame, place)[0]
                place += 8
            else:
                start = place + 4
                place = start + _LENGTH.unpack_from(frame, place)[0]
                headers = frame[start:place]
    except (IndexError, struct.error):
        raise ValueError("the properties end too early") from None
    return Content(found, headers)


def content_frame(body_bytes: int, properties: dict[str, Value], headers: bytes) -> bytes:
    """Return the payload of a content header frame; properties that are not named in the protocol are left out."""
    flags = 0
    parts = []
    for bit, name, kind in _BITS:
        if kind == "F":
            if headers:
                flags |= bit
                parts.append(_LENGTH.pack(len(headers)) + headers)
            continue
        value = properties.get(name)
        if value is None:
            continue
        flags |= bit
        if isinstance(value, bytes):
            parts.append(b"%c%b" % (len(value[:255]), value[:255]))
        else:
            parts.append(_TIME.pack(value) if kind == "T" else b"%c" % (value & 0xFF))
    return struct.pack(">HHQH", _BASIC, 0, body_bytes, flags) + b"".join(parts)


def short_texts(raw: bytes) -> list[str]:
    """Return the short strings that follow one another, as texts."""
    texts, place = [], 0
    while place < len(raw):
        end = place + 1 + raw[place]
        texts.append(raw[place + 1 : end].decode("utf-8", "replace"))
        place = end
    return texts


def fields(raw: bytes) -> Iterator[Field]:
    """Yield the entries of a table without its length; raise ValueError when its bytes do not make sense."""
    place, size = 0, len(raw)
    while place < size:
        start = place
        place += 1 + raw[place]
        name = raw[start + 1 : place].decode("utf-8", "replace")
        if place >= size:
            raise ValueError("a table ends within an entry")
        kind = raw[place]
        value = place + 1
        place = _end(raw, kind, value)
        yield name, kind, start, value, place


def value_of(raw: bytes, kind: int, start: int, end: int, depth: int = 0) -> Any:
    """Return a value as Python's: texts that are not UTF-8, and what is nested too deeply, stay bytes.

    Errors: ValueError.
    """
    if kind == 83:  # S
        return _text(raw[start + 4 : end])
    if (number := _NUMBERS.get(kind)) is not None:
        return number.unpack_from(raw, start)[0]
    if kind == 116:  # t
        return raw[start] != 0
    if kind == 84:  # T
        seconds = int.from_bytes(raw[start:end])
        return datetime.fromtimestamp(min(seconds, _MAX_SECONDS), UTC)
    if kind in b"AF" and depth < _MAX_DEPTH:
        inside = raw[start + 4 : end]
        if kind == 70:  # F
            return {name: value_of(inside, kind, at, after, depth + 1) for name, kind, _, at, after in fields(inside)}
        return [value_of(inside, kind, value, after, depth + 1) for kind, value, after in _items(inside)]
    if kind == 68:  # D: a scale and digits
        return f"{int.from_bytes(raw[start + 1 : end], signed=True)}e-{raw[start]}"
    if kind == 86:  # V
        return None
    return raw[start + 4 : end]


def as_text(value: Any) -> str:
    """Return a value as a person, a rule or a key reads it: texts as they are, bytes as base64, the rest as JSON.

    >>> as_text("eu"), as_text(7), as_text(True), as_text({"at": None}), as_text(b"\\xff")
    ('eu', '7', 'true', '{"at": null}', '/w==')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | datetime):
        return _shown(value)
    return json.dumps(value, ensure_ascii=False, default=_shown)


def text_field(name: str, text: str) -> bytes:
    """Return an entry whose value is a text; a name is cut to the 255 bytes that it may have."""
    key, value = name.encode("utf-8", "replace")[:255], text.encode("utf-8", "replace")
    return b"%c%bS%b%b" % (len(key), key, _LENGTH.pack(len(value)), value)


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _items(raw: bytes) -> Iterator[tuple[int, int, int]]:
    place = 0
    while place < len(raw):
        kind, value = raw[place], place + 1
        place = _end(raw, kind, value)
        yield kind, value, place


def _end(raw: bytes, kind: int, value: int) -> int:
    fixed = _SIZES.get(kind)
    if fixed is not None:
        end = value + fixed
    elif kind in _LONG and value + 4 <= len(raw):
        end = value + 4 + _LENGTH.unpack_from(raw, value)[0]
    else:
        raise ValueError(f"a table holds a field of the unknown kind {kind}")
    if end > len(raw):
        raise ValueError("a table ends within a value")
    return end


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value
