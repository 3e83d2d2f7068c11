"""A Kafka record as the drain stores it; and as what the producer takes to publish it again."""

from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from poisonadmin.brokers.domain.broker_kinds import KAFKA
from workers.brokers.contract import Incoming, Outgoing, decoded, encoded
from workers.brokers.kafka.headers import Headers, dead_letter_of, is_left_out, origin_of, texts_of

_BYTES = "application/octet-stream"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_MS = 253402300799999
_CONTENT_TYPES = ("content-type", "contentType")


def incoming_of(record: Message, token: int) -> Incoming:
    """Return the message; `token` is its place among those that its reader has given out."""
    topic, partition, offset = str(record.topic()), record.partition(), record.offset()
    raw: Any = record.headers() or []
    headers: Headers = [(str(name), _bytes(value)) for name, value in raw]
    texts = texts_of(headers)
    key, value = _bytes(record.key()), _bytes(record.value())
    origin = origin_of(headers)
    transport: dict[str, Any] = {
        "broker": KAFKA,
        "queue": origin.topic,
        "topic": topic,
        "partition": origin.partition,
        "offset": offset,
        "key": None if key is None else encoded(key),
        "headers": [[_json(name), None if one is None else encoded(one)] for name, one in headers if _is_kept(name)],
    }
    if value is None:
        transport["is_tombstone"] = True
    return Incoming(
        token=token,
        queue=topic,
        message_id=None,
        broker_id=f"{topic}/{partition}/{offset}",
        is_redelivered=False,
        payload=value or b"",
        content_type=next((texts[name] for name in _CONTENT_TYPES if texts.get(name)), _BYTES),
        headers=texts,
        conversation_id=_text(key),
        bookmark=None,
        dead_letter=dead_letter_of(headers, topic, _time(record)),
        transport=transport,
    )


def record_of(one: Outgoing) -> dict[str, Any]:
    """Return value, key and headers of a message on its way back, as the producer takes them."""
    known = one.transport_of(KAFKA)
    headers: list[tuple[str, bytes | None]]
    if known is None:
        headers = [(name, text.encode("utf-8", "replace")) for name, text in one.headers.items() if _is_kept(name)]
        key = None if one.conversation_id is None else one.conversation_id.encode("utf-8", "replace")
        if one.content_type:
            headers.append((_CONTENT_TYPES[0], one.content_type.encode()))
    else:
        edited = one.edited_headers
        gone = {name.lower() for name in edited}
        pairs = [(name, value) for name, value in _pairs(known.get("headers")) if name.lower() not in gone]
        headers = [(name, decoded(value)) for name, value in pairs if _is_kept(name)]
        headers += [(name, text.encode()) for name, text in edited.items() if text is not None and _is_kept(name)]
        key = decoded(known.get("key"))
    headers = [(name, value) for name, value in headers if name not in one.own_headers]
    headers += [(name, text.encode()) for name, text in one.own_headers.items()]
    is_tombstone = known is not None and known.get("is_tombstone") is True and not one.payload
    return {"value": None if is_tombstone else one.payload, "key": key, "headers": headers}


def partition_of(one: Outgoing, count: int) -> int | None:
    """Return the partition where the message was, when it goes to the topic where it was, which still has so many."""
    known = one.transport_of(KAFKA) or {}
    partition = known.get("partition")
    goes_back = known.get("queue") == one.route or not one.route
    return partition if goes_back and isinstance(partition, int) and 0 <= partition < count else None


def _is_kept(name: str) -> bool:
    return not is_left_out(name)


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _pairs(value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, list):
        return []
    return [(one[0], one[1]) for one in value if isinstance(one, list) and len(one) == 2 and isinstance(one[0], str)]


def _json(text: str) -> str:
    # JSON in PostgreSQL holds neither NUL nor lone surrogates.
    return text.encode("utf-8", "replace").decode().replace("\0", "")


def _text(key: bytes | None) -> str | None:
    try:
        return key.decode("utf-8") or None if key is not None else None
    except UnicodeDecodeError:
        return None


def _time(record: Message) -> datetime | None:
    kind, at = record.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE or not 0 < at <= _MAX_MS else _EPOCH + timedelta(milliseconds=at)
