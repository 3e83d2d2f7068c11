"""A message from a broker as the rows that wait for the merge. Nothing that a stranger sent keeps it from being one."""

import dataclasses
from collections.abc import Mapping
from functools import lru_cache

import orjson

from poisonadmin.intake.domain.dead_letter import DeadLetter, as_far_as_stored
from poisonadmin.intake.domain.envelope_fields import LIMITS, InvalidEnvelope, storable
from poisonadmin.intake.domain.staged_rows import IntakeRow, dead_letter_json, headers_json
from poisonadmin.sources.domain.broker_names import address_for, content_digest, message_id_for
from workers.brokers.contract import Taken

_BYTES = "application/octet-stream"
# Longer ones, and more, are shown cut: `transport` has them whole for the way back.
_VALUE_CHARS = 8192
_CUT = "…"
# Brokers count deliveries here, so that the same message has other headers each time.
_COUNTS = frozenset({"x-delivery-count", "x-acquired-count"})


def row_of(taken: Taken, template: str) -> IntakeRow:
    """Return the message as its rows need it; its id is None where neither producer nor broker gave it one.

    It is taken in at its original queue's address as `template` says, whose failure it brings along.
    Errors: `InvalidEnvelope` when it is too large.
    """
    if len(taken.payload) > LIMITS.payload_bytes:
        raise InvalidEnvelope("payload_too_large", "payload", f"A payload has at most {LIMITS.payload_bytes} bytes.")
    content_type = taken.content_type
    is_named = 1 <= len(content_type) <= LIMITS.content_type_chars and content_type.isascii()
    headers = taken.headers
    return (
        _address(taken.queue, taken.dead_letter.original_address, template),
        message_id_for(taken.message_id, taken.broker_id),
        taken.payload,
        content_type if is_named and content_type.isprintable() else _BYTES,
        orjson.dumps(headers, option=orjson.OPT_SORT_KEYS) if _are_small(headers) else headers_json(_shown(headers)),
        _printable(taken.conversation_id, LIMITS.conversation_id_chars),
        _printable(taken.bookmark, LIMITS.bookmark_chars),
        None,
        _told(taken.dead_letter, taken.queue),
        orjson.dumps(taken.transport),
    )


def digest_of(taken: Taken, transport: bytes | None) -> bytes:
    """Return by what a message without an id is known when it is given out again."""
    headers = {name: value for name, value in taken.headers.items() if name not in _COUNTS}
    return content_digest(taken.queue, taken.payload, headers, transport)


@lru_cache(maxsize=4096)
def _told(dead_letter: DeadLetter, queue: str) -> bytes:
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
    if len(headers) > LIMITS.headers_count:
        return False
    for name, value in headers.items():
        if len(value) > _VALUE_CHARS or not value.isprintable() or not name.isprintable() or not name:
            return False
    return sum(map(len, headers.values())) + sum(map(len, headers)) <= LIMITS.headers_bytes // 4


def _shown(headers: Mapping[str, str]) -> dict[str, str]:
    """Return as many of the headers as may be stored, cut and without what PostgreSQL cannot hold."""
    found: dict[str, str] = {}
    room = LIMITS.headers_bytes
    for name, value in list(headers.items())[: LIMITS.headers_count]:
        key = "".join(one if one.isprintable() else "_" for one in name[: LIMITS.header_name_chars]) or "_"
        text = storable(value if len(value) <= _VALUE_CHARS else value[:_VALUE_CHARS] + _CUT)
        room -= len(key.encode()) + len(text.encode())
        if room < 0:
            break
        found[key] = text
    return found


def _printable(text: str | None, max_chars: int) -> str | None:
    return text if text and len(text) <= max_chars and text.isprintable() else None
