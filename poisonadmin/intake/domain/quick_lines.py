"""Lines of NDJSON read by a faster JSON parser than the standard library's, where that makes no difference.

A reader answers for a line only when it can prove that `envelope.parse_line` would say the same of it, and says nothing
otherwise; the caller asks `parse_line` then. The parser is passed in, since this package has the standard library only.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from poisonadmin.core.domain.addresses import InvalidAddress, validate_address
from poisonadmin.intake.domain.envelope import JSON, TEXT
from poisonadmin.intake.domain.staged_rows import IntakeRow
from poisonadmin.messages.domain.envelope_fields import LIMITS, InvalidEnvelope, instant

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
Reader = Callable[[bytes], IntakeRow | None]
# In a line that is no longer than this no field can be too large.
_SMALL_BYTES = LIMITS.headers_bytes
_MAX_NESTING = 90
_MINUS_ZERO = re.compile(rb"-0[\s,\]}]")
# More than any line has strings: makes every comparison fail.
_CANNOT_SAY = 1 << 60
_TEXTS = {
    "message_id": LIMITS.message_id_chars,
    "conversation_id": LIMITS.conversation_id_chars,
    "bookmark": LIMITS.bookmark_chars,
    "content_type": LIMITS.content_type_chars,
}
_KNOWN = frozenset({"address", "payload", "headers", "expires_at", *_TEXTS})


def split_lines(chunks: Iterable[bytes], *, max_bytes: int, first: int = 1) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not blank with its number, without its newline.

    Shape: numbers grow from `first`; blank lines count too. A line of more than `max_bytes` comes out cut to
    `max_bytes` + 1, so that its reader can see that it is too long while the rest of it is passed over.

    >>> list(split_lines([b'{"a"', b':1}\\n\\n', b'x'], max_bytes=100))
    [(1, b'{"a":1}'), (3, b'x')]
    """
    number = first
    held: list[bytes] = []
    room = max_bytes + 1
    for chunk in chunks:
        start = 0
        if held:
            end = chunk.find(b"\n")
            room = _hold(held, chunk if end < 0 else chunk[:end], room)
            if end < 0:
                continue
            line = b"".join(held)
            held.clear()
            room = max_bytes + 1
            if not line.isspace():
                yield number, line
            number += 1
            start = end + 1
        *lines, rest = (chunk[start:] if start else chunk).split(b"\n")
        for line in lines:
            if line and not line.isspace():
                yield number, line[: max_bytes + 1]
            number += 1
        if rest:
            room = _hold(held, rest, room)
    if held and not (line := b"".join(held)).isspace():
        yield number, line


def _hold(held: list[bytes], piece: bytes, room: int) -> int:
    """Keep as much of `piece` as there is room for; return the room that is left."""
    if room and piece:
        held.append(piece[:room])
    return max(0, room - len(piece))


def quick_reader(
    loads: Callable[[bytes], Any], dumps: Callable[[Any], bytes], dumps_sorted: Callable[[Any], bytes]
) -> Reader:
    """Return a reader of lines around a strict JSON parser, such as `orjson.loads`.

    `loads` must refuse what is not JSON in UTF-8 with a `ValueError`, keep the last of equal keys, and return integers
    that it cannot represent as floats; it may read -0 as 0. `dumps` writes compact JSON in UTF-8; `dumps_sorted` does
    so with sorted keys.
    """

    def read(raw: bytes) -> IntakeRow | None:
        fields = _fields(raw, loads)
        if fields is None or not _is_address(address := fields["address"]):
            return None
        payload = fields["payload"]
        strings = 3 + _strings_in(payload, 0)
        body, default_type = (payload.encode(), TEXT) if type(payload) is str else (dumps(payload), JSON)
        texts = [fields.get(name) for name in _TEXTS]
        for text, max_chars in zip(texts, _TEXTS.values(), strict=True):
            if text is not None:
                if type(text) is not str or not 1 <= len(text) <= max_chars or not text.isprintable():
                    return None
                strings += 2
        message_id, conversation_id, bookmark, content_type = texts
        if content_type is not None and not content_type.isascii():
            return None
        headers = fields.get("headers")
        if headers is not None:
            if not _are_headers(headers):
                return None
            strings += 1 + 2 * len(headers)
        expires_at = None
        if "expires_at" in fields:
            try:
                expires_at = instant(fields, "expires_at")
            except InvalidEnvelope:
                return None
            strings += 2
        if strings != _string_count(raw, payload, dumps):
            return None
        headers_json = dumps_sorted(headers) if headers else b"{}"
        kept = (address, message_id, body, content_type or default_type, headers_json)
        return *kept, conversation_id, bookmark, expires_at, None, None

    return read


def _fields(raw: bytes, loads: Callable[[bytes], Any]) -> dict[str, Any] | None:
    """Return the members of a line that has nothing but the fields that are read here, and those that it must have."""
    if len(raw) > _SMALL_BYTES or (b"-0" in raw and _MINUS_ZERO.search(raw)):
        return None
    try:
        fields = loads(raw)
    except ValueError:
        return None
    if type(fields) is not dict or not fields.keys() <= _KNOWN:
        return None
    return fields if type(fields.get("address")) is str and fields.get("payload") is not None else None


def _are_headers(found: Any) -> bool:
    if type(found) is not dict or len(found) > LIMITS.headers_count:
        return False
    for name, value in found.items():
        if type(value) is not str or "\0" in value or not name.isprintable():
            return False
        if not 1 <= len(name) <= LIMITS.header_name_chars:
            return False
    return True


@lru_cache(maxsize=10_000)
def _is_address(text: str) -> bool:
    try:
        return validate_address(text) == text
    except InvalidAddress:
        return False


def _string_count(raw: bytes, payload: object, dumps: Callable[[Any], bytes]) -> int:
    """Return how many strings are in a JSON text.

    Where a key is there twice the parsed value has a string less than the text: that is how it is found out.
    """
    if b"\\" not in raw:
        return raw.count(b'"') // 2
    # Escapes are mostly in the payload alone. Written again and taken out as one string, it need not be looked through.
    written = dumps(payload) if type(payload) is str else b""
    before, found, after = raw.partition(written) if written else (raw, b"", b"")
    if found and b"\\" not in before and b"\\" not in after:
        return (before.count(b'"') + after.count(b'"')) // 2 + 1
    if b"\\\\" in raw:  # an escaped backslash; what is left before a quote escapes the quote
        raw = raw.replace(b"\\\\", b"")
    return (raw.count(b'"') - raw.count(b'\\"')) // 2


def _strings_in(value: Any, depth: int) -> int:
    """Return how many strings are in a value; `_CANNOT_SAY` where `parse_line` might read it differently."""
    kind = type(value)
    if kind is str:
        return 1
    if depth > _MAX_NESTING:
        return _CANNOT_SAY
    if kind is dict:
        return len(value) + sum([_strings_in(one, depth + 1) for one in value.values()])
    if kind is list:
        return sum([_strings_in(one, depth + 1) for one in value])
    # A float may stand for a number that a float cannot hold, and is written in one way here and in another there.
    return _CANNOT_SAY if kind is float else 0
