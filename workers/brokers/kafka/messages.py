"""A Kafka record as the drain stores it with its failure, and as the arguments that publish it again."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from poisonadmin.brokers.domain.broker_kinds import KAFKA
from poisonadmin.brokers.domain.broker_names import is_dead_letter_header
from poisonadmin.messages.domain.dead_letter import MAX_DELIVERY_COUNT, MAX_MOVES, MAX_NAME_CHARS, DeadLetter, Move
from poisonadmin.messages.domain.envelope_fields import LIMITS
from workers.brokers.contract import Incoming, Outgoing, decoded, encoded
from workers.brokers.headers import came_back_of, name_of, text_of

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


Headers = Sequence[tuple[str, bytes | None]]

# Kafka itself writes nothing on a record that nobody could process: Spring, Kafka Connect, SmallRye or people do.
# Spring writes numbers as big-endian bytes, the others as texts. Its outer exception is often only the listener's
# wrapper, so its cause is read too. Where a record went through several topics, Spring writes its headers once for
# each, oldest first.
# Each fact under the names that libraries give it; the first that is there counts.
_TOPIC = ("kafka_dlt-original-topic", "kafka_original-topic", "__connect.errors.topic", "dead-letter-topic")
_PARTITION = (
    "kafka_dlt-original-partition", "kafka_original-partition", "__connect.errors.partition", "dead-letter-partition",
)  # fmt: skip
_CLASS = (
    "kafka_dlt-exception-fqcn", "kafka_exception-fqcn", "__connect.errors.exception.class.name",
    "dead-letter-exception-class-name", "kafka_dlt-key-exception-fqcn",
)  # fmt: skip
_CAUSE = ("kafka_dlt-exception-cause-fqcn", "kafka_exception-cause-fqcn", "dead-letter-cause-class-name")
_MESSAGE = (
    "kafka_dlt-exception-message", "kafka_exception-message", "__connect.errors.exception.message",
    "dead-letter-reason", "kafka_dlt-key-exception-message",
)  # fmt: skip
_STACK = (
    "kafka_dlt-exception-stacktrace", "kafka_exception-stacktrace", "__connect.errors.exception.stacktrace",
    "kafka_dlt-key-exception-stacktrace",
)  # fmt: skip
_STAGE = ("__connect.errors.stage",)
_ATTEMPTS = ("kafka_deliveryAttempt", "retry_topic-attempts")
# Spring's, where it writes numbers.
_NUMBERS = frozenset(
    (
        "kafka_dlt-original-partition", "kafka_dlt-original-offset", "kafka_dlt-original-timestamp",
        "kafka_original-partition", "kafka_original-offset", "kafka_original-timestamp", "kafka_deliveryAttempt",
        "retry_topic-attempts", "retry_topic-backoff-timestamp", "retry_topic-original-timestamp",
    )
)  # fmt: skip
# Of attempts that are over; with them a record would wait for its next, or count as its last.
_STAMPS = ("kafka_deliveryattempt", "retry_topic-", "springdeserializerexception")
_NUMBER_BYTES = frozenset((4, 8))
_MAX_PARTITION = 2**31 - 1


@dataclass(frozen=True, slots=True)
class RecordOrigin:
    """The first place of a record, as far as its headers say."""

    topic: str | None = None
    partition: int | None = None


def dead_letter_of(headers: Headers, drained: str, failed_at: datetime | None) -> DeadLetter:
    """Return what the headers report of the failure; invalid values are left out.

    `drained`: the topic where the record is now; `failed_at`: when it got there.

    >>> found = dead_letter_of([("kafka_dlt-original-topic", b"orders")], "orders-dlt", None)
    >>> found.original_address, found.moves[0].to
    ('orders', 'orders-dlt')
    """
    exception = _latest_text(headers, _CLASS, LIMITS.exception_class_chars)
    stage = _latest_text(headers, _STAGE, LIMITS.reason_chars)
    reason = stage.lower()[: LIMITS.reason_chars] if stage else "exception" if exception else "undelivered"
    topics = [_name(value) or "?" for value in _all(headers, _TOPIC)][-MAX_MOVES:]
    moves = tuple(
        Move(topic, reason, None if to else failed_at, to=to or drained)
        for topic, to in zip_longest(topics, topics[1:])
    )
    attempts = _number(headers, _ATTEMPTS)
    return DeadLetter(
        reason=reason if topics or exception else None,
        exception_class=exception,
        exception_message=_latest_text(headers, _MESSAGE, LIMITS.exception_message_chars),
        stack=_latest_text(headers, _STACK, LIMITS.stack_chars),
        original_address=origin_of(headers).topic,
        failed_at=failed_at,
        delivery_count=attempts if attempts is not None and 0 < attempts <= MAX_DELIVERY_COUNT else None,
        cause_class=_latest_text(headers, _CAUSE, LIMITS.exception_class_chars),
        moves=moves,
        came_back=came_back_of(texts_of([one for one in headers if one[0].lower().startswith("poisonadmin-")])),
    )


def origin_of(headers: Headers) -> RecordOrigin:
    """Return topic and partition where the record was first."""
    topics, partitions = _all(headers, _TOPIC), _all(headers, _PARTITION)
    partition = _as_number(partitions[0]) if partitions else None
    is_one = partition is not None and 0 <= partition <= _MAX_PARTITION
    return RecordOrigin(_name(topics[0]) if topics else None, partition if is_one else None)


def texts_of(headers: Headers) -> dict[str, str]:
    """Return the headers as people, rules and keys read them; of those with one name the last.

    Spring's numbers are numbers, what is not UTF-8 is base64.

    >>> texts_of([("tenant", b"eu"), ("kafka_dlt-original-partition", bytes((0, 0, 0, 3))), ("raw", bytes((255,)))])
    {'tenant': 'eu', 'kafka_dlt-original-partition': '3', 'raw': '/w=='}
    """
    return {name: _shown(name, value) for name, value in headers}


def is_left_out(name: str) -> bool:
    """Return whether a header is left out when its record is returned.

    >>> [is_left_out(name) for name in ("kafka_dlt-original-topic", "retry_topic-attempts", "__TypeId__", "tenant")]
    [True, True, False, False]
    """
    return is_dead_letter_header(name) or name.lower().startswith(_STAMPS)


def _shown(name: str, value: bytes | None) -> str:
    if value is None:
        return ""
    if name in _NUMBERS and len(value) in _NUMBER_BYTES:
        return str(int.from_bytes(value, signed=True))
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


def _all(headers: Headers, names: tuple[str, ...]) -> list[bytes]:
    for name in names:
        if found := [value for other, value in headers if other == name and value is not None]:
            return found
    return []


def _latest_text(headers: Headers, names: tuple[str, ...], max_chars: int) -> str | None:
    # Written anew each time: the last is of the last failure.
    found = _all(headers, names)
    return text_of(found[-1], max_chars) if found else None


def _number(headers: Headers, names: tuple[str, ...]) -> int | None:
    found = _all(headers, names)
    return _as_number(found[-1]) if found else None


def _as_number(value: bytes) -> int | None:
    if value.isdigit() and len(value) <= 19:
        # A text; Spring's four bytes are never all digits, but for partitions beyond 800 million.
        return int(value)
    return int.from_bytes(value, signed=True) if len(value) in _NUMBER_BYTES else None


def _name(value: bytes) -> str | None:
    return name_of(value[:MAX_NAME_CHARS].decode("utf-8", "replace"))
