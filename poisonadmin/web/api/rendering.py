"""JSON in and out: read strictly, written quickly."""

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

import orjson
from django.http import HttpRequest
from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from poisonadmin.core.domain import strict_json
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.strict_json import InvalidJson

ACCEPTED = frozenset({"*/*", "application/*", "application/json", "application/problem+json"})
MAX_ACCEPTED = 64
# Of any request but for intake.
BODY_BYTES = 1024 * 1024
CHUNK_BYTES = 256 * 1024


class BodyTooLarge(PoisonAdminError):
    """Raised when a request body is longer than any valid request."""

    code = "body_too_large"
    status = 413


class JsonRenderer(BaseRenderer):
    """Writes JSON with times in UTC."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Return the bytes; nothing for no content."""
        return b"" if data is None else to_json(data)


def to_json(content: Any) -> bytes:
    """Return `content` as JSON. What the strict writer refuses (an integer beyond 64 bits) the lenient one takes."""
    try:
        return orjson.dumps(content, option=orjson.OPT_UTC_Z)
    except TypeError:
        return json.dumps(content, default=str).encode()


class JsonParser(BaseParser):
    """Reads one JSON value strictly, and refuses texts that the database could not hold."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the value; raise InvalidJson, BodyTooLarge."""
        value = strict_json.loads(_read_body(stream))
        if (place := _unstorable(value)) is not None:
            where = ".".join(place)[:80] or "The body"
            raise InvalidJson("invalid_unicode", f"{where} holds NUL or a lone surrogate, which cannot be stored.")
        return value


def _read_body(stream: IO[bytes]) -> bytes:
    """Return the whole body; raise BodyTooLarge."""
    raw = stream.read(BODY_BYTES + 1)
    if len(raw) > BODY_BYTES:
        raise BodyTooLarge(f"A request body may have at most {BODY_BYTES} bytes.")
    return raw


def _unstorable(value: Any) -> list[str] | None:
    """Return the path to the first value with a text that the database could not hold, None where there is none."""
    if isinstance(value, str):
        is_odd = "\x00" in value or (not value.isascii() and any("\ud800" <= one <= "\udfff" for one in value))
        return [] if is_odd else None
    if isinstance(value, dict):
        if any(_unstorable(key) is not None for key in value):
            return []
        pairs: Iterable[tuple[Any, Any]] = value.items()
    else:
        pairs = enumerate(value) if isinstance(value, list) else ()
    return next(([str(key), *found] for key, item in pairs if (found := _unstorable(item)) is not None), None)


class Negotiation(DefaultContentNegotiation):
    """Goes by the Accept header only: `?format=` is a parameter like any other, and unknown."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        """Return the renderer and its media type; raise NotAcceptable."""
        for item in request.META.get("HTTP_ACCEPT", "*/*").split(",")[:MAX_ACCEPTED]:
            if item.split(";")[0].strip().lower() in ACCEPTED:
                return renderers[0], renderers[0].media_type
        raise NotAcceptable


class TakeAny(DefaultContentNegotiation):
    """For views that answer with bytes of their own: whatever the client accepts, errors are JSON."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        """Return the first renderer."""
        return renderers[0], renderers[0].media_type


def file_of(request: HttpRequest) -> IO[bytes]:
    """Return the body as a file at its beginning, which can be read again. Nothing else may have read it.

    Under ASGI Django has written a long body to a file already. Django's test client gives a stream that can be read
    once; that is copied into memory.
    """
    stream = request._stream  # noqa: SLF001
    if not stream.seekable():
        stream = request._stream = io.BytesIO(stream.read())  # noqa: SLF001
    stream.seek(0)
    return stream


def chunks_of(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the rest of the file, a quarter of a megabyte at a time."""
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def digest_of(file: IO[bytes]) -> str:
    """Return the SHA-256 of the file, hex, and leave it at its beginning."""
    digest = hashlib.sha256()
    for chunk in chunks_of(file):
        digest.update(chunk)
    file.seek(0)
    return digest.hexdigest()
