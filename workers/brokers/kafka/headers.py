"""The headers on a Kafka record that nobody could process: by Spring, Kafka Connect and SmallRye, or by hand.

Kafka itself writes nothing. Spring writes numbers as big-endian bytes, the others as texts; Spring's outer exception is
often only the listener's wrapper, so its cause is read too. Where a record went through more topics than one, Spring
writes its headers once for each, oldest first.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest

from poisonadmin.brokers.domain.broker_names import is_dead_letter_header
from poisonadmin.messages.domain.dead_letter import MAX_DELIVERY_COUNT, MAX_MOVES, MAX_NAME_CHARS, DeadLetter, Move
from poisonadmin.messages.domain.envelope_fields import LIMITS
from workers.brokers.headers import came_back_of, name_of, text_of

Headers = Sequence[tuple[str, bytes | None]]

# Each fact under the names that libraries give it; the first that is there counts.
_TOPIC = ("kafka_dlt-original-topic", "kafka_original-topic", "__connect.errors.topic", "dead-letter-topic")
_PARTITION = (
    "kafka_dlt-original-partition", "kafka_original-partition", "__connect.errors.partition", "dead-letter-partition",
)  # fmt: skip
_OFFSET = ("kafka_dlt-original-offset", "kafka_original-offset", "__connect.errors.offset", "dead-letter-offset")
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
    exception = _text(headers, _CLASS, LIMITS.exception_class_chars)
    stage = _text(headers, _STAGE, LIMITS.reason_chars)
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
        exception_message=_text(headers, _MESSAGE, LIMITS.exception_message_chars),
        stack=_text(headers, _STACK, LIMITS.stack_chars),
        original_address=origin_of(headers).topic,
        failed_at=failed_at,
        delivery_count=attempts if attempts is not None and 0 < attempts <= MAX_DELIVERY_COUNT else None,
        cause_class=_text(headers, _CAUSE, LIMITS.exception_class_chars),
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


def _text(headers: Headers, names: tuple[str, ...], max_chars: int) -> str | None:
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
