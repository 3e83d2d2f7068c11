"""A message on its way back, as the frames that publish it."""

import base64
import binascii
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from poisonadmin.sources.domain.broker_kinds import RABBITMQ
from workers.brokers.contract import Login, Outgoing
from workers.brokers.rabbitmq.connection import CHANNEL
from workers.brokers.rabbitmq.content import NAMES, Value, content_frame
from workers.brokers.rabbitmq.headers import is_left_out
from workers.brokers.rabbitmq.tables import text_field

_FRAME = struct.Struct(">BHI")
_END = b"\xce"
_FRAME_OVERHEAD = 8
_PUBLISH = 0x003C0028
_MANDATORY = 1
_PERSISTENT = 2
_MAX_NAME_BYTES = 255
_NUMBERS = {"delivery_mode": 255, "priority": 255, "timestamp": 2**63 - 1}


class Unsendable(ValueError):
    """Raised for a message that no frame can hold; the text says why."""


def publish_frames(one: Outgoing, login: Login, frame_bytes: int) -> bytes:
    """Return the frames that publish a message, to be routed or returned. Errors: `Unsendable`."""
    transport = one.transport if one.transport and one.transport.get("broker") == RABBITMQ else None
    properties, headers = _returned(transport, login) if transport is not None else _converted(one)
    for name, text in one.own_headers.items():
        headers += text_field(name, text)
    properties.setdefault("content_type", _short(one.content_type))
    header = content_frame(len(one.payload), properties, headers)
    most = frame_bytes - _FRAME_OVERHEAD
    if len(header) > most:
        raise Unsendable(f"its headers take more than the {most} bytes of a frame")
    parts = [_method(*_route(one, transport, login)), _FRAME.pack(2, CHANNEL, len(header)), header, _END]
    payload = one.payload
    for start in range(0, len(payload), most):
        piece = payload if len(payload) <= most else payload[start : start + most]
        parts += (_FRAME.pack(3, CHANNEL, len(piece)), piece, _END)
    return b"".join(parts)


def _route(one: Outgoing, transport: Mapping[str, Any] | None, login: Login) -> tuple[str, str]:
    """Return exchange and routing key: the redirect's, else the queue itself, else the way it once came."""
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
    if properties.get("user_id") != (login.username or "guest").encode():
        properties.pop("user_id", None)
    expiration = properties.get("expiration")
    if isinstance(expiration, bytes) and not expiration.isdigit():
        del properties["expiration"]
    return properties, _bytes(transport.get("headers"))


def _converted(one: Outgoing) -> tuple[dict[str, Value], bytes]:
    """Return properties and headers of a message that no RabbitMQ has seen yet."""
    headers = b"".join(text_field(name, text) for name, text in one.headers.items() if not is_left_out(name))
    return {"delivery_mode": _PERSISTENT, "message_id": _short(one.message_id)}, headers


def _value(name: str, value: Any) -> Value | None:
    if name in _NUMBERS:
        return value if isinstance(value, int) and 0 <= value <= _NUMBERS[name] else None
    return _short(value) if isinstance(value, str) else _bytes(value)[:_MAX_NAME_BYTES]


def _bytes(value: Any) -> bytes:
    encoded = value.get("base64") if isinstance(value, Mapping) else None
    try:
        return base64.b64decode(encoded) if isinstance(encoded, str) else b""
    except binascii.Error:
        return b""


def _short(text: str) -> bytes:
    return text.encode("utf-8", "replace")[:_MAX_NAME_BYTES]


@lru_cache(maxsize=1024)
def _method(exchange: str, routing_key: str) -> bytes:
    names = []
    for name in (exchange, routing_key):
        raw = name.encode("utf-8", "replace")
        if len(raw) > _MAX_NAME_BYTES:
            raise Unsendable(f"{name[:60]!r}… is longer than the {_MAX_NAME_BYTES} bytes of a name")
        names.append(b"%c%b" % (len(raw), raw))
    arguments = struct.pack(">IH", _PUBLISH, 0) + b"".join(names) + b"%c" % _MANDATORY
    return _FRAME.pack(1, CHANNEL, len(arguments)) + arguments + _END
