"""AMQP 1.0 frames: what a client writes, and what it reads. Source: AMQP 1.0, parts 2 (Transport) and 5 (Security)."""

import struct
from collections.abc import Iterable
from typing import Any

from workers.brokers import amqp1_values as amqp

SASL_HEADER = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER = b"AMQP\x00\x01\x00\x00"

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
SASL_MECHANISMS, SASL_INIT, SASL_OUTCOME = 0x40, 0x41, 0x44
ACCEPTED, REJECTED, RELEASED, MODIFIED = range(0x24, 0x28)
_SOURCE, _TARGET, _COORDINATOR = 0x28, 0x29, 0x30
_DECLARE, _DISCHARGE, DECLARED, _TRANSACTIONAL = 0x31, 0x32, 0x33, 0x34
_VALUE = 0x77
# Messages may be large; a window of this many frames is more than any batch.
WINDOW = 0x7FFFFFFF
MAX_FRAME_BYTES = 128 * 1024

_HEADER = struct.Struct(">IBBH")
EMPTY = _HEADER.pack(8, 2, 0, 0)
# More than the frame around a message's part takes.
_TRANSFER_BYTES = 64


def frame(performative: int, fields: Iterable[bytes], *, kind: int = 0, body: bytes = b"") -> bytes:
    """Return a frame on channel 0; `kind` 1 is SASL's."""
    content = amqp.described(performative, amqp.a_list(fields))
    return _HEADER.pack(8 + len(content) + len(body), 2, kind, 0) + content + body


def transfer(handle: int, delivery_id: int, message: bytes, max_frame_bytes: int) -> tuple[int, bytes]:
    """Return the frames that send a message, unsettled, and how many they are; its tag is its delivery id."""
    room = max_frame_bytes - _TRANSFER_BYTES
    number = amqp.uint(delivery_id)
    head = b"%b%b\xa0\x04%b\x43\x42" % (amqp.uint(handle), number, delivery_id.to_bytes(4))
    if len(message) <= room:
        # A list of five fields, whose length one byte can say: most messages are sent so.
        size = len(head) + 1
        start = b"\x00\x53\x14\xc0%c\x05%b" % (size, head)
        return 1, _HEADER.pack(8 + len(start) + len(message), 2, 0, 0) + start + message
    fields = (amqp.uint(handle), number, amqp.binary(delivery_id.to_bytes(4)), amqp.uint(0), amqp.FALSE)
    places = range(0, len(message), room)
    return len(places), b"".join(
        frame(TRANSFER, (*fields, amqp.boolean(place + room < len(message))), body=message[place : place + room])
        for place in places
    )


def source(address: str | None, *, browses: bool = False, is_dynamic: bool = False) -> bytes:
    """Return the source of a receiver: a queue, read or only looked at, or one that the broker makes for the link."""
    fields = [
        amqp.NULL if address is None else amqp.text(address),
        amqp.uint(0),
        amqp.symbol("session-end"),
        amqp.uint(0),
        amqp.boolean(is_dynamic),
        amqp.NULL,
        amqp.symbol("copy") if browses else amqp.NULL,
        amqp.NULL,
        outcome(RELEASED),
        amqp.NULL,
        # Artemis then takes the address for a queue's, not for a topic's.
        amqp.NULL if is_dynamic else amqp.symbol("queue"),
    ]
    return amqp.described(_SOURCE, amqp.a_list(fields))


def target(address: str | None, *, is_queue: bool = True) -> bytes:
    """Return the target of a sender."""
    fields = [amqp.NULL if address is None else amqp.text(address), *(amqp.NULL,) * 5]
    return amqp.described(_TARGET, amqp.a_list([*fields, amqp.symbol("queue") if is_queue else amqp.NULL]))


def disposition(first: int, last: int, state: bytes) -> bytes:
    """Return a receiver's last word on the deliveries `first` to `last`."""
    return frame(DISPOSITION, (amqp.TRUE, amqp.uint(first), amqp.uint(last), amqp.TRUE, state))


def outcome(code: int) -> bytes:
    """Return an outcome that has nothing to add: `ACCEPTED`, `RELEASED`."""
    return amqp.described(code, amqp.a_list(()))


def accepted_within(transaction: bytes) -> bytes:
    """Return the acceptance of a delivery that holds when the transaction does."""
    return amqp.described(_TRANSACTIONAL, amqp.a_list((amqp.binary(transaction), outcome(ACCEPTED))))


def coordinator() -> bytes:
    """Return the target of a sender that asks for transactions."""
    return amqp.described(_COORDINATOR, amqp.a_list((amqp.symbol("amqp:local-transactions"),)))


def declare() -> bytes:
    """Return the message that begins a transaction; the answer is `DECLARED`, with its id first."""
    return amqp.described(_VALUE, amqp.described(_DECLARE, amqp.a_list(())))


def discharge(transaction: bytes) -> bytes:
    """Return the message that commits a transaction."""
    return amqp.described(_VALUE, amqp.described(_DISCHARGE, amqp.a_list((amqp.binary(transaction), amqp.FALSE))))


def error_of(value: Any) -> tuple[str, str]:
    """Return the code and the text of an error that ended something; the text never is empty."""
    fields = value[1] if isinstance(value, amqp.Described) and isinstance(value[1], list) else []
    condition, detail, *_ = [*fields, None, None]
    condition = str(condition or "")
    return condition, str(detail or condition or "the broker gave no reason")[:1000]


def split(raw: bytearray, *, limit: int | None = None) -> list[tuple[int, list[Any], bytes]]:
    """Take the whole frames, at most `limit`, off the front of `raw`; return performative, fields and body of each.

    Fields are padded to the longest performative's, so that those left out at the end are None. Errors: ValueError.
    """
    place = 0
    found: list[tuple[int, list[Any], bytes]] = []
    view = bytes(raw)
    while place + 8 <= len(view) and (limit is None or len(found) < limit):
        size, offset, _, _ = _HEADER.unpack_from(view, place)
        if size < 8 or offset < 2 or offset * 4 > size:
            raise ValueError("a frame has no sense")
        if place + size > len(view):
            break
        content = view[place + offset * 4 : place + size]
        place += size
        if not content:
            continue  # keeps the connection alive
        end = amqp.end_of(content, 0)
        performative, fields = amqp.read(content[:end])
        if type(fields) is not list:
            raise ValueError("a frame holds no list")
        found.append((performative, fields + [None] * (14 - len(fields)), content[end:]))
    del raw[:place]
    return found
