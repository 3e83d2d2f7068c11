"""A message as Artemis gives it out over STOMP, as the drain stores it with its failure, and as the frame to return it.

STOMP knows texts alone: numbers and booleans come as texts, and go back as texts. A body is a text or it is bytes;
what is neither stays with the broker (`adapter.py`).
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from stomp.utils import Frame

from poisonadmin.brokers.domain.broker_kinds import ARTEMIS
from poisonadmin.brokers.domain.broker_names import is_dead_letter_header
from poisonadmin.messages.domain.dead_letter import DeadLetter, Move
from poisonadmin.messages.domain.envelope_fields import LIMITS, storable
from workers.brokers.contract import Incoming, Outgoing
from workers.brokers.headers import came_back_of, first_text, name_of, text_of

# Headers of the frame, not of the message. Artemis makes properties even of some that producers' frames had.
_FRAME = frozenset(
    (
        "subscription", "message-id", "ack", "destination", "destination-type", "content-length", "redelivered",
        "receipt", "transaction", "expires", "timestamp", "persistent", "priority", "content-type", "correlation-id",
        "reply-to", "type", "ingress-timestamp", "JMSXUserID", "_AMQ_GROUP_ID", "JMSXGroupID", "selector", "id",
        "AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_TIME",
    )
)  # fmt: skip
# What a message has beside its body and its properties, by STOMP's names.
_PROPERTIES = ("persistent", "priority", "content-type", "correlation-id", "reply-to", "type", "timestamp", "expires")
_RETURNED = ("correlation-id", "reply-to", "type", "priority")
_GROUP = "_AMQ_GROUP_ID"
_GROUP_SENT = "JMSXGroupID"
_BYTES = "application/octet-stream"
_TEXT = "text/plain"
_TEXTS = ("text/", "application/json", "application/xml")


def incoming_of(frame: Frame, queue: str, token: int) -> Incoming:
    """Return the message; `token` is its place among those that its subscription was given."""
    headers: dict[str, str] = frame.headers
    properties = {name: storable(headers[name]) for name in _PROPERTIES if name in headers}
    own = {name: value for name, value in headers.items() if name not in _FRAME}
    dead_letter = dead_letter_of(own, queue)
    in_bytes = is_bytes(headers)
    group = headers.get(_GROUP)
    # After a broker was made anew from nothing its numbers begin again; the time does not.
    number = number_of(headers)
    return Incoming(
        token=token,
        queue=queue,
        message_id=None,
        broker_id=f"{queue}/{number}/{headers.get('timestamp', '')}" if number else None,
        is_redelivered=headers.get("redelivered") == "true",
        payload=bytes(frame.body or b""),
        content_type=headers.get("content-type") or (_BYTES if in_bytes else _TEXT),
        headers=own,
        conversation_id=group,
        bookmark=None,
        dead_letter=dead_letter,
        transport={
            "broker": ARTEMIS,
            "queue": full_name(*origin_of(own)),
            "body": "bytes" if in_bytes else "text",
            "properties": properties,
            "headers": {storable(name): storable(value) for name, value in own.items() if not is_left_out(name)},
            **({"group": storable(group)} if group else {}),
        },
    )


def is_bytes(headers: Mapping[str, str]) -> bool:
    """Return whether a message's body is bytes.

    Artemis says the length of bytes before it names the message; that of a text is added at the end.
    """
    for name in headers:
        if name == "message-id":
            return False
        if name == "content-length":
            return True
    return False


def number_of(headers: Mapping[str, str]) -> str:
    """Return the number that Artemis gave a message when it came to its queue."""
    return headers.get("message-id", "").rpartition(",")[2]


def frame_of(one: Outgoing, destination: str, routing: str, receipt: str) -> tuple[str, dict[str, str], bytes]:
    """Return the frame that sends a message: it does not expire, for a person wants it there."""
    known = one.transport_of(ARTEMIS)
    headers = _named(one.headers if known is None else known.get("headers"))
    if known is not None and one.edited_headers:
        gone = {name.lower() for name in one.edited_headers}
        headers = {name: text for name, text in headers.items() if name.lower() not in gone}
        headers |= _named(one.edited_headers)
    properties = _named((known or {}).get("properties"))
    group = one.conversation_id if known is None else known.get("group")
    own = {name.lower() for name in one.own_headers}
    content_type = properties.get("content-type") or (one.content_type if known is None else None)
    sent = {
        **{name: value for name, value in headers.items() if not is_left_out(name) and name.lower() not in own},
        **one.own_headers,
        **{name: properties[name] for name in _RETURNED if name in properties},
        **({_GROUP_SENT: group} if isinstance(group, str) and group else {}),
        **({"content-type": content_type} if content_type else {}),
        "persistent": "false" if properties.get("persistent") == "false" else "true",
        "destination": destination,
        "destination-type": routing,
        "receipt": receipt,
    }
    if not str(sent.get("priority", "4")).isdigit():
        del sent["priority"]
    if _goes_as_bytes(one, (known or {}).get("body")):
        sent["content-length"] = str(len(one.payload))
    return "SEND", sent, one.payload


def _goes_as_bytes(one: Outgoing, kind: Any) -> bool:
    """Return whether the length is given, which makes it bytes: a NUL would end a text too early."""
    if kind is None:
        kind = "text" if one.content_type.startswith(_TEXTS) else "bytes"
    if kind != "text" or b"\0" in one.payload:
        return True
    try:
        one.payload.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def _named(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    texts = {name: text for name, text in value.items() if isinstance(text, str) and name}
    return {name: text for name, text in texts.items() if name in _PROPERTIES or name not in _FRAME}


# Artemis says where a message was, and not why: only an expiry can be told from the rest. It reports the last move
# alone.
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
