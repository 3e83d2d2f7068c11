"""What stands before a message's body in AMQP 0-9-1: its properties, kept as bytes where they are not needed."""

import struct
from typing import NamedTuple

# In the order of their flags, from bit 15 down. "s" a short string, "F" a table, "B" an octet, "T" a time.
_KINDS = "ssFBBssssTssss"
NAMES = (
    "content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to",
    "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip
_BITS = tuple((1 << (15 - place), name, kind) for place, (name, kind) in enumerate(zip(NAMES, _KINDS, strict=True)))
HEADERS = 1 << 13
_FLAGS = struct.Struct(">H")
_TABLE = struct.Struct(">I")
_TIME = struct.Struct(">Q")
_BASIC = 60

Value = bytes | int


class Content(NamedTuple):
    """The properties that are set, by name: short strings as bytes, numbers; `headers` is the table's bytes."""

    body_bytes: int
    properties: dict[str, Value]
    headers: bytes


def read_content(frame: bytes) -> Content:
    """Return what a content header frame says; raise ValueError when its bytes do not make sense."""
    body_bytes, flags = struct.unpack_from(">QH", frame, 4)
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
                place = start + _TABLE.unpack_from(frame, place)[0]
                headers = frame[start:place]
    except (IndexError, struct.error):
        raise ValueError("the properties end too early") from None
    return Content(body_bytes, found, headers)


def content_frame(body_bytes: int, properties: dict[str, Value], headers: bytes) -> bytes:
    """Return the payload of a content header frame; properties that are not named in the protocol are left out."""
    flags = 0
    parts = []
    for bit, name, kind in _BITS:
        if kind == "F":
            if headers:
                flags |= bit
                parts.append(_TABLE.pack(len(headers)) + headers)
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
