"""Checks few passwords at once: one takes 100 MiB of memory, and a database connection from its first query on."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from io import BytesIO
from typing import Any

from django.core.handlers.asgi import ASGIRequest

from poisonadmin.web.pages.logins import network_of

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]

ACCOUNTS_PATH = "/accounts/"
AT_ONCE = 4
# At work and waiting, of everybody and of one network, so that no network takes all places.
MAX_INSIDE = 20
MAX_INSIDE_EACH = 10
WAIT_SECONDS = 10.0
_BUSY = b"Too many people are logging in at this moment. Nothing was done; try again in a few seconds.\n"


def with_login_pool(application: Application) -> Application:
    """Return the ASGI application; a few forms with passwords are handled at once, the others wait or get 503."""
    at_work = asyncio.Semaphore(AT_ONCE)
    inside: Counter[str | None] = Counter()

    async def pooled(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].startswith(ACCOUNTS_PATH):
            await application(scope, receive, send)
            return
        # Whole before it takes a place, which a body that never ends would keep.
        received = [await receive()]
        while received[-1].get("more_body"):
            received.append(await receive())

        async def replayed() -> Message:
            return received.pop(0) if received else await receive()

        network = network_of(ASGIRequest(scope, BytesIO()))
        if inside.total() >= MAX_INSIDE or inside[network] >= MAX_INSIDE_EACH:
            await _refuse(send)
            return
        inside[network] += 1
        try:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await at_work.acquire()
            except TimeoutError:
                await _refuse(send)
                return
            try:
                await application(scope, replayed, send)
            finally:
                at_work.release()
        finally:
            inside[network] -= 1
            if not inside[network]:
                del inside[network]

    return pooled


async def _refuse(send: Send) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(_BUSY)), (b"retry-after", b"5")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": _BUSY})
