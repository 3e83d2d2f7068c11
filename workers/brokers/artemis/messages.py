"""A message as Artemis gives it out over STOMP, as the drain stores it; and as the frame that sends it again.

STOMP knows texts alone: numbers and booleans come as texts, and go back as texts. A body is a text or it is bytes;
what is neither stays with the broker (`reader.py`).
"""

from collections.abc import Mapping
from typing import Any

from stomp.utils import Frame

from poisonadmin.brokers.domain.broker_kinds import ARTEMIS
from poisonadmin.messages.domain.envelope_fields import storable
from workers.brokers.artemis.headers import dead_letter_of, full_name, is_left_out, origin_of
from workers.brokers.contract import Incoming, Outgoing

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
    return {name: text for name, text in value.items() if isinstance(text, str) and name and name not in _FRAME} | {
        name: text for name, text in value.items() if isinstance(text, str) and name in _PROPERTIES
    }
