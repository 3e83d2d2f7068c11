"""One connection to an HTTP server: a request, its answer, and the next request if both sides want it."""

import asyncio

from workers.delivery.http.head import NotHttp
from workers.delivery.http.reader import IncomingAnswer

# A larger body goes piece by piece, so that other requests get their turn.
PIECE_BYTES = 64 * 1024
_LARGE_BYTES = 256 * 1024


class ConnectionClosed(ConnectionError):
    """Raised when the server closes the connection before it answers."""


class HttpConnection(asyncio.Protocol):
    """A connection, used by one task at a time. `idle_since`: when it last became free, by the loop's clock."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._answer: IncomingAnswer | None = None
        self._error: Exception | None = None
        self._is_paused = False
        self._is_sent = False
        self._changed: asyncio.Future[None] | None = None
        self.closed = self._loop.create_future()
        self.idle_since = 0.0

    @property
    def is_open(self) -> bool:
        """True while a request may be written to it."""
        return self._error is None and not self._transport.is_closing()

    def close(self) -> None:
        """Close it at once, whatever is under way."""
        self._transport.abort()

    async def request(self, head: bytes, payload: bytes, answer: IncomingAnswer) -> None:
        """Send a request and wait until the head of its answer is there; raise what kept it from coming.

        Errors: `NotHttp`, `ConnectionClosed`, OSError (`ssl.SSLError` among them).
        """
        self._answer = answer
        self._is_sent = False
        if len(payload) < _LARGE_BYTES:
            self._transport.write(head + payload)
            self._is_sent = True
        else:
            await self._write_pieces(head, payload)
        while answer.head is None and self._error is None:
            await self._change()
        if answer.head is None:
            assert self._error is not None
            raise self._error

    async def read(self) -> None:
        """Wait for the rest of the answer, or for as much of it as is wanted, or for its breaking off."""
        while self._answer is not None and not self._answer.is_read and self._error is None:
            await self._change()

    def finish(self) -> bool:
        """Take leave of the answer; return whether the connection may be used again. Otherwise it is closed."""
        answer, self._answer = self._answer, None
        is_sent = self._is_sent and not self._transport.get_write_buffer_size()
        if answer is not None and answer.is_clean and is_sent and self.is_open:
            return True
        self.close()
        return False

    async def _write_pieces(self, head: bytes, payload: bytes) -> None:
        """Write as fast as the server reads, until it answers or goes."""
        self._transport.write(head)
        for at in range(0, len(payload), PIECE_BYTES):
            while self._is_paused and self._awaits_answer():
                await self._change()
            if not self._awaits_answer():
                return
            self._transport.write(payload[at : at + PIECE_BYTES])
            await asyncio.sleep(0)
        self._is_sent = True

    def _awaits_answer(self) -> bool:
        return self._error is None and self._answer is not None and self._answer.head is None

    async def _change(self) -> None:
        """Wait until something has happened to the connection."""
        self._changed = self._loop.create_future()
        try:
            await self._changed
        finally:
            self._changed = None

    def _note(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take a part of the answer; what comes unasked, or cannot be read, ends the connection."""
        answer = self._answer
        if answer is None or answer.is_read or self._error is not None:
            self._error = self._error or NotHttp("something came that was not asked for")
            self.close()
            return
        try:
            answer.feed(data)
        except NotHttp as error:
            self._error = error
            self.close()
        else:
            if answer.is_read and not answer.is_clean:
                self._transport.pause_reading()
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection has gone, and why."""
        if self._answer is not None:
            self._answer.end()
        self._error = self._error or exc or ConnectionClosed("the server closed the connection")
        self._note()
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        """Note that the server does not read as fast as this writes."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Note that it has caught up."""
        self._is_paused = False
        self._note()
