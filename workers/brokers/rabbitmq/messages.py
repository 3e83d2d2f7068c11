"""A message as RabbitMQ gives it out, as the drain stores it; and as the frames that publish it again."""

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from poisonadmin.brokers.domain.broker_kinds import RABBITMQ
from poisonadmin.messages.domain.dead_letter import DeadLetter
from workers.brokers.contract import Incoming, Login, Outgoing, decoded, encoded
from workers.brokers.headers import DELIVERY_COUNTS
from workers.brokers.rabbitmq.connection import CHANNEL, FRAME, FRAME_END, FRAME_OVERHEAD, Arrived, credentials
from workers.brokers.rabbitmq.encoding import (
    NAMES,
    Value,
    as_text,
    content_frame,
    fields,
    read_content,
    short_texts,
    text_field,
    value_of,
)
from workers.brokers.rabbitmq.headers import QueueOrigin, dead_letter_of, is_left_out, origin_of

_BYTES = "application/octet-stream"
# Longer ones are met once: they would only push others out.
_REMEMBERED_BYTES = 4096
_PUBLISH = 0x003C0028
_MANDATORY = 1
_PERSISTENT = 2
_MAX_NAME_BYTES = 255
_NUMBERS = {"delivery_mode": 255, "priority": 255, "timestamp": 2**63 - 1}


class Unsendable(ValueError):
    """Raised for a message that no frame can hold; the text says why."""


class DeadLetterEntries(NamedTuple):
    """The entries of a header table that are not returned to the broker: as texts, and what they mean."""

    texts: dict[str, str]
    dead_letter: DeadLetter
    origin: QueueOrigin


def incoming_of(arrived: Arrived, queue: str, *, with_get: bool = False) -> Incoming:
    """Return the message; `with_get`: it was asked for alone, which has its arguments in another order."""
    arguments, header, payload = arrived
    place = 0 if with_get else 1 + arguments[0]
    tag = int.from_bytes(arguments[place : place + 8])
    is_redelivered = arguments[place + 8] & 1 == 1
    try:
        content = read_content(header)
        properties, table = content.properties, content.headers
    except ValueError:
        properties, table = {}, b""
    texts, entries, kept = _read(table)
    origin = entries.origin
    exchange, routing_key = origin.exchange, origin.routing_key
    if routing_key is None and not entries.dead_letter.moves:
        exchange, routing_key = short_texts(arguments[place + 9 :])[:2]
    shown: dict[str, Any] = {name: _json(value) for name, value in properties.items()}
    transport: dict[str, Any] = {
        "broker": RABBITMQ,
        "queue": origin.queue,
        "exchange": exchange,
        "routing_key": routing_key,
        "properties": shown,
    }
    if kept:
        transport["headers"] = encoded(kept)
    message_id, content_type = shown.get("message_id"), shown.get("content_type")
    return Incoming(
        token=tag,
        queue=queue,
        message_id=message_id if isinstance(message_id, str) and message_id else None,
        broker_id=None,
        is_redelivered=is_redelivered,
        payload=payload,
        content_type=content_type if isinstance(content_type, str) and content_type else _BYTES,
        headers=texts,
        conversation_id=None,
        bookmark=None,
        dead_letter=entries.dead_letter,
        transport=transport,
    )


def frames_of(one: Outgoing, login: Login, frame_bytes: int) -> bytes:
    """Return the frames that publish a message, to be routed or returned. Errors: `Unsendable`."""
    transport = one.transport_of(RABBITMQ)
    properties, headers = _returned(transport, login) if transport is not None else _converted(one)
    if transport is not None and one.edited_headers:
        headers = _edited(headers, one.edited_headers)
    for name, text in one.own_headers.items():
        headers += text_field(name, text)
    properties.setdefault("content_type", _short(one.content_type))
    header = content_frame(len(one.payload), properties, headers)
    most = frame_bytes - FRAME_OVERHEAD
    if len(header) > most:
        raise Unsendable(f"its headers take more than the {most} bytes of a frame")
    parts = [
        _publish_method(*_publish_route(one, transport, login)),
        FRAME.pack(2, CHANNEL, len(header)),
        header,
        FRAME_END,
    ]
    payload = one.payload
    for start in range(0, len(payload), most):
        piece = payload if len(payload) <= most else payload[start : start + most]
        parts += (FRAME.pack(3, CHANNEL, len(piece)), piece, FRAME_END)
    return b"".join(parts)


def has_deliveries(message: Incoming, least: int) -> bool:
    """Return whether the queue has counted so many deliveries of the message."""
    counts = (message.headers.get(name, "0") for name in DELIVERY_COUNTS)
    return any(count.isdecimal() and int(count) >= least for count in counts)


def _read(table: bytes) -> tuple[dict[str, str], DeadLetterEntries, bytes]:
    """Return a header table as texts, its entries on the failure, and the bytes that go back to the broker.

    One whose bytes do not make sense says nothing, and goes back as it is.
    """
    kept, left_out = [], []
    texts: dict[str, str] = {}
    try:
        for name, kind, start, value, end in fields(table):
            if _is_left_out(name):
                left_out.append(table[start:end])
            else:
                kept.append(table[start:end])
                texts[name] = as_text(value_of(table, kind, value, end))
        raw = b"".join(left_out)
        # The same queue's deaths of the same second are the same bytes.
        entries = _remembered_entries(raw) if len(raw) <= _REMEMBERED_BYTES else _entries(raw)
    except ValueError:
        return {}, _remembered_entries(b""), table
    return texts | entries.texts, entries, b"".join(kept)


def _entries(table: bytes) -> DeadLetterEntries:
    values = {name: value_of(table, kind, value, end) for name, kind, _, value, end in fields(table)}
    texts = {name: as_text(value) for name, value in values.items()}
    return DeadLetterEntries(texts, dead_letter_of(values), origin_of(values))


_remembered_entries = lru_cache(maxsize=4096)(_entries)
_is_left_out = lru_cache(maxsize=4096)(is_left_out)


def _json(value: Value) -> str | int | dict[str, str]:
    if isinstance(value, int):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return encoded(value)


def _publish_route(one: Outgoing, transport: Mapping[str, Any] | None, login: Login) -> tuple[str, str]:
    """Return exchange and routing key: the redirect's, else the queue itself, else those it once came by."""
    was = transport or {}
    if (exchange := login.options.get("exchange")) is not None:
        wanted = login.options.get("routing_key")
        return str(exchange), str(next(key for key in (wanted, was.get("routing_key"), one.route) if key is not None))
    if one.route:
        return "", one.route
    return str(was.get("exchange") or ""), str(was.get("routing_key") or "")


def _returned(transport: Mapping[str, Any], login: Login) -> tuple[dict[str, Value], bytes]:
    """Return properties and headers as the producer set them.

    The user id is left out unless it is ours: the broker closes the channel on any other.
    """
    properties: dict[str, Value] = {}
    for name, value in (transport.get("properties") or {}).items():
        if name in NAMES and (found := _value(name, value)) is not None:
            properties[name] = found
    if properties.get("user_id") != credentials(login)[0].encode():
        properties.pop("user_id", None)
    expiration = properties.get("expiration")
    if isinstance(expiration, bytes) and not expiration.isdigit():
        del properties["expiration"]
    return properties, decoded(transport.get("headers")) or b""


def _edited(table: bytes, edited: Mapping[str, str | None]) -> bytes:
    """Return the headers as a person has changed them; those whose bytes do not make sense are as they were before."""
    gone = {name.lower() for name in edited}
    try:
        kept = [table[start:end] for name, _, start, _, end in fields(table) if name.lower() not in gone]
    except ValueError:
        kept = [table]
    return b"".join(kept) + b"".join(
        text_field(name, text) for name, text in edited.items() if text is not None and not is_left_out(name)
    )


def _converted(one: Outgoing) -> tuple[dict[str, Value], bytes]:
    """Return properties and headers of a message that no RabbitMQ has seen yet."""
    headers = b"".join(text_field(name, text) for name, text in one.headers.items() if not is_left_out(name))
    return {"delivery_mode": _PERSISTENT, "message_id": _short(one.message_id)}, headers


def _value(name: str, value: Any) -> Value | None:
    if name in _NUMBERS:
        return value if isinstance(value, int) and 0 <= value <= _NUMBERS[name] else None
    return _short(value) if isinstance(value, str) else (decoded(value) or b"")[:_MAX_NAME_BYTES]


def _short(text: str) -> bytes:
    return text.encode("utf-8", "replace")[:_MAX_NAME_BYTES]


@lru_cache(maxsize=1024)
def _publish_method(exchange: str, routing_key: str) -> bytes:
    names = []
    for name in (exchange, routing_key):
        raw = name.encode("utf-8", "replace")
        if len(raw) > _MAX_NAME_BYTES:
            raise Unsendable(f"{name[:60]!r}… is longer than the {_MAX_NAME_BYTES} bytes of a name")
        names.append(b"%c%b" % (len(raw), raw))
    arguments = struct.pack(">IH", _PUBLISH, 0) + b"".join(names) + b"%c" % _MANDATORY
    return FRAME.pack(1, CHANNEL, len(arguments)) + arguments + FRAME_END
