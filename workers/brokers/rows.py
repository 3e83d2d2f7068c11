"""A message from a broker as the rows that wait for the merge, whatever a stranger has put into it."""

import dataclasses
from collections.abc import Mapping
from functools import lru_cache

import orjson

from poisonadmin.brokers.domain.broker_names import address_for, content_digest, message_id_for
from poisonadmin.intake.domain.staged_rows import IntakeRow, dead_letter_json, headers_json
from poisonadmin.messages.domain.dead_letter import DeadLetter, as_far_as_stored
from poisonadmin.messages.domain.envelope_fields import LIMITS, InvalidEnvelope, storable
from workers.brokers.contract import Incoming
from workers.brokers.headers import DELIVERY_COUNTS

_BYTES = "application/octet-stream"
# Longer ones, and more, are shown cut: `transport` has them whole for the way back.
_VALUE_CHARS = 8192
_ELLIPSIS = "…"


def intake_row(message: Incoming, template: str) -> IntakeRow:
    """Return the message as its rows need it; its id is None where neither producer nor broker gave it one.

    Its address comes from its original queue by `template`.
    Errors: `InvalidEnvelope` when it is too large.
    """
    if len(message.payload) > LIMITS.payload_bytes:
        raise InvalidEnvelope("payload_too_large", "payload", f"A payload has at most {LIMITS.payload_bytes} bytes.")
    content_type = message.content_type
    is_named = 1 <= len(content_type) <= LIMITS.content_type_chars and content_type.isascii()
    headers = message.headers
    return (
        _address(message.queue, message.dead_letter.original_address, template),
        message_id_for(message.message_id, message.broker_id),
        message.payload,
        content_type if is_named and content_type.isprintable() else _BYTES,
        orjson.dumps(headers, option=orjson.OPT_SORT_KEYS) if _are_small(headers) else headers_json(_cut(headers)),
        _printable(message.conversation_id, LIMITS.conversation_id_chars),
        _printable(message.bookmark, LIMITS.bookmark_chars),
        None,
        _dead_letter_json(message.dead_letter, message.queue),
        orjson.dumps(message.transport),
    )


def digest_of(message: Incoming, transport: bytes | None) -> bytes:
    """Return what a message without an id is recognised by when it is given out again."""
    headers = {name: value for name, value in message.headers.items() if name not in DELIVERY_COUNTS}
    return content_digest(message.queue, message.payload, headers, transport)


@lru_cache(maxsize=4096)
def _dead_letter_json(dead_letter: DeadLetter, queue: str) -> bytes:
    moves = dead_letter.moves
    if moves and moves[-1].to is None:
        moves = (*moves[:-1], dataclasses.replace(moves[-1], to=queue))
    # The message is taken in where it was first: that is its address, and the broker's name for it is in `transport`.
    return dead_letter_json(as_far_as_stored(dataclasses.replace(dead_letter, original_address=None, moves=moves)))


@lru_cache(maxsize=4096)
def _address(queue: str, original: str | None, template: str) -> str:
    return address_for(queue, original, template=template)


def _are_small(headers: Mapping[str, str]) -> bool:
    """Return whether the headers can be stored as they are."""
    if len(headers) > LIMITS.headers_count or "" in headers:
        return False
    texts = "".join([*headers, *headers.values()])
    return (
        len(texts) <= LIMITS.headers_bytes // 4
        and texts.isprintable()
        and (len(texts) <= _VALUE_CHARS or max(map(len, headers.values())) <= _VALUE_CHARS)
    )


def _cut(headers: Mapping[str, str]) -> dict[str, str]:
    """Return as many of the headers as may be stored, cut and without what PostgreSQL cannot hold."""
    found: dict[str, str] = {}
    room = LIMITS.headers_bytes
    for name, value in list(headers.items())[: LIMITS.headers_count]:
        key = "".join(one if one.isprintable() else "_" for one in name[: LIMITS.header_name_chars]) or "_"
        text = storable(value if len(value) <= _VALUE_CHARS else value[:_VALUE_CHARS] + _ELLIPSIS)
        room -= len(key.encode()) + len(text.encode())
        if room < 0:
            break
        found[key] = text
    return found


def _printable(text: str | None, max_chars: int) -> str | None:
    return text if text and len(text) <= max_chars and text.isprintable() else None
