"""A STOMP 1.2 connection over stomp.py, for one thread: incoming frames wait until they are asked for.

stomp.py reads in a thread of its own. The socket is ours, so that the guard has checked where it leads.
"""

import queue
import selectors
import socket
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from threading import Condition
from typing import Any

import stomp
from stomp.connect import BaseConnection
from stomp.exception import StompException
from stomp.protocol import Protocol12
from stomp.transport import Transport
from stomp.utils import Frame, PollableQueue, convert_frame, pack

from poisonadmin.brokers.domain.broker_kinds import ARTEMIS
from poisonadmin.messages.domain.envelope_fields import storable
from workers.brokers.connect import broker_url, open_socket
from workers.brokers.contract import BrokerError, Login

ANSWER_SECONDS = 30.0
_READ_BYTES = 64 * 1024
_GOODBYE_SECONDS = 2.0


class StompConnection:
    """An open connection. After any `BrokerError` it is closed."""

    def __init__(self, login: Login, *, timeout_seconds: float = ANSWER_SECONDS) -> None:
        """Connect and log in. Errors: `BrokerError`."""
        self.timeout_seconds = timeout_seconds
        self.arrived: dict[str, deque[Frame]] = defaultdict(deque)  # by subscription
        self.receipts: set[str] = set()
        self.refused: str | None = None  # the receipt of the frame that the broker closed the connection on
        self._failure: str | None = None
        self._is_connected = False
        self._changed = Condition()
        self._numbers = 0
        where = broker_url(ARTEMIS, login)
        self._transport = _Channel(where.hosts[0], with_tls=where.is_encrypted, verify_tls=login.verifies_tls)
        self._transport.set_listener("", _Listener(self))
        try:
            self._transport.start()
            _Client(self._transport).connect(login.username or None, login.password or None)
            self.until(lambda: self._is_connected, "the login")
        except (StompException, OSError) as error:
            self._fail(f"the connection broke: {error}")

    @property
    def is_open(self) -> bool:
        """True while nothing has gone wrong as far as is known."""
        return self._failure is None

    def number(self) -> str:
        """Return a text that no other call on this connection returns."""
        self._numbers += 1
        return str(self._numbers)

    def send(self, frames: Iterable[tuple[str, Mapping[str, str], bytes]]) -> None:
        """Write frames: command, headers, body. Errors: `BrokerError`."""
        if self._failure is not None:
            self._fail(self._failure)
        try:
            self._transport.write(b"".join(frame_bytes(*frame) for frame in frames))
        except (StompException, OSError, AttributeError) as error:
            # stomp.py takes its socket away when the connection ends.
            self._fail(self._failure or f"the connection broke: {error}")

    def settle(self, command: str, headers: Mapping[str, str], what: str) -> None:
        """Write a frame, and return when the broker has worked on it. Errors: `BrokerError`."""
        receipt = f"done-{self.number()}"
        self.send([(command, {**headers, "receipt": receipt}, b"")])
        self.until(lambda: receipt in self.receipts, what)
        self.receipts.discard(receipt)

    def until(self, is_done: Callable[[], bool], what: str) -> None:
        """Return when it is done. Errors: `BrokerError`, also when that takes longer than it may."""
        if not self.wait(is_done, self.timeout_seconds):
            self._fail(f"the broker has not answered in time: {what}")

    def wait(self, is_done: Callable[[], bool], seconds: float) -> bool:
        """Return whether it is done, when it is or the time is over. Errors: `BrokerError`."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not is_done():
                left = deadline - time.monotonic()
                if self._failure is None and left > 0:
                    self._changed.wait(left)
                elif self._failure is None:
                    return False
                else:
                    break
            else:
                return True
        return self._fail(self._failure or "the connection is closed")

    def close(self) -> None:
        """Say goodbye and close, without an error."""
        if self._failure is None:
            timeout, self.timeout_seconds = self.timeout_seconds, _GOODBYE_SECONDS
            try:
                self.settle("DISCONNECT", {}, "goodbye")
            except BrokerError:
                pass
            finally:
                self.timeout_seconds = timeout
        self.drop()

    def drop(self) -> None:
        """Close at once, without a goodbye."""
        self._failure = self._failure or "the connection is closed"
        self._transport.end()

    def take_in(self, change: Callable[[], None]) -> None:
        """Let a change be seen by who waits; called by the thread that reads."""
        with self._changed:
            change()
            self._changed.notify_all()

    def note_connected(self) -> None:
        """Remember that the broker has let us in."""
        self._is_connected = True

    def note_failure(self, why: str) -> None:
        """Remember why nothing more will come; the first reason counts."""
        self._failure = self._failure or why

    def _fail(self, why: str) -> bool:
        self.drop()
        raise BrokerError(why)


def frame_bytes(command: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """Return a frame; no header can end its line, or the frame.

    stomp.py escapes values alone, and NUL not at all.
    """
    safe = {_escaped(name): _escaped(value) for name, value in headers.items()}
    return bytes(pack(convert_frame(Frame(command, safe, body))))


def _escaped(text: str) -> str:
    if text.isalnum():
        return text
    text = storable(text).replace("\\", "\\\\")
    return text.replace("\n", "\\n").replace("\r", "\\r").replace(":", "\\c")


class _Client(BaseConnection, Protocol12):  # type: ignore[misc]
    """stomp.py's client on a transport of ours."""

    def __init__(self, transport: "_Channel") -> None:
        BaseConnection.__init__(self, transport)
        # Bytes are told from a text by their header content-length.
        Protocol12.__init__(self, transport, auto_content_length=False)


class _Listener(stomp.ConnectionListener):  # type: ignore[misc]
    """Sorts what comes in."""

    def __init__(self, connection: StompConnection) -> None:
        self._connection = connection

    def on_connected(self, _frame: Frame) -> None:
        self._connection.take_in(self._connection.note_connected)

    def on_message(self, frame: Frame) -> None:
        waiting = self._connection.arrived[frame.headers.get("subscription", "")]
        self._connection.take_in(lambda: waiting.append(frame))

    def on_receipt(self, frame: Frame) -> None:
        self._connection.take_in(lambda: self._connection.receipts.add(frame.headers.get("receipt-id", "")))

    def on_error(self, frame: Frame) -> None:
        why = frame.headers.get("message") or bytes(frame.body or b"").decode("utf-8", "replace") or "no reason given"
        self._connection.refused = frame.headers.get("receipt-id")
        self._connection.take_in(lambda: self._connection.note_failure(f"the broker refuses: {why[:500]}"))

    def on_disconnected(self) -> None:
        self._connection.take_in(lambda: self._connection.note_failure("the broker has closed the connection"))


class _Channel(Transport):  # type: ignore[misc]
    """stomp.py's transport on a socket that the guard has let through."""

    def __init__(self, host_and_port: tuple[str, int], *, with_tls: bool, verify_tls: bool) -> None:
        super().__init__([host_and_port], auto_decode=False, recv_bytes=_READ_BYTES, vhost=host_and_port[0])
        self._place = host_and_port
        self._with_tls, self._verify_tls = with_tls, verify_tls

    def attempt_connection(self) -> None:
        """Connect once. Errors: `BrokerError`."""
        host, port = self._place
        channel = open_socket(host, port, with_tls=self._with_tls, verify_tls=self._verify_tls)
        self.socket, self.current_host_and_port = channel, self._place
        if self._with_tls:
            # Reading and writing at once is nothing that TLS sockets can do: one thread does both.
            self.send_queue = PollableQueue()
            self.sel = selectors.DefaultSelector()
            self.sel.register(self.send_queue, selectors.EVENT_READ)
            self.sel.register(channel, selectors.EVENT_READ)
            self.blocking = False
        channel.settimeout(None)
        channel.setblocking(self.blocking)

    def write(self, raw: bytes) -> None:
        """Write many frames at once."""
        if self.blocking:
            self.send(raw)
        elif self.send_queue is not None:
            self.send_queue.put(raw)

    def end(self) -> None:
        """Close the socket; the thread that reads notices."""
        self.running = False
        channel: Any = self.socket
        try:
            if channel is not None:
                channel.shutdown(socket.SHUT_RDWR)
        except (OSError, queue.Empty):
            pass
        if self.io_thread is None and channel is not None:
            channel.close()
