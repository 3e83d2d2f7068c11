"""Refuses uploads that are too long before Django writes them to disk, which it does before any view runs."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]

MIB = 1024 * 1024
BATCH_PATH = "/api/v1/messages/batch/"
BATCH_BYTES = 1024 * MIB
API_PATH = "/api/"
API_BYTES = 128 * MIB
FORM_BYTES = 4 * MIB
# Whoever shows no credentials at all has nothing of length to say.
STRANGER_BYTES = 1 * MIB
_CREDENTIALS = frozenset({b"authorization", b"cookie"})


class _TooLong(Exception):
    """Raised out of `receive` when the body turns out longer than allowed."""


def with_upload_limit(application: Application) -> Application:
    """Return the ASGI application, answering 413 where a body is longer than its path allows."""

    async def limited(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        limit = limit_of(scope)
        if _announced_bytes(scope) > limit:
            await _refuse(scope, send, limit)
            return
        has_begun = False

        async def counting_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await application(scope, _counting(receive, limit), counting_send)
        except _TooLong:
            if not has_begun:
                await _refuse(scope, send, limit)

    return limited


def limit_of(scope: MutableMapping[str, Any]) -> int:
    """Return how many bytes the request's body may have."""
    if not _CREDENTIALS & {name for name, _ in scope["headers"]}:
        return STRANGER_BYTES
    path: str = scope["path"]
    if path == BATCH_PATH:
        return BATCH_BYTES
    return API_BYTES if path.startswith(API_PATH) else FORM_BYTES


def _announced_bytes(scope: MutableMapping[str, Any]) -> int:
    text = dict(scope["headers"]).get(b"content-length", b"")
    return int(text) if text.isdigit() else 0


def _counting(receive: Receive, limit: int) -> Receive:
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body") or b"")
        if seen > limit:
            raise _TooLong
        return message

    return counted


async def _refuse(scope: MutableMapping[str, Any], send: Send, limit: int) -> None:
    content = json.dumps(
        {
            "type": "urn:poisonadmin:problem:body_too_large",
            "title": "Content Too Large",
            "status": 413,
            "detail": f"This request's body may have at most {limit} bytes; nothing of it was taken.",
            "code": "body_too_large",
            "instance": scope["path"],
            "request_id": None,
        }
    ).encode()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(content)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": content})
