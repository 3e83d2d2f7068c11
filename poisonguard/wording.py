"""The texts of reports."""

from __future__ import annotations

import base64
import hashlib
import json
import traceback
from typing import Any, NamedTuple

MAX_BOOKMARK_CHARS = 255
MAX_PAYLOAD_BYTES = 256 * 1024
FATAL = "Fatal error."
MAX_WHY_CHARS = 4000
MAX_STACK_CHARS = 16_000
MAX_CLASS_CHARS = 255


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


def _payload_fields(raw: bytes, content_type: str | None) -> dict[str, str]:
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


class Wording(NamedTuple):
    """The part that all reports of a process have in common.

    `crash_limit` None: the server knows it. `content_type` None: as far as it can be told.
    """

    source: str
    consumer: str
    crash_limit: int | None
    content_type: str | None

    def of_crash(self, bookmark: str, payload: bytes | None) -> dict[str, Any]:
        """Return the report of a death (AMPS-3, AMPS-9)."""
        return {**self._body(bookmark, FATAL, payload), "fatal": True, "crash_limit": self.crash_limit}

    def of_failure(self, bookmark: str, payload: bytes | None, error: Exception) -> dict[str, Any]:
        """Return the report of an exception: its text, and with the payload also its class and stack."""
        kind = f"{type(error).__module__}.{type(error).__qualname__}".replace("builtins.", "")
        body = self._body(bookmark, _text_of(error) or kind, payload)
        if payload is not None:
            stack = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            body["exception_class"] = kind[:MAX_CLASS_CHARS]
            body["stack"] = _clean(stack[-MAX_STACK_CHARS:])
        return body

    def _body(self, bookmark: str, why: str, payload: bytes | None) -> dict[str, Any]:
        body: dict[str, Any] = {
            "source": self.source,
            "bookmark": bookmark,
            "why": _clean(why[:MAX_WHY_CHARS]),
            "consumer": self.consumer,
        }
        if payload is not None:
            body.update(_payload_fields(payload, self.content_type))
        return body


def without_payload(body: dict[str, Any]) -> dict[str, Any]:
    """Return a report that says the same and is short."""
    return {name: value for name, value in body.items() if name not in ("payload_base64", "content_type", "stack")}


def _clean(text: str) -> str:
    """Return a text as the server takes it: without NUL and lone surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _text_of(error: Exception) -> str:
    try:
        return str(error)
    except Exception:
        return ""
