"""Connections of the web process: bounded in number, and cut off where they ask for nothing or take nothing.

uvicorn bounds idle connections between requests, and the size of a header, but not how long a header takes. Its
`--limit-concurrency` answers everybody with 503 while half-open connections fill it.
"""

import asyncio
import socket
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 512
HEADER_SECONDS = 10.0
# A client that takes nothing of an answer for so long is gone.
UNREAD_SECONDS = 60
# Set in the scope of a request whose sender was looked up and found.
IS_KNOWN = "poisonadmin.is_known"


class Connection(H11Protocol):
    """One connection. Where there are too many, the oldest ends of those whose request is not there yet."""

    max_connections: ClassVar[int] = MAX_CONNECTIONS
    header_seconds: ClassVar[float] = HEADER_SECONDS

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.opened_at = self.loop.time()
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request; end a connection where there are too many."""
        super().connection_made(transport)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            peer = transport.get_extra_info("socket")
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_SECONDS * 1000)
        self._wait_for_header()
        there = [one for one in self.connections if isinstance(one, Connection) and not one.transport.is_closing()]
        if len(there) > self.max_connections:
            min(filter(Connection.is_waited_for, there), key=lambda one: one.opened_at).transport.abort()

    def data_received(self, data: bytes) -> None:
        """Go on; after a piece of the next request's header, wait for its rest."""
        super().data_received(data)
        self._wait_for_header()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._cancel()

    def is_waited_for(self) -> bool:
        """True while its request is not there yet: no header, or no whole body of a sender whom nobody knows."""
        return self._has_no_request or (self.cycle.more_body and IS_KNOWN not in self.scope)

    @property
    def _has_no_request(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait_for_header(self) -> None:
        if not self._has_no_request:
            self._cancel()
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(self.header_seconds, self._cut_off)

    def _cancel(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _cut_off(self) -> None:
        if self._has_no_request:
            self.transport.abort()
