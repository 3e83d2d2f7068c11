"""Bytes in a message's `transport`, which is JSON: `{"base64": …}`."""

import base64
from collections.abc import Mapping


def encoded(value: bytes) -> dict[str, str]:
    """Return bytes as JSON holds them."""
    return {"base64": base64.b64encode(value).decode()}


def decoded(value: object) -> bytes | None:
    """Return the bytes again, None for what is none.

    >>> decoded(encoded(b"\\xff")), decoded({"base64": "x"}), decoded("text")
    (b'\\xff', None, None)
    """
    text = value.get("base64") if isinstance(value, Mapping) else None
    try:
        return base64.b64decode(text) if isinstance(text, str) else None
    except ValueError:
        return None
