"""What RabbitMQ, and the client libraries around it, write on a message that nobody could process."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Any

from poisonadmin.intake.domain.dead_letter import MAX_DELIVERY_COUNT, CameBack, DeadLetter, Move
from poisonadmin.intake.domain.envelope_fields import LIMITS, storable
from poisonadmin.sources.domain.broker_names import is_dead_letter_header

MAX_MOVES = 100
_MAX_ID = 2**63 - 1
# The reasons for which a consumer is to blame; a message that expired, or was pushed out, was perhaps never seen.
_FAILURES = frozenset({"rejected", "delivery_limit"})
# What consumers' libraries stamp: Spring AMQP, MassTransit, NServiceBus. Written anew when the message fails again.
_STAMPS = (
    "x-exception-class", "x-exception-message", "x-exception-stacktrace", "x-original-exchange",
    "x-original-routingkey", "mt-fault-",
    "mt-reason", "nservicebus.exceptioninfo.", "nservicebus.failedq", "nservicebus.timeoffailure",
)  # fmt: skip
# They tell the broker where else to put a message: one that is returned goes to one queue, whatever it says (S7).
_ROUTING = frozenset({"cc", "bcc"})
# RabbitMQ counts deliveries here, so that a message has other headers whenever it is read.
COUNTED_BY_QUEUE = frozenset({"x-delivery-count", "x-acquired-count"})
# Each thing that is told, under the names that libraries give it; the first that is there counts.
_TOLD = {
    "exception_class": (
        "x-exception-class", "MT-Fault-ExceptionType", "NServiceBus.ExceptionInfo.ExceptionType",
        "dead-letter-exception-class-name",
    ),
    "cause_class": ("NServiceBus.ExceptionInfo.InnerExceptionType", "dead-letter-cause-class-name"),
    "exception_message": (
        "x-exception-message", "MT-Fault-Message", "NServiceBus.ExceptionInfo.Message", "dead-letter-reason",
    ),
    "stack": ("x-exception-stacktrace", "MT-Fault-StackTrace", "NServiceBus.ExceptionInfo.StackTrace"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class QueueOrigin:
    """Where a message was before it was first dead-lettered, as far as its headers say.

    The end of life that it had is not taken from there: RabbitMQ has taken it off, and a person wants the message read.
    """

    queue: str | None = None
    exchange: str | None = None
    routing_key: str | None = None


def dead_letter_of(headers: Mapping[str, Any]) -> DeadLetter:
    """Return what the headers, decoded, tell of the failure; whatever is not as it should be is left out.

    >>> death = {"queue": "orders", "reason": "rejected", "count": 3, "exchange": "", "routing-keys": ["orders"]}
    >>> found = dead_letter_of({"x-death": [death], "x-first-death-queue": "orders"})
    >>> found.original_address, found.reason, found.delivery_count
    ('orders', 'rejected', 3)
    """
    moves = _moves(headers)
    failed = sum(move.count for move in moves if move.reason in _FAILURES)
    counted = max(failed, _count(headers.get("x-delivery-count"), least=0))
    stack = _first(headers, "stack", LIMITS.stack_chars)
    return DeadLetter(
        reason=moves[-1].reason if moves else _text(headers.get("MT-Reason"), LIMITS.reason_chars),
        exception_class=_first(headers, "exception_class", LIMITS.exception_class_chars),
        exception_message=_first(headers, "exception_message", LIMITS.exception_message_chars),
        stack=stack,
        original_address=origin_of(headers).queue,
        failed_at=moves[-1].at if moves else None,
        delivery_count=min(counted, MAX_DELIVERY_COUNT) or None,
        cause_class=_first(headers, "cause_class", LIMITS.exception_class_chars),
        moves=moves,
        came_back=came_back_of(headers),
    )


def origin_of(headers: Mapping[str, Any]) -> QueueOrigin:
    """Return where the message was first; without x-death what a library says of it."""
    deaths = _deaths(headers)
    first_queue, first_reason = headers.get("x-first-death-queue"), headers.get("x-first-death-reason")
    if deaths:
        first = next(
            (one for one in deaths if one.get("queue") == first_queue and one.get("reason") == first_reason), deaths[-1]
        )
        keys = first.get("routing-keys")
        return QueueOrigin(
            queue=_name(first_queue) or _name(first.get("queue")),
            exchange=_name(first.get("exchange"), may_be_empty=True),
            routing_key=_name(keys[0], may_be_empty=True) if isinstance(keys, list) and keys else None,
        )
    exchange = _name(headers.get("x-original-exchange"), may_be_empty=True)
    routing_key = _name(headers.get("x-original-routingKey"), may_be_empty=True)
    queue = _name(headers.get("NServiceBus.FailedQ")) or _name(first_queue) or _last_word(headers)
    if queue is None and exchange == "":
        queue = routing_key  # the default exchange's keys are the names of queues
    return QueueOrigin(queue=queue, exchange=exchange, routing_key=routing_key)


def came_back_of(headers: Mapping[str, Any]) -> CameBack | None:
    """Return which delivery of ours the message says it is, None when it does not say so in our way."""
    found = {name.lower(): value for name, value in headers.items() if name.lower().startswith("poisonadmin-")}
    message_id, attempt = (str(found.get(f"poisonadmin-{what}", "")) for what in ("message-id", "attempt"))
    if not (_is_number(message_id) and _is_number(attempt)):
        return None
    if not (0 < int(message_id) <= _MAX_ID and 0 < int(attempt) <= MAX_DELIVERY_COUNT):
        return None
    return CameBack(int(message_id), int(attempt))


def is_left_out(name: str) -> bool:
    """Return whether a header is left out when its message is returned.

    >>> [is_left_out(name) for name in ("x-death", "CC", "MT-Fault-Message", "PoisonAdmin-Attempt", "x-tenant")]
    [True, True, True, True, False]
    """
    lower = name.lower()
    return lower in _ROUTING or lower.startswith(_STAMPS) or is_dead_letter_header(lower)


def _moves(headers: Mapping[str, Any]) -> tuple[Move, ...]:
    deaths = list(reversed(_deaths(headers)[:MAX_MOVES]))
    queues = [_name(one.get("queue")) or "?" for one in deaths]
    return tuple(
        Move(
            queue=queue,
            reason=_name(one.get("reason")) or "unknown",
            at=time if isinstance(time := one.get("time"), datetime) else None,
            count=_count(one.get("count"), least=1),
            to=to,
        )
        for one, queue, to in zip_longest(deaths, queues, queues[1:])
    )


def _deaths(headers: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the entries of x-death, the latest first."""
    found = headers.get("x-death")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _last_word(headers: Mapping[str, Any]) -> str | None:
    """Return the queue in MassTransit's address of it, rabbitmq://host/vhost/queue?options."""
    text = _name(headers.get("MT-Fault-InputAddress"))
    return None if text is None else _name(text.partition("?")[0].rpartition("/")[2])


def _first(headers: Mapping[str, Any], what: str, max_chars: int) -> str | None:
    return next((text for name in _TOLD[what] if (text := _text(headers.get(name), max_chars)) is not None), None)


def _text(value: object, max_chars: int) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return storable(value[:max_chars]) if isinstance(value, str) and value else None


def _name(value: object, *, may_be_empty: bool = False) -> str | None:
    if not isinstance(value, str) or not (value or may_be_empty):
        return None
    return storable(value[:255])


def _count(value: object, *, least: int) -> int:
    return min(max(value, least), MAX_DELIVERY_COUNT) if isinstance(value, int) else least


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 19
