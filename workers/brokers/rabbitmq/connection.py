"""One AMQP 0-9-1 connection with one channel, over a blocking socket.

Methods are written and read by pika's codec, but for those that come with every message: pika's own connections take
about 100 microseconds a message, reading whole buffers at once takes a tenth of that.
"""

import contextlib
import struct
import time
from collections import deque
from typing import Any

from pika import frame, spec
from pika.exceptions import AMQPError

from poisonadmin.brokers.domain.broker_kinds import RABBITMQ
from workers.brokers.connect import CONNECT_SECONDS, broker_url, open_socket
from workers.brokers.contract import BrokerError, Login

CHANNEL = 1
ANSWER_SECONDS = 10.0
_CHUNK_BYTES = 256 * 1024
_HEARTBEAT_SECONDS = 60
_FRAME_BYTES = 131072
FRAME = struct.Struct(">BHI")
FRAME_END = b"\xce"
FRAME_OVERHEAD = 8
_METHOD, _HEADER, _BODY = 1, 2, 3
_DELIVER, _GET_OK, _RETURN = 0x003C003C, 0x003C0047, 0x003C0032
_ACK, _NACK = 0x003C0050, 0x003C0078
# The broker is shut down, or has failed itself.
_ENDING = frozenset({200, 320, 541})
_CONTENT = frozenset({_DELIVER, _GET_OK, _RETURN})
_HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
_PROPERTIES = {
    "product": "PoisonAdmin",
    "capabilities": {
        "authentication_failure_close": True,
        "basic.nack": True,
        "connection.blocked": True,
        "consumer_cancel_notify": True,
        "publisher_confirms": True,
    },
}

Arrived = tuple[bytes, bytes, bytes]
"""A message with content: its method's arguments, its content header, its body."""


class RefusedByBroker(BrokerError):
    """Raised when the broker closed the channel, or the connection, because of what it was sent."""


class AmqpConnection:
    """Open when made; closed for good after any `BrokerError`.

    `arrived`, `returned` and `confirmed` (delivery tag, multiple, is it an ack) fill while frames are read.
    `blocked`: why the broker takes nothing at present, None when it does.
    """

    def __init__(self, login: Login, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        where = broker_url(RABBITMQ, login)
        host, port = where.hosts[0]
        self.arrived: deque[Arrived] = deque()
        self.returned: deque[Arrived] = deque()
        self.confirmed: deque[tuple[int, bool, bool]] = deque()
        self.blocked: str | None = None
        self.frame_bytes = _FRAME_BYTES
        self._answer_seconds = max(0.1, min(answer_seconds, ANSWER_SECONDS))
        self._place = f"{host}:{port}"
        self._answers: deque[Any] = deque()
        self._read = b""
        self._content: tuple[int, bytes] = (0, b"")
        self._header = b""
        self._body: list[bytes] = []
        self._body_left = 0
        self._written_at = time.monotonic()
        self._socket = open_socket(host, port, with_tls=where.is_encrypted, verify_tls=login.verifies_tls)
        try:
            self._shake_hands(login, where.virtual_host)
        except BaseException:
            self.drop()
            raise

    def call(self, method: Any, answer: type | None = None) -> Any:
        """Send a method and return its answer, None where none is awaited. Errors: `BrokerError`."""
        self._send_method(CHANNEL, method)
        return self._answer(answer) if answer else None

    def send(self, frames: bytes) -> None:
        """Write whole frames. Errors: `BrokerError`; the broker may have some of them."""
        try:
            self._socket.sendall(frames)
        except OSError as error:
            raise self._lost(error) from None
        self._written_at = time.monotonic()

    def fill(self, wait_seconds: float) -> bool:
        """Read what comes within the time, and sort it; return whether anything came. Errors: `BrokerError`."""
        self._send_heartbeat()
        self._socket.settimeout(max(wait_seconds, 0.0001))
        try:
            chunk = self._socket.recv(_CHUNK_BYTES)
        except TimeoutError:
            return False
        except OSError as error:
            raise self._lost(error) from None
        finally:
            with contextlib.suppress(OSError):
                self._socket.settimeout(CONNECT_SECONDS)
        if not chunk:
            raise self._lost("the broker closed the connection")
        self._read = self._read + chunk if self._read else chunk
        self._sort()
        return True

    def answer(self, kind: type) -> Any | None:
        """Return an answer of this kind that has come, None where there is none yet."""
        for place, one in enumerate(self._answers):
            if isinstance(one, kind):
                del self._answers[place]
                return one
        return None

    def is_alive(self) -> bool:
        """Return whether it is open, as far as can be seen; what has come meanwhile is sorted."""
        try:
            while self.fill(0.0):
                pass
        except BrokerError:
            return False
        return True

    def set_timeout(self, seconds: float) -> None:
        """Let a write take so long at most."""
        with contextlib.suppress(OSError):
            self._socket.settimeout(max(seconds, 0.001))

    def close(self) -> None:
        """Say goodbye and close, without an error."""
        with contextlib.suppress(BrokerError, OSError, AMQPError):
            self._send_method(0, spec.Connection.Close(200, "", 0, 0))
            self._answer(spec.Connection.CloseOk, seconds=2.0)
        self.drop()

    def drop(self) -> None:
        """Close at once, without a goodbye."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def _shake_hands(self, login: Login, virtual_host: str) -> None:
        self.send(b"AMQP\x00\x00\x09\x01")
        self._answer(spec.Connection.Start)
        username, password = credentials(login)
        secret = f"\0{username}\0{password}".encode()
        self._send_method(0, spec.Connection.StartOk(_PROPERTIES, "PLAIN", secret, "en_US"))
        tune = self._answer(spec.Connection.Tune)
        self.frame_bytes = min(tune.frame_max or _FRAME_BYTES, _FRAME_BYTES)
        self._send_method(0, spec.Connection.TuneOk(tune.channel_max, self.frame_bytes, _HEARTBEAT_SECONDS))
        self._send_method(0, spec.Connection.Open(virtual_host))
        self._answer(spec.Connection.OpenOk)
        self.call(spec.Channel.Open(), spec.Channel.OpenOk)

    def _send_method(self, channel: int, method: Any) -> None:
        self.send(frame.Method(channel, method).marshal())

    def _answer(self, kind: type, seconds: float | None = None) -> Any:
        seconds = self._answer_seconds if seconds is None else seconds
        deadline = time.monotonic() + seconds
        while (found := self.answer(kind)) is None:
            if time.monotonic() >= deadline:
                raise self._lost(f"no answer within {seconds:.1f} s")
            self.fill(deadline - time.monotonic())
        return found

    def _send_heartbeat(self) -> None:
        if time.monotonic() - self._written_at > _HEARTBEAT_SECONDS / 3:
            self.send(_HEARTBEAT)

    def _sort(self) -> None:
        """Take the whole frames out of what was read."""
        data, place, size = self._read, 0, len(self._read)
        while size - place >= FRAME_OVERHEAD:
            kind, channel, length = FRAME.unpack_from(data, place)
            start = place + 7
            end = start + length
            if end >= size:
                if length > self.frame_bytes:
                    raise self._lost("it does not speak AMQP 0-9-1")
                break
            if data[end] != FRAME_END[0]:
                raise self._lost("it does not speak AMQP 0-9-1")
            if kind == _BODY:
                self._body.append(data[start:end])
                self._body_left -= length
                if self._body_left <= 0:
                    self._complete()
            elif kind == _HEADER:
                self._header = data[start:end]
                self._body_left = int.from_bytes(data[start + 4 : start + 12])
                if not self._body_left:
                    self._complete()
            elif kind == _METHOD:
                method = int.from_bytes(data[start : start + 4])
                if channel and method in _CONTENT:
                    self._content = (method, data[start + 4 : end])
                elif channel and method in (_ACK, _NACK):
                    flags = data[start + 12]
                    self.confirmed.append(
                        (int.from_bytes(data[start + 4 : start + 12]), bool(flags & 1), method == _ACK)
                    )
                else:
                    self._take_method(data[place : end + 1])
            place = end + 1
        self._read = data[place:]

    def _complete(self) -> None:
        method, arguments = self._content
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        (self.returned if method == _RETURN else self.arrived).append((arguments, self._header, body))
        self._body = []

    def _take_method(self, raw: bytes) -> None:
        try:
            _, found = frame.decode_frame(raw)
        except (AMQPError, ValueError, KeyError, IndexError, struct.error):
            raise self._lost("it does not speak AMQP 0-9-1") from None
        method = getattr(found, "method", None)
        if isinstance(method, spec.Connection.Close | spec.Channel.Close):
            is_ending = method.reply_code in _ENDING
            raise self._lost(method.reply_text, kind=BrokerError if is_ending else RefusedByBroker)
        if isinstance(method, spec.Basic.Cancel):
            raise self._lost("the queue is gone")
        if isinstance(method, spec.Connection.Blocked):
            self.blocked = str(method.reason)
        elif isinstance(method, spec.Connection.Unblocked):
            self.blocked = None
        elif method is not None:
            self._answers.append(method)

    def _lost(self, why: object, kind: type[BrokerError] = BrokerError) -> BrokerError:
        self.drop()
        detail = str(why)
        if isinstance(why, OSError):
            detail = why.strerror or type(why).__name__
        return kind(f"{self._place}: {detail}"[:500])


def credentials(login: Login) -> tuple[str, str]:
    """Return user and password: RabbitMQ's own where none are configured."""
    return login.username or "guest", login.password or "guest"
