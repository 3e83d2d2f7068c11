"""A client's AMQP 1.0 connection with one session: its frames in and out, its links, its end.

Nothing happens between calls: whoever uses it lets it run with `turn` or `until`. Source: AMQP 1.0, parts 2 and 5.
"""

import select
import socket
import ssl
import time
import uuid
from collections.abc import Callable
from typing import Any

from workers.brokers import amqp1_frames as frames
from workers.brokers import amqp1_values as amqp
from workers.brokers.amqp1_links import Link, LinkRefused, Receiver, Sender
from workers.brokers.amqp1_login import log_in
from workers.brokers.contract import BrokerError

_READ_BYTES = 256 * 1024
# What an unread answer may hold before it is no longer believed to be one.
_MAX_UNREAD_BYTES = 256 * 1024 * 1024
_MAX_DELIVERIES = 2**31


class Connection:
    """An open connection. After any `BrokerError` but `LinkRefused` it is closed."""

    def __init__(self, channel: socket.socket, *, host: str, login: tuple[str, str], timeout_seconds: float) -> None:
        """Log in on a connected socket and open a session. Errors: `BrokerError`; the socket is closed then."""
        self.timeout_seconds = timeout_seconds
        self.is_open = True
        self.next_delivery_id = 0
        self.max_frame_bytes = 512
        self.window = 0
        self._channel = channel
        self._out = bytearray()
        self._in = bytearray()
        self._next_outgoing_id = 0
        self._next_incoming_id = 0
        self._silence_seconds: float | None = None
        self._last_written = time.monotonic()
        self._has_session = False
        self._ended: str | None = None
        self._next_handle = 0
        self._links: dict[str, Link] = {}
        self._by_handle: dict[int, Link] = {}
        self._awaited: dict[int, Sender] = {}  # what was sent and is not answered
        try:
            self._in += log_in(channel, host, login, timeout_seconds)
            channel.setblocking(False)
            self._begin(host)
        except OSError as error:
            self._fail(f"the connection broke: {error}")
        except BrokerError:
            self.drop()
            raise

    def attach_sender(self, target: bytes) -> Sender:
        """Return a sender to a target. Errors: `LinkRefused` when there is none such; `BrokerError`."""
        link = Sender(f"to-{uuid.uuid4()}", self._new_handle())
        self._attach(link, amqp.FALSE, (frames.source(None), target), initial_count=amqp.uint(0))
        return link

    def attach_receiver(self, address: str | None, *, browses: bool = False) -> Receiver:
        """Return a receiver from a queue, or from one that the broker makes for it. Errors: as for senders."""
        link = Receiver(f"from-{uuid.uuid4()}", self._new_handle())
        ends = (frames.source(address, browses=browses, is_dynamic=address is None), frames.target(None))
        self._attach(link, amqp.TRUE, ends, initial_count=amqp.NULL)
        return link

    def send(self, link: Sender, message: bytes) -> int:
        """Put a message on its way; return its delivery id. The link must have credit. Errors: `BrokerError`."""
        number = self.next_delivery_id
        if number >= _MAX_DELIVERIES:
            self._fail("the connection has come to the end of its numbers")
        self.next_delivery_id += 1
        count, written = frames.transfer(link.handle, number, message, self.max_frame_bytes)
        self._next_outgoing_id += count
        self.window -= count
        link.credit -= 1
        link.sent_count += 1
        self._awaited[number] = link
        self._out += written
        return number

    def ask(self, link: Receiver, credit: int, *, drains: bool = False) -> None:
        """Let the broker send so many more messages in all; with `drains`, those that it has and then none."""
        link.credit, link.is_drained = credit, False
        self._out += self._flow(link, credit, drains=drains)

    def settle(self, first: int, last: int, state: bytes) -> None:
        """Say what becomes of deliveries to us."""
        self._out += frames.disposition(first, last, state)

    def answer(self, link: Sender, message: bytes, what: str) -> tuple[int, Any]:
        """Send a message, and return the broker's word on it. Errors: `LinkRefused`, `BrokerError`."""
        self.until(lambda: link.credit > 0 or link.refused is not None, what)
        link.check()
        number = self.send(link, message)
        self.until(lambda: number in link.answers or link.refused is not None, what)
        link.check()
        return link.answers.pop(number)

    def detach(self, link: Link) -> None:
        """End a link; what was given out over it and is not settled goes back."""
        self._links.pop(link.name, None)
        self._out += frames.frame(frames.DETACH, (amqp.uint(link.handle), amqp.TRUE))

    def turn(self, wait_seconds: float) -> bool:
        """Write what waits and take in what has come; return whether anything came. Errors: `BrokerError`."""
        if not self.is_open:
            raise BrokerError("the connection is closed")
        self._keep_alive()
        try:
            self._wait(wait_seconds)
            self._write()
            came = self._read()
            if came:
                for performative, fields, body in frames.split(self._in):
                    self._take(performative, fields, body)
        except (OSError, ValueError, TypeError) as error:
            self._fail(f"the connection broke: {error}")
        if self._ended is not None:
            self._fail(self._ended)
        return came

    def until(self, is_done: Callable[[], bool], what: str, seconds: float | None = None) -> None:
        """Return when it is done. Errors: `BrokerError` when that takes longer than it may."""
        deadline = time.monotonic() + (self.timeout_seconds if seconds is None else seconds)
        while not is_done():
            left = deadline - time.monotonic()
            if left <= 0:
                self._fail(f"the broker has not answered in time: {what}")
            self.turn(left)

    def close(self) -> None:
        """Say goodbye and close, without an error."""
        try:
            if self.is_open:
                self._out += frames.frame(frames.CLOSE, ())
                self.until(lambda: not self._out, "goodbye", 2)
        except BrokerError:
            pass
        self.drop()

    def drop(self) -> None:
        """Close without a word."""
        self.is_open = False
        self._channel.close()

    def _begin(self, host: str) -> None:
        name = amqp.text(f"poisonadmin-{uuid.uuid4()}")
        opening = (name, amqp.text(host), amqp.uint(frames.MAX_FRAME_BYTES), b"\x60\x00\x00")
        self._out += frames.AMQP_HEADER + frames.frame(frames.OPEN, opening)
        window = amqp.uint(frames.WINDOW)
        self._out += frames.frame(frames.BEGIN, (amqp.NULL, amqp.uint(0), window, window))
        self._expect_header()
        self.until(lambda: self._has_session, "opening a session")

    def _expect_header(self) -> None:
        deadline = time.monotonic() + self.timeout_seconds
        while len(self._in) < 8:
            if time.monotonic() > deadline:
                self._fail("the broker has not answered in time: it may not speak AMQP 1.0")
            self._wait(0.1)
            self._write()
            self._read()
        if self._in[:8] != frames.AMQP_HEADER:
            self._fail("the server does not speak AMQP 1.0")
        del self._in[:8]

    def _attach(self, link: Link, role: bytes, ends: tuple[bytes, bytes], *, initial_count: bytes) -> None:
        self._links[link.name] = link
        fields = (amqp.text(link.name), amqp.uint(link.handle), role, amqp.ubyte(0), amqp.ubyte(0), *ends)
        self._out += frames.frame(frames.ATTACH, (*fields, amqp.NULL, amqp.NULL, initial_count))
        self.until(lambda: (link.is_attached and not link.is_unwanted) or link.refused is not None, "opening a link")
        link.check()

    def _new_handle(self) -> int:
        self._next_handle += 1
        return self._next_handle - 1

    def _flow(self, link: Receiver, credit: int, *, drains: bool) -> bytes:
        session = (self._next_incoming_id, frames.WINDOW, self._next_outgoing_id, frames.WINDOW)
        own = (link.handle, link.received_count & 0xFFFFFFFF, credit)
        numbers = (amqp.uint(number) for number in (*session, *own))
        return frames.frame(frames.FLOW, (*numbers, amqp.NULL, amqp.boolean(drains)))

    def _take(self, performative: int, fields: list[Any], body: bytes) -> None:
        if performative == frames.TRANSFER:
            self._next_incoming_id = (self._next_incoming_id + 1) & 0xFFFFFFFF
            link = self._by_handle.get(fields[0])
            if isinstance(link, Receiver):
                link.take_in(fields[1], body, is_last=not fields[5], is_aborted=bool(fields[9]))
        elif performative == frames.DISPOSITION:
            self._take_disposition(fields)
        elif performative == frames.FLOW:
            self._take_flow(fields)
        elif performative == frames.ATTACH:
            self._take_attach(fields)
        elif performative == frames.DETACH:
            link = self._by_handle.pop(fields[0], None)
            if link is not None:
                condition, detail = frames.error_of(fields[2])
                link.refused = LinkRefused(detail, condition)
        elif performative == frames.OPEN:
            self.max_frame_bytes = min(fields[2] or frames.MAX_FRAME_BYTES, frames.MAX_FRAME_BYTES)
            self._silence_seconds = fields[4] / 1000 if fields[4] else None
        elif performative == frames.BEGIN:
            self._next_incoming_id, self.window = fields[1], fields[2]
            self._has_session = True
        elif performative in (frames.END, frames.CLOSE):
            self._ended = frames.error_of(fields[0])[1]

    def _take_disposition(self, fields: list[Any]) -> None:
        is_answer, first, last, _, outcome = fields[:5]
        if not is_answer or outcome is None:
            return
        last = first if last is None else last
        waiting = self._awaited
        # A broker may name more than there is.
        numbers = range(first, last + 1) if last - first < len(waiting) else [n for n in waiting if first <= n <= last]
        for number in numbers:
            if (link := waiting.pop(number, None)) is not None:
                link.answers[number] = (outcome[0], outcome[1])

    def _take_flow(self, fields: list[Any]) -> None:
        self.window = (fields[0] or 0) + fields[1] - self._next_outgoing_id
        link = self._by_handle.get(fields[4])
        if isinstance(link, Sender):
            link.credit = (fields[5] or 0) + (fields[6] or 0) - link.sent_count
        elif isinstance(link, Receiver) and fields[8]:
            link.received_count, link.credit, link.is_drained = fields[5], 0, True

    def _take_attach(self, fields: list[Any]) -> None:
        link = self._links.get(fields[0])
        if link is None:
            return
        self._by_handle[fields[1]] = link
        link.is_attached = True
        end = fields[5] if isinstance(link, Receiver) else fields[6]
        link.is_unwanted = end is None
        link.address = end[1][0] if end is not None and end[1] else None

    def _keep_alive(self) -> None:
        if self._silence_seconds is not None and time.monotonic() - self._last_written > self._silence_seconds / 2:
            self._out += frames.EMPTY

    def _wait(self, seconds: float) -> None:
        if isinstance(self._channel, ssl.SSLSocket) and self._channel.pending():
            return
        poll = select.poll()
        poll.register(self._channel, select.POLLIN | (select.POLLOUT if self._out else 0))
        poll.poll(max(seconds, 0) * 1000)

    def _write(self) -> None:
        while self._out:
            try:
                sent = self._channel.send(self._out)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            self._last_written = time.monotonic()
            del self._out[:sent]

    def _read(self) -> bool:
        try:
            came = self._channel.recv(_READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        if not came:
            self._fail("the broker has closed the connection")
        self._in += came
        if len(self._in) > _MAX_UNREAD_BYTES:
            self._fail("the broker sends frames without an end")
        return True

    def _fail(self, detail: str) -> None:
        self.drop()
        raise BrokerError(detail)
