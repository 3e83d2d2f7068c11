"""A message as RabbitMQ hands it out, as what the drain stores of it and what goes back one day."""

import base64
from functools import lru_cache
from typing import Any, NamedTuple

from poisonadmin.intake.domain.dead_letter import DeadLetter
from poisonadmin.sources.domain.broker_kinds import RABBITMQ
from workers.brokers.contract import Taken
from workers.brokers.rabbitmq.connection import Arrived
from workers.brokers.rabbitmq.content import Value, read_content
from workers.brokers.rabbitmq.headers import COUNTED_BY_QUEUE, QueueOrigin, dead_letter_of, is_left_out, origin_of
from workers.brokers.rabbitmq.tables import as_text, fields, value_of

_BYTES = "application/octet-stream"
# Longer ones are met once: they would only push others out.
_REMEMBERED_BYTES = 4096


class HeaderEntries(NamedTuple):
    """What the entries of a header table say that go back to nobody: as texts, and what they mean."""

    texts: dict[str, str]
    dead_letter: DeadLetter
    origin: QueueOrigin


def taken_of(arrived: Arrived, queue: str, *, with_get: bool = False) -> Taken:
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
    texts, told, kept = _read(table)
    origin = told.origin
    exchange, routing_key = origin.exchange, origin.routing_key
    if routing_key is None and not told.dead_letter.moves:
        exchange, routing_key = _route(arguments, place + 9)
    shown: dict[str, Any] = {name: _json(value) for name, value in properties.items()}
    transport: dict[str, Any] = {
        "broker": RABBITMQ,
        "queue": origin.queue,
        "exchange": exchange,
        "routing_key": routing_key,
        "properties": shown,
    }
    if kept:
        transport["headers"] = {"base64": base64.b64encode(kept).decode()}
    message_id, content_type = shown.get("message_id"), shown.get("content_type")
    return Taken(
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
        dead_letter=told.dead_letter,
        transport=transport,
    )


def is_worn(taken: Taken, most: int) -> bool:
    """Return whether the queue has counted so many deliveries of the message."""
    counts = (taken.headers.get(name, "0") for name in COUNTED_BY_QUEUE)
    return any(count.isdecimal() and int(count) >= most for count in counts)


def _read(table: bytes) -> tuple[dict[str, str], HeaderEntries, bytes]:
    """Return a header table as texts, what it tells of a failure, and what of it goes back to the broker.

    One whose bytes do not make sense says nothing, and goes back as it is.
    """
    kept, telling = [], []
    texts: dict[str, str] = {}
    try:
        for name, kind, start, value, end in fields(table):
            if _is_left_out(name):
                telling.append(table[start:end])
            else:
                kept.append(table[start:end])
                texts[name] = as_text(value_of(table, kind, value, end))
        told_bytes = b"".join(telling)
        # The same queue's deaths of the same second are the same bytes.
        told = _told_often(told_bytes) if len(told_bytes) <= _REMEMBERED_BYTES else _told(told_bytes)
    except ValueError:
        return {}, _told_often(b""), table
    return texts | told.texts, told, b"".join(kept)


def _told(table: bytes) -> HeaderEntries:
    values = {name: value_of(table, kind, value, end) for name, kind, _, value, end in fields(table)}
    texts = {name: as_text(value) for name, value in values.items()}
    return HeaderEntries(texts, dead_letter_of(values), origin_of(values))


_told_often = lru_cache(maxsize=4096)(_told)
_is_left_out = lru_cache(maxsize=4096)(is_left_out)


def _route(arguments: bytes, place: int) -> tuple[str, str]:
    """Return exchange and routing key of this very delivery."""
    end = place + 1 + arguments[place]
    last = end + 1 + arguments[end]
    return arguments[place + 1 : end].decode("utf-8", "replace"), arguments[end + 1 : last].decode("utf-8", "replace")


def _json(value: Value) -> str | int | dict[str, str]:
    if isinstance(value, int):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
