"""Bookmarks and payloads as they are sent."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

MAX_BOOKMARK_CHARS = 255
MAX_PAYLOAD_BYTES = 256 * 1024


def bookmark_of(given: object) -> str:
    """Return the text that stands for a bookmark on the list, the same in every consumer.

    What the list cannot hold (too long, empty or with unprintable characters) is named by its SHA-256.

    >>> bookmark_of(13)
    '13'
    >>> bookmark_of("a" * 300)[:14]
    'sha256:9835fa6'
    """
    text = given if type(given) is str else str(given)
    if text.isprintable() and 0 < len(text) <= MAX_BOOKMARK_CHARS:
        return text
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def payload_bytes(payload: Any) -> bytes | None:
    """Return a payload as bytes: bytes as they are, text in UTF-8, anything else as JSON; None above 256 kB."""
    if isinstance(payload, (bytes, bytearray, memoryview)):
        raw = bytes(payload)
    elif isinstance(payload, str):
        raw = payload.encode("utf-8", "surrogatepass")
    else:
        raw = _as_json(payload)
    return raw if len(raw) <= MAX_PAYLOAD_BYTES else None


def _as_json(payload: Any) -> bytes:
    try:
        return json.dumps(payload, default=repr).encode()
    except (TypeError, ValueError, RecursionError):
        return repr(payload).encode("utf-8", "backslashreplace")


def payload_fields(raw: bytes, content_type: str | None) -> dict[str, str]:
    """Return the fields of a report that carry a payload, with its type as far as it can be told."""
    return {
        "payload_base64": base64.b64encode(raw).decode(),
        "content_type": content_type or _type_of(raw),
    }


def _type_of(raw: bytes) -> str:
    try:
        text = raw.decode()
        if text[:1] in ("{", "["):
            json.loads(text)
            return "application/json"
    except UnicodeDecodeError:
        return "application/octet-stream"
    except (ValueError, RecursionError):
        pass
    return "text/plain; charset=utf-8"
