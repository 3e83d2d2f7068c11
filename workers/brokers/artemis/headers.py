"""Headers of messages that ActiveMQ Artemis moved to a dead-letter or expiry address: its own, and those of clients.

Artemis says where a message was, and not why: only an expiry can be told from the rest. It reports the last move alone.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from poisonadmin.brokers.domain.broker_names import is_dead_letter_header
from poisonadmin.messages.domain.dead_letter import DeadLetter, Move
from poisonadmin.messages.domain.envelope_fields import LIMITS
from workers.brokers.headers import came_back_of, first_text, name_of, text_of

_MS_DIGITS = 14
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# An OpenWire client writes: `java.lang.Throwable: Delivery[7] exceeds …, cause:org.example.Refused: no such customer`.
_OPENWIRE = "dlqDeliveryFailureCause"
_OPENWIRE_CAUSE = re.compile(r"cause:([\w.$]+)(?:: (.*))?\Z", re.DOTALL)
# What consumers' libraries stamp: MassTransit, SmallRye.
_CLASS = ("MT-Fault-ExceptionType", "dead-letter-exception-class-name")
_CAUSE = ("dead-letter-cause-class-name",)
_MESSAGE = ("MT-Fault-Message", "dead-letter-reason")
_STACK = ("MT-Fault-StackTrace",)
_OWN = ("_AMQ_", "__AMQ_")
_STAMPS = ("mt-fault-", "mt-reason", "dlqdeliveryfailurecause")


def is_left_out(name: str) -> bool:
    """Return whether a property is left out when its message is returned.

    The broker's own tell it what to do with a message, when and where to; it goes to one queue, now. With its
    duplicate id a message that comes again would be taken for done, and dropped.

    >>> [is_left_out(name) for name in ("_AMQ_DUPL_ID", "PoisonAdmin-Attempt", "MT-Fault-Message", "tenant")]
    [True, True, True, False]
    """
    return name.startswith(_OWN) or is_dead_letter_header(name) or name.lower().startswith(_STAMPS)


def dead_letter_of(headers: Mapping[str, str], drained: str) -> DeadLetter:
    """Return what a message's properties report of its failure; `drained` is where it is now.

    >>> found = dead_letter_of({"_AMQ_ORIG_ADDRESS": "orders", "_AMQ_ORIG_QUEUE": "orders"}, "DLQ")
    >>> found.original_address, found.moves[0].to
    ('orders', 'DLQ')
    """
    address, queue = origin_of(headers)
    expired_at = _time(headers.get("_AMQ_ACTUAL_EXPIRY"))
    reason = "expired" if expired_at is not None else "undelivered"
    exception_class, exception_message = _exception(headers)
    was_moved = address is not None or queue is not None
    return DeadLetter(
        reason=reason if was_moved else None,
        exception_class=text_of(exception_class, LIMITS.exception_class_chars),
        exception_message=text_of(exception_message, LIMITS.exception_message_chars),
        stack=first_text(headers, _STACK, LIMITS.stack_chars),
        original_address=address or queue,
        failed_at=expired_at,
        cause_class=first_text(headers, _CAUSE, LIMITS.exception_class_chars),
        moves=(Move(full_name(address, queue) or "?", reason, expired_at, to=drained),) if was_moved else (),
        came_back=came_back_of(headers),
    )


def full_name(address: str | None, queue: str | None) -> str | None:
    """Return a queue's name, with its address where that has another.

    >>> full_name("orders", "orders"), full_name("news", "reader.news"), full_name("orders", None)
    ('orders', 'news::reader.news', 'orders')
    """
    if address is None or queue is None or address == queue:
        return queue or address
    return f"{address}::{queue}"


def origin_of(headers: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return address and queue where the message was before its last move."""
    return name_of(headers.get("_AMQ_ORIG_ADDRESS")), name_of(headers.get("_AMQ_ORIG_QUEUE"))


def _exception(headers: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return class and message of the exception; an OpenWire client's header is about the last failure."""
    text = headers.get(_OPENWIRE)
    if not isinstance(text, str) or not text:
        found = first_text(headers, _CLASS, LIMITS.exception_class_chars)
        return found, first_text(headers, _MESSAGE, LIMITS.exception_message_chars)
    cause = _OPENWIRE_CAUSE.search(text)
    if cause is None or cause.group(1) == "null":
        name, _, _ = text.partition(":")
        return name if "." in name else None, text
    return cause.group(1), cause.group(2) or text


def _time(value: object) -> datetime | None:
    if not isinstance(value, str) or not value.isascii() or not value.isdecimal() or len(value) > _MS_DIGITS:
        return None
    return _EPOCH + timedelta(milliseconds=int(value)) if int(value) else None
