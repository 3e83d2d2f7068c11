"""The common part of all brokers' headers: strangers' texts, cut to size, and our marks on what came back."""

from collections.abc import Mapping, Sequence
from typing import Any

from poisonadmin.messages.domain.dead_letter import MAX_DELIVERY_COUNT, MAX_ID, MAX_NAME_CHARS, CameBack
from poisonadmin.messages.domain.envelope_fields import storable

# RabbitMQ counts deliveries here, so that a message has other headers whenever it is read.
DELIVERY_COUNTS = frozenset({"x-delivery-count", "x-acquired-count"})


def text_of(value: object, max_chars: int) -> str | None:
    """Return a text as it can be stored; None for an empty one, and for what is no text.

    >>> text_of("or\\0ders", 5), text_of(b"\\xc3\\xa4", 5), text_of("", 5), text_of(7, 5)
    ('or\ufffdde', 'ä', None, None)
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return storable(value[:max_chars]) if isinstance(value, str) and value else None


def first_text(headers: Mapping[str, Any], names: Sequence[str], max_chars: int) -> str | None:
    """Return the text of the first of these headers that has one."""
    return next((text for name in names if (text := text_of(headers.get(name), max_chars)) is not None), None)


def name_of(value: object, *, may_be_empty: bool = False) -> str | None:
    """Return a broker's name of something; None for what is no text."""
    if not isinstance(value, str) or not (value or may_be_empty):
        return None
    return storable(value[:MAX_NAME_CHARS])


def came_back_of(headers: Mapping[str, Any]) -> CameBack | None:
    """Return which delivery of ours the message says it is, None when it does not say so in our way."""
    found = {name.lower(): value for name, value in headers.items() if name.lower().startswith("poisonadmin-")}
    message_id, attempt = (str(found.get(f"poisonadmin-{what}", "")) for what in ("message-id", "attempt"))
    if not (_is_number(message_id) and _is_number(attempt)):
        return None
    if not (0 < int(message_id) <= MAX_ID and 0 < int(attempt) <= MAX_DELIVERY_COUNT):
        return None
    return CameBack(int(message_id), int(attempt))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 19
