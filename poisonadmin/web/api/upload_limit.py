"""Bounds what a request's body may cost before a view runs: its length, its time, its sender, its like at once.

Django reads a body to its end before any view runs, and writes one of more than `FILE_UPLOAD_MAX_MEMORY_SIZE` to disk.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import connection
from rest_framework.exceptions import AuthenticationFailed

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.messages.domain.envelope_fields import LIMITS
from poisonadmin.web.api.authentication import sender_of
from poisonadmin.web.api.connections import IS_KNOWN
from poisonadmin.web.api.problems import problem_of
from poisonadmin.web.api.rendering import BODY_BYTES, BodyTooLarge

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]

KIB = 1024
MIB = 1024 * KIB
BATCH_PATH = "/api/v1/messages/batch/"
# Intake alone takes more than `BODY_BYTES`.
INTAKE_BYTES = {"/api/v1/messages/": LIMITS.line_bytes, BATCH_PATH: 1024 * MIB}
# Whoever shows no credentials has nothing of length to say; whoever shows some is looked up for more than this.
STRANGER_BYTES = 64 * KIB
_CREDENTIALS = frozenset({b"authorization", b"cookie"})

# Uploads at once of one token or user, of bodies that go to disk.
MAX_UPLOADS = 4
# A body may pause for so long, and as a whole takes so long and a second more for each so many bytes.
PAUSE_SECONDS = 15.0
BODY_SECONDS = 25.0
BYTES_A_SECOND = 8 * KIB
# For so long, what comes after a refusal is thrown away.
LINGER_SECONDS = 2.0

# Few, so that senders who are looked up leave connections to the database for those who were.
_lookups = ThreadPoolExecutor(4, thread_name_prefix="sender")


class BodyTooSlow(PoisonAdminError):
    """Raised when a request body pauses for too long, or takes too long as a whole."""

    code = "body_too_slow"
    status = 408


class TwoLengths(PoisonAdminError):
    """Raised when a request says in two ways where its body ends: a proxy may read on where this process does not."""

    code = "two_lengths"


class TooManyUploads(PoisonAdminError):
    """Raised when a token or user has too many uploads under way in this process."""

    code = "too_many_uploads"
    status = 429


def with_upload_limit(application: Application) -> Application:
    """Return the ASGI application; a body that it is not to have is answered with a problem and read no further."""
    uploads: Counter[str] = Counter()

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        body = _Body(scope, receive, uploads)
        has_begun = False

        async def watched_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await body.begin()
            await application(scope, body.receive, watched_send)
        except Exception as error:
            if has_begun or error is not body.refusal:
                raise
            await _refuse(scope, receive, send, error)
        finally:
            body.end()

    return limited


def limit_of(scope: Scope) -> int:
    """Return how many bytes the request's body may have."""
    if not _CREDENTIALS & {name for name, _ in scope["headers"]}:
        return STRANGER_BYTES
    return INTAKE_BYTES.get(scope["path"], BODY_BYTES)


class _Body:
    """The body of one request. `refusal`: why it is read no further."""

    def __init__(self, scope: Scope, receive: Receive, uploads: Counter[str]) -> None:
        self.refusal: Exception | None = None
        self._scope = scope
        self._receive = receive
        self._limit = limit_of(scope)
        self._uploads = uploads
        self._sender: str | None = None
        self._is_upload = False
        self._is_complete = False
        self._seen = 0
        self._began_at = asyncio.get_running_loop().time()

    async def begin(self) -> None:
        """Return when the sender may send as many bytes as it announces; raise why not."""
        named = dict(self._scope["headers"])
        if b"content-length" in named and b"transfer-encoding" in named:
            self.refusal = TwoLengths("Content-Length and Transfer-Encoding are both given; nothing was taken.")
            raise self.refusal
        length = named.get(b"content-length", b"")
        await self.admit(int(length) if length.isdigit() else 0)

    async def admit(self, size: int) -> None:
        """Return when the sender may send so many bytes; raise why not."""
        try:
            if size > self._limit:
                raise BodyTooLarge(
                    f"This request's body may have at most {self._limit} bytes; nothing of it was taken."
                )
            if size > STRANGER_BYTES and self._sender is None:
                self._sender = await _sender(self._scope)
                self._scope[IS_KNOWN] = True
            if size > settings.FILE_UPLOAD_MAX_MEMORY_SIZE and not self._is_upload:
                self._begin_upload()
        except Exception as error:
            self.refusal = error
            raise

    def _begin_upload(self) -> None:
        assert self._sender is not None
        if self._uploads[self._sender] >= MAX_UPLOADS:
            raise TooManyUploads(f"{MAX_UPLOADS} uploads are under way already; nothing of this one was taken.")
        self._uploads[self._sender] += 1
        self._is_upload = True

    def end(self) -> None:
        """Let the sender begin another upload: what Django wrote to disk is gone with the request."""
        if self._is_upload:
            assert self._sender is not None
            self._uploads[self._sender] -= 1
            self._uploads += Counter()  # keeps what is above 0

    async def receive(self) -> Message:
        """Return the next event; raise why the body is read no further."""
        if self._is_complete:
            return await self._receive()
        try:
            async with asyncio.timeout(self._patience()):
                message = await self._receive()
        except TimeoutError:
            self.refusal = BodyTooSlow("The body did not arrive in time; nothing of it was taken.")
            raise self.refusal from None
        self._seen += len(message.get("body") or b"")
        self._is_complete = not message.get("more_body")
        await self.admit(self._seen)
        return message

    def _patience(self) -> float:
        """Return how many seconds the next piece may take."""
        allowed = self._began_at + BODY_SECONDS + self._seen / BYTES_A_SECOND
        return min(PAUSE_SECONDS, allowed - asyncio.get_running_loop().time())


async def _sender(scope: Scope) -> str:
    """Return who sends; raise AuthenticationFailed, NotAllowed, and what a database that does not answer raises."""
    found = await asyncio.get_running_loop().run_in_executor(_lookups, _looked_up, scope)
    if found is None:
        raise AuthenticationFailed("This token or session is unknown, expired or revoked; nothing was taken.")
    sender, principal = found
    if scope["path"] == BATCH_PATH:
        principal.require(Permission.INGEST)
    return sender


def _looked_up(scope: Scope) -> tuple[str, Principal] | None:
    try:
        return sender_of(ASGIRequest(scope, BytesIO()))
    finally:
        connection.close()


async def _refuse(scope: Scope, receive: Receive, send: Send, error: Exception) -> None:
    answer = problem_of(ASGIRequest(scope, BytesIO()), error)
    headers = [*answer.headers.items(), ("Connection", "close"), ("Content-Length", str(len(answer.content)))]
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": raw})
    await send({"type": "http.response.body", "body": answer.content, "more_body": True})
    # Closed at once, a connection on which the sender still sends would be reset, and the answer lost.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while (await receive()).get("more_body"):
                pass
    await send({"type": "http.response.body", "body": b""})
