"""The poison list of one source as server-sent events."""

import asyncio
import contextlib
import signal
import threading
import time
import weakref
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import asdict
from types import FrameType
from typing import Any, ClassVar

import psycopg
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError, connection
from django.http import StreamingHttpResponse
from rest_framework.request import Request

from poisonadmin.core.commands import authentication
from poisonadmin.core.commands.authentication import principal_of_user
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.core.domain.masking import Masks
from poisonadmin.core.queries.masking import masks_of
from poisonadmin.poison_list.queries.entries import listed_now
from poisonadmin.poison_list.queries.feed import EntryChange, Feed, Sign
from poisonadmin.web.api.authentication import SCHEME
from poisonadmin.web.api.contract import Parameter, Raw, contract, text
from poisonadmin.web.api.rendering import TakeAny, to_json
from poisonadmin.web.api.shape import JsonSchema
from poisonadmin.web.api.view import ApiView, route

MAX_STREAMS = 200
# Of one token or user, so that nobody takes the others' places.
MAX_STREAMS_EACH = MAX_STREAMS // 4
EVENT_STREAM = "text/event-stream"
_HEADERS = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
RECHECK_SECONDS = 10.0
EVENT: JsonSchema = {
    "type": "object",
    "description": "`data` is a JSON object with `source`, `bookmark`, `why`, `is_fatal`; an empty one for `loaded`.",
    "properties": {
        "event": {"type": "string", "enum": ["listed", "released", "loaded"]},
        "id": {"type": "string"},
        "data": {"type": "string"},
    },
    "required": ["event", "data"],
}
_SOURCE = text("source", "The poison source; one per stream.")
SOURCE = Parameter(_SOURCE.name, _SOURCE.parse, {**_SOURCE.schema, "maxLength": 255}, _SOURCE.about, required=True)
_feed: Feed | None = None
# A token's text; or the name of a user and the key of their session. The request itself, which a stream would keep
# alive for days together with its own response, is let go.
_Asker = str | tuple[str, str | None]


class TooManyStreams(PoisonAdminError):
    """Raised when this process has no room for another stream, or for another one of this token or user."""

    code = "too_many_streams"
    status = 503


class _Seat:
    """One of the streams that may be open, all in all and of `holder`; given back once, whoever comes first.

    `loop`: where it is being served.
    """

    _lock = threading.Lock()
    _taken: ClassVar[Counter[str]] = Counter()

    def __init__(self, holder: str) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._holder = holder
        with self._lock:
            if self._taken.total() >= MAX_STREAMS:
                raise TooManyStreams(f"{MAX_STREAMS} streams are open already; try again in a moment.")
            if self._taken[holder] >= MAX_STREAMS_EACH:
                raise TooManyStreams(
                    f"You have {MAX_STREAMS_EACH} streams open already, the most of one token or user."
                )
            self._taken[holder] += 1
            self._is_taken = True

    def give_back(self) -> None:
        with self._lock:
            self._taken.subtract({self._holder: self._is_taken})
            self._is_taken = False
            if not self._taken[self._holder]:
                del self._taken[self._holder]


class EventStream(StreamingHttpResponse):
    """Server-sent events from a generator, which is closed with the response; raise TooManyStreams.

    Django closes the outermost of the generators around it only, and leaves ours to the garbage collector when a reader
    goes away or is cut off in the middle of a write.
    """

    def __init__(self, events: AsyncGenerator[bytes, None], holder: str) -> None:
        self._seat = _Seat(holder)
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


async def _served(events: AsyncGenerator[bytes, None], seat: _Seat) -> AsyncGenerator[bytes, None]:
    seat.loop = asyncio.get_running_loop()
    try:
        async with contextlib.aclosing(events):
            async for chunk in events:
                yield chunk
    finally:
        seat.give_back()


class PoisonEvents(ApiView):
    """`/poison-list/events/`."""

    content_negotiation_class = TakeAny

    @contract(Permission.INGEST, "poison list", {200: Raw(EVENT_STREAM, EVENT)}, query=(SOURCE,))
    def get(self) -> StreamingHttpResponse:
        """Follow the poison list of a source, as server-sent events.

        First a `listed` event for each bookmark on the list, then `loaded`; from then on `listed` and `released` as it
        happens. A comment comes every ten seconds. The stream ends when the server stops or loses its database, or the
        token is revoked: connect again, and the list comes anew.
        """
        source = self.query["source"]
        if not self.principal.sees(source):
            raise NotFound(f"There is no poison source {source}.")
        masks = masks_of(self.principal).at(source)
        if not isinstance(self.request._request, ASGIRequest):  # noqa: SLF001
            # Elsewhere a stream would hold a thread: the list as it is, and the end.
            chunks = [_written([*listed_now(source)], masks), _written(Sign.LOADED, masks)]
            return StreamingHttpResponse(chunks, content_type=EVENT_STREAM, headers=_HEADERS)
        asker = _asker(self.request)
        answer = EventStream(_events(asker, source, masks), asker if isinstance(asker, str) else asker[0])
        # The stream may last for days, and the pool's connection is others' meanwhile.
        connection.close()
        return answer


async def _events(asker: _Asker, source: str, masks: Masks) -> AsyncGenerator[bytes]:
    checked_at = time.monotonic()
    # The headers are on their way only with the first bytes.
    yield b": the poison list\n\n"
    with contextlib.suppress(psycopg.OperationalError, DatabaseError):
        async with contextlib.aclosing(_feed_of_this_process().follow(source)) as followed:
            async for one in followed:
                if one is not Sign.REVOKED:
                    yield _written(one, masks)
                if one is Sign.REVOKED or time.monotonic() - checked_at >= RECHECK_SECONDS:
                    checked_at = time.monotonic()
                    still = await sync_to_async(_masks_now, thread_sensitive=False)(asker, source)
                    if still is None:
                        return
                    masks = still


def _written(one: list[EntryChange] | Sign, masks: Masks) -> bytes:
    if one is Sign.QUIET:
        return b": quiet\n\n"
    if isinstance(one, Sign):
        return b"event: loaded\ndata: {}\n\n"
    return b"".join(_event(masks.row(entry)) for entry in one)


def _event(entry: EntryChange) -> bytes:
    kind = b"listed" if entry.is_listed else b"released"
    # JSON has no line breaks of its own, so it is one line of the stream.
    content = to_json(asdict(entry) | {"id": str(entry.id)})
    return b"event: %s\nid: %d\ndata: %s\n\n" % (kind, entry.change, content)


def _asker(request: Request) -> _Asker:
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == SCHEME:
        return text.strip()
    return request.user.get_username(), request.session.session_key


def _masks_now(asker: _Asker, source: str) -> Masks | None:
    """Return what is masked for who opened the stream, None when he may read it no more; ask the database for it."""
    try:
        principal = _principal_now(asker)
        if principal is None or not principal.may(Permission.INGEST) or not principal.sees(source):
            return None
        return masks_of(principal).at(source)
    except DatabaseError:
        return None
    finally:
        connection.close()


def _principal_now(asker: _Asker) -> Principal | None:
    if isinstance(asker, str):
        found = authentication.authenticate(asker)
        return found[1] if found else None
    name, session_key = asker
    if session_key is None or not SessionStore().exists(session_key):
        return None
    user = User.objects.filter(username=name).first()
    return principal_of_user(user) if user else None


def _feed_of_this_process() -> Feed:
    global _feed
    if _feed is None:
        _feed = Feed()
        _end_with_the_process(_feed)
    return _feed


def _end_with_the_process(feed: Feed) -> None:
    """End the streams when the process is told to stop: the server would wait for them first."""
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        then = signal.getsignal(number)
        if not callable(then):
            continue

        def stop(signum: int, frame: FrameType | None, then: Any = then) -> None:
            loop.call_soon_threadsafe(feed.end)
            then(signum, frame)

        signal.signal(number, stop)


urlpatterns = [
    route("poison-list/events/", PoisonEvents, name="api-poison-events"),
]
