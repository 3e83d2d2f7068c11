"""The connections to one HTTP server: made to checked addresses only, kept for the next request, all closed at once."""

import asyncio
import contextlib
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache

from poisonadmin.core.domain.ssrf import NetworkGuard
from workers.delivery.http.connection import HttpConnection
from workers.delivery.http.resolver import AddressInfo, GuardedResolver, guarded_socket

# Below the 2 to 5 seconds after which servers commonly drop an idle connection, perhaps while we write to it.
KEEP_ALIVE_SECONDS = 1.5


class NotConnected(OSError):
    """Raised when a connection is lost before it can be used: nothing has been sent."""


class Pool:
    """The connections of one run to one server. How many there are at once is up to those who take them."""

    def __init__(
        self, resolver: GuardedResolver, guard: NetworkGuard, *, tls: ssl.SSLContext | None, server_name: str
    ) -> None:
        self._resolver = resolver
        self._socket_to = guarded_socket(guard)
        self._tls = tls
        self._server_name = server_name
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
