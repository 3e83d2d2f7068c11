"""Downloads: what strangers wrote, sent so that no browser shows it or guesses what it is."""

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from poisonadmin.core.queries.rows import SLICE_BYTES, StoredBytes

CSV = "text/csv; charset=utf-8; header=present"


def attachment(request: Request, content: StoredBytes, name: str) -> HttpResponseBase:
    """Return a download; of what is longer than a slice only a slice is in memory at a time."""
    response = _response(request, content)
    response["Content-Type"] = "application/octet-stream"
    response["Content-Length"] = str(content.size_bytes)
    return _hidden(response, name)


def csv_attachment(request: Request, chunks: Iterator[bytes], name: str) -> HttpResponseBase:
    """Return a download of lines that are made while it is sent."""
    response = HttpResponse() if request.method == "HEAD" else _streamed(request, chunks)
    response["Content-Type"] = CSV
    return _hidden(response, name)


def _hidden(response: HttpResponseBase, name: str) -> HttpResponseBase:
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response


def _response(request: Request, content: StoredBytes) -> HttpResponseBase:
    if request.method == "HEAD":
        return HttpResponse()
    if content.size_bytes <= SLICE_BYTES:
        return HttpResponse(b"".join(content.slices))
    return _streamed(request, content.slices)


def _streamed(request: Request, chunks: Iterator[bytes]) -> StreamingHttpResponse:
    # Under ASGI a plain iterator would be read to its end before the first byte is sent.
    is_async = isinstance(request._request, ASGIRequest)  # noqa: SLF001
    return StreamingHttpResponse(_one_by_one(chunks) if is_async else chunks)


async def _one_by_one(slices: Iterator[bytes]) -> AsyncIterator[bytes]:
    take = sync_to_async(lambda: next(slices, None), thread_sensitive=True)
    while (one := await take()) is not None:
        yield one
