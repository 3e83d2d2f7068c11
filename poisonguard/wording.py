"""What a report says."""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple

from poisonguard.bookmarks import payload_fields

FATAL = "Fatal error."
MAX_WHY_CHARS = 4000
MAX_STACK_CHARS = 16_000
MAX_CLASS_CHARS = 255


class Wording(NamedTuple):
    """What every report of a process has in common.

    `crash_limit` None: the server knows it. `content_type` None: as far as it can be told.
    """

    source: str
    consumer: str
    crash_limit: int | None
    content_type: str | None

    def of_crash(self, bookmark: str, payload: bytes | None) -> dict[str, Any]:
        """Return the report of a death (SEMANTICS AMPS-3, AMPS-9)."""
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
            body.update(payload_fields(payload, self.content_type))
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
