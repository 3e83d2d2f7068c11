"""The connections to one HTTP server: made to checked addresses only, kept for the next request, all closed at once.

A connection takes a request, has its answer, and takes the next request if both sides want it.
"""

import asyncio
import contextlib
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache

from yarl import URL

from poisonadmin.core.domain.ssrf import NetworkGuard
from workers.delivery.http.reader import IncomingAnswer, NotHttp
from workers.delivery.http.resolver import AddressInfo, GuardedResolver, Lookup, guarded_socket, system_lookup

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


# Below the 2 to 5 seconds after which servers commonly drop an idle connection, perhaps while we write to it.
KEEP_ALIVE_SECONDS = 1.5


class NotConnected(OSError):
    """Raised when a connection is lost before it can be used: nothing has been sent."""


class Pool:
    """The connections of one run to one server. How many there are at once is up to those who take them."""

    def __init__(
        self, url: URL, guard: NetworkGuard, lookup: Lookup = system_lookup, *, verify_tls: bool = True
    ) -> None:
        assert url.raw_host is not None
        assert url.port is not None
        self._resolver = GuardedResolver(url.raw_host, url.port, guard, lookup)
        self._socket_to = guarded_socket(guard)
        self._tls = tls_context(is_verified=verify_tls) if url.scheme == "https" else None
        self._server_name = url.raw_host.rstrip(".")
        self._open: set[HttpConnection] = set()
        self._idle: deque[HttpConnection] = deque()
        self._sweeping: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    async def take(self, *, deadline: float) -> HttpConnection:
        """Return a connection for one request, a new one unless one is idle; the caller sets the time limit.

        `deadline`: when the caller gives up, by the loop's clock. Errors: `AddressRefused`, `NameNotResolved`, OSError
        (`ssl.SSLError` among them).
        """
        oldest = self._loop.time() - KEEP_ALIVE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.idle_since > oldest and connection.is_open:
                return connection
            connection.close()
        return await self._connect(deadline)

    def give_back(self, connection: HttpConnection) -> None:
        """Keep the connection for the next request, unless its answer or the server was against it."""
        if not connection.finish():
            return
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(KEEP_ALIVE_SECONDS, self._sweep)

    async def close(self) -> None:
        """Close all connections, those in use too, and wait until they are."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._idle.clear()
        await self._resolver.close()
        gone = list(self._open)
        for connection in gone:
            connection.close()
        await asyncio.gather(*(connection.closed for connection in gone))

    async def _connect(self, deadline: float) -> HttpConnection:
        connected = await connected_socket(await self._resolver.addresses(), self._socket_to)
        try:
            _, connection = await self._loop.create_connection(
                HttpConnection,
                sock=connected,
                ssl=self._tls,
                server_hostname=None if self._tls is None else self._server_name,
                # The caller's limit is to come first, whatever asyncio's own is.
                ssl_handshake_timeout=None if self._tls is None else max(0.0, deadline - self._loop.time()) + 1.0,
            )
        except ssl.SSLError:
            raise
        except ConnectionError as error:
            raise NotConnected(error.errno, error.strerror or "the connection was lost in the TLS handshake") from error
        self._open.add(connection)
        connection.closed.add_done_callback(lambda _: self._open.discard(connection))
        return connection

    def _sweep(self) -> None:
        """Close what has been idle for too long; come again while there is something that may be."""
        oldest = self._loop.time() - KEEP_ALIVE_SECONDS
        while self._idle and (self._idle[0].idle_since <= oldest or not self._idle[0].is_open):
            self._idle.popleft().close()
        self._sweeping = None
        if self._idle:
            wait = self._idle[0].idle_since - oldest
            self._sweeping = self._loop.call_later(max(0.01, wait), self._sweep)


@lru_cache(maxsize=2)
def tls_context(*, is_verified: bool) -> ssl.SSLContext:
    """Return how TLS is spoken; reading the trusted certificates takes 20 ms, once a process."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if not is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


# How long an address is tried alone before the next one is tried beside it.
HEAD_START_SECONDS = 0.25


async def connected_socket(
    addresses: Sequence[AddressInfo], make: Callable[[AddressInfo], socket.socket]
) -> socket.socket:
    """Return a socket that is connected to one of the addresses; raise the first one's error when there is none.

    `make` returns the socket for an address, or raises.
    """
    if len(addresses) == 1:
        return await _connect(addresses[0], make)
    waiting = list(reversed(addresses))
    trying: list[asyncio.Task[socket.socket]] = []
    winner: asyncio.Task[socket.socket] | None = None
    failed: list[BaseException] = []
    try:
        while winner is None and (waiting or len(failed) < len(trying)):
            if waiting:
                trying.append(asyncio.create_task(_connect(waiting.pop(), make)))
            running = [task for task in trying if not task.done()]
            done, _ = await asyncio.wait(
                running, timeout=HEAD_START_SECONDS if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                if (error := task.exception()) is None:
                    winner = winner or task
                else:
                    failed.append(error)
        if winner is None:
            error = trying[0].exception()
            assert error is not None
            raise error
        return winner.result()
    finally:
        for task in trying:
            if task is not winner:
                task.cancel()
                task.add_done_callback(_close_unwanted)


async def _connect(to: AddressInfo, make: Callable[[AddressInfo], socket.socket]) -> socket.socket:
    made = make(to)
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, to[4])
    except BaseException:
        made.close()
        raise
    return made


def _close_unwanted(task: asyncio.Task[socket.socket]) -> None:
    """Close the socket of a try that won too late."""
    with contextlib.suppress(asyncio.CancelledError, Exception):
        task.result().close()
