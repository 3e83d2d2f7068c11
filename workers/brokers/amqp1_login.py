"""The first words of an AMQP 1.0 connection: who asks (SASL). Source: AMQP 1.0, part 5; RFC 4616 for PLAIN."""

import socket
from typing import Any

from workers.brokers import amqp1_frames as frames
from workers.brokers import amqp1_values as amqp
from workers.brokers.contract import BrokerError

_MAX_BYTES = 64 * 1024


def log_in(channel: socket.socket, host: str, login: tuple[str, str], timeout_seconds: float) -> bytes:
    """Return what the broker has said after it let us in. Errors: `BrokerError` when it does not, OSError."""
    channel.settimeout(timeout_seconds)
    username, password = login
    channel.sendall(frames.SASL_HEADER)
    received = bytearray()
    while len(received) < 8:
        _receive(channel, received)
    if received[:8] != frames.SASL_HEADER:
        raise BrokerError("the server does not speak AMQP 1.0 with a login")
    del received[:8]
    _, offered = _expect(channel, received, frames.SASL_MECHANISMS)
    mechanism = "PLAIN" if username else "ANONYMOUS"
    known = offered[0] if isinstance(offered[0], list) else [offered[0]]
    if mechanism not in known:
        raise BrokerError(f"the broker offers no login with {mechanism}: {', '.join(map(str, known))}"[:500])
    # NUL parts the fields, so it cannot be in one.
    words = f"\0{username}\0{password}".encode() if username else b""
    if words.count(b"\0") > 2:
        raise BrokerError("a username or password may not hold NUL")
    fields = (amqp.symbol(mechanism), amqp.binary(words), amqp.text(host))
    channel.sendall(frames.frame(frames.SASL_INIT, fields, kind=1))
    _, (code, *_) = _expect(channel, received, frames.SASL_OUTCOME)
    if code != 0:
        raise BrokerError("the broker refuses the login" if code == 1 else f"the broker cannot check the login: {code}")
    return bytes(received)


def _expect(channel: socket.socket, received: bytearray, performative: int) -> tuple[int, list[Any]]:
    try:
        while not (found := frames.split(received, limit=1)):
            _receive(channel, received)
    except (ValueError, TypeError) as error:
        raise BrokerError(f"the server does not speak AMQP 1.0: {error}") from None
    said, fields, _ = found[0]
    if said != performative:
        raise BrokerError("the server does not speak AMQP 1.0 with a login")
    return said, fields


def _receive(channel: socket.socket, received: bytearray) -> None:
    came = channel.recv(4096)
    if not came:
        raise BrokerError("the broker has closed the connection during the login")
    received += came
    if len(received) > _MAX_BYTES:
        raise BrokerError("the server does not speak AMQP 1.0")
