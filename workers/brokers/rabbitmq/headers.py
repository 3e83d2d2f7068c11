"""The headers that RabbitMQ, and client libraries for it, write on a message that nobody could process."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Any

from poisonadmin.brokers.domain.broker_names import is_dead_letter_header
from poisonadmin.messages.domain.dead_letter import MAX_DELIVERY_COUNT, MAX_MOVES, DeadLetter, Move
from poisonadmin.messages.domain.envelope_fields import LIMITS
from workers.brokers.headers import came_back_of, first_text, name_of, text_of

# The reasons for which a consumer is to blame; a message that expired, or was pushed out, was perhaps never seen.
_FAILURES = frozenset({"rejected", "delivery_limit"})
# What consumers' libraries stamp: Spring AMQP, MassTransit, NServiceBus. Written anew when the message fails again.
_STAMPS = (
    "x-exception-class", "x-exception-message", "x-exception-stacktrace", "x-original-exchange",
    "x-original-routingkey", "mt-fault-",
    "mt-reason", "nservicebus.exceptioninfo.", "nservicebus.failedq", "nservicebus.timeoffailure",
)  # fmt: skip
# They tell the broker where else to put a message: one that is returned goes to one queue, whatever it says.
_ROUTING = frozenset({"cc", "bcc"})
# Each fact under the names that libraries give it; the first that is there counts.
_CLASS = (
    "x-exception-class", "MT-Fault-ExceptionType", "NServiceBus.ExceptionInfo.ExceptionType",
    "dead-letter-exception-class-name",
)  # fmt: skip
_CAUSE = ("NServiceBus.ExceptionInfo.InnerExceptionType", "dead-letter-cause-class-name")
_MESSAGE = ("x-exception-message", "MT-Fault-Message", "NServiceBus.ExceptionInfo.Message", "dead-letter-reason")
_STACK = ("x-exception-stacktrace", "MT-Fault-StackTrace", "NServiceBus.ExceptionInfo.StackTrace")


@dataclass(frozen=True, slots=True)
class QueueOrigin:
    """The place of a message before it was first dead-lettered, as far as its headers say.

    The expiry that it had is not taken from there: RabbitMQ has removed it, and a person wants the message read.
    """

    queue: str | None = None
    exchange: str | None = None
    routing_key: str | None = None


def dead_letter_of(headers: Mapping[str, Any]) -> DeadLetter:
    """Return what the headers, decoded, report of the failure; invalid values are left out.

    >>> death = {"queue": "orders", "reason": "rejected", "count": 3, "exchange": "", "routing-keys": ["orders"]}
    >>> found = dead_letter_of({"x-death": [death], "x-first-death-queue": "orders"})
    >>> found.original_address, found.reason, found.delivery_count
    ('orders', 'rejected', 3)
    """
    moves = _moves(headers)
    failed = sum(move.count for move in moves if move.reason in _FAILURES)
    counted = max(failed, _count(headers.get("x-delivery-count"), least=0))
    return DeadLetter(
        reason=moves[-1].reason if moves else text_of(headers.get("MT-Reason"), LIMITS.reason_chars),
        exception_class=first_text(headers, _CLASS, LIMITS.exception_class_chars),
        exception_message=first_text(headers, _MESSAGE, LIMITS.exception_message_chars),
        stack=first_text(headers, _STACK, LIMITS.stack_chars),
        original_address=origin_of(headers).queue,
        failed_at=moves[-1].at if moves else None,
        delivery_count=min(counted, MAX_DELIVERY_COUNT) or None,
        cause_class=first_text(headers, _CAUSE, LIMITS.exception_class_chars),
        moves=moves,
        came_back=came_back_of(headers),
    )


def origin_of(headers: Mapping[str, Any]) -> QueueOrigin:
    """Return where the message was first; without x-death, what a library's headers say of that."""
    dead_letterings = _dead_letterings(headers)
    first_queue, first_reason = headers.get("x-first-death-queue"), headers.get("x-first-death-reason")
    if dead_letterings:
        first = next(
            (one for one in dead_letterings if one.get("queue") == first_queue and one.get("reason") == first_reason),
            dead_letterings[-1],
        )
        keys = first.get("routing-keys")
        return QueueOrigin(
            queue=name_of(first_queue) or name_of(first.get("queue")),
            exchange=name_of(first.get("exchange"), may_be_empty=True),
            routing_key=name_of(keys[0], may_be_empty=True) if isinstance(keys, list) and keys else None,
        )
    exchange = name_of(headers.get("x-original-exchange"), may_be_empty=True)
    routing_key = name_of(headers.get("x-original-routingKey"), may_be_empty=True)
    queue = name_of(headers.get("NServiceBus.FailedQ")) or name_of(first_queue) or _input_queue(headers)
    if queue is None and exchange == "":
        queue = routing_key  # the default exchange's keys are the names of queues
    return QueueOrigin(queue=queue, exchange=exchange, routing_key=routing_key)


def is_left_out(name: str) -> bool:
    """Return whether a header is left out when its message is returned.

    >>> [is_left_out(name) for name in ("x-death", "CC", "MT-Fault-Message", "PoisonAdmin-Attempt", "x-tenant")]
    [True, True, True, True, False]
    """
    lower = name.lower()
    return lower in _ROUTING or lower.startswith(_STAMPS) or is_dead_letter_header(lower)


def _moves(headers: Mapping[str, Any]) -> tuple[Move, ...]:
    dead_letterings = list(reversed(_dead_letterings(headers)[:MAX_MOVES]))
    queues = [name_of(one.get("queue")) or "?" for one in dead_letterings]
    return tuple(
        Move(
            queue=queue,
            reason=name_of(one.get("reason")) or "unknown",
            at=time if isinstance(time := one.get("time"), datetime) else None,
            count=_count(one.get("count"), least=1),
            to=to,
        )
        for one, queue, to in zip_longest(dead_letterings, queues, queues[1:])
    )


def _dead_letterings(headers: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the entries of x-death, the latest first."""
    found = headers.get("x-death")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _input_queue(headers: Mapping[str, Any]) -> str | None:
    """Return the queue in MassTransit's address of it, rabbitmq://host/vhost/queue?options."""
    text = name_of(headers.get("MT-Fault-InputAddress"))
    return None if text is None else name_of(text.partition("?")[0].rpartition("/")[2])


def _count(value: object, *, least: int) -> int:
    return min(max(value, least), MAX_DELIVERY_COUNT) if isinstance(value, int) else least
