"""An answer that goes on for days: how many there may be, and how one ends for good."""

import asyncio
import contextlib
import threading
import weakref
from collections.abc import AsyncGenerator, Iterator

from django.http import StreamingHttpResponse

from poisonadmin.core.domain.errors import PoisonAdminError

MAX_STREAMS = 200
EVENT_STREAM = "text/event-stream"


class TooManyStreams(PoisonAdminError):
    """Raised when this process has no room for another stream."""

    code = "too_many_streams"
    status = 503


class _Seat:
    """One of the streams that may be open; given back once, whoever comes first. `loop`: where it is being served."""

    _lock = threading.Lock()
    _taken = 0

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        with self._lock:
            if _Seat._taken >= MAX_STREAMS:
                raise TooManyStreams(f"{MAX_STREAMS} streams are open already; try again in a moment.")
            _Seat._taken += 1
            self._is_taken = True

    def give_back(self) -> None:
        with self._lock:
            _Seat._taken -= self._is_taken
            self._is_taken = False


class EventStream(StreamingHttpResponse):
    """Server-sent events from a generator, which is closed with the response; raise TooManyStreams.

    Django closes the outermost of the generators around it only, and leaves ours to the garbage collector when a reader
    goes away or is cut off in the middle of a write.
    """

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        self._seat = _Seat()
        self._served = _served(events, self._seat)
        # For the one that never comes to be served.
        weakref.finalize(self, self._seat.give_back)
        super().__init__(self._served, content_type=EVENT_STREAM, headers=_HEADERS)

    def close(self) -> None:
        """End the stream, from whatever thread."""
        super().close()
        self._seat.give_back()
        if (loop := self._seat.loop) is not None:
            asyncio.run_coroutine_threadsafe(self._served.aclose(), loop)


def finite_event_stream(events: Iterator[bytes]) -> StreamingHttpResponse:
    """Return a stream that comes to its end by itself."""
    return StreamingHttpResponse(events, content_type=EVENT_STREAM, headers=_HEADERS)


_HEADERS = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}


async def _served(events: AsyncGenerator[bytes, None], seat: _Seat) -> AsyncGenerator[bytes, None]:
    seat.loop = asyncio.get_running_loop()
    try:
        async with contextlib.aclosing(events):
            async for chunk in events:
                yield chunk
    finally:
        seat.give_back()
