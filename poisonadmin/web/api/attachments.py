"""Downloads, of the API and of pages: what strangers wrote, sent so that no browser shows it or guesses what it is."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from poisonadmin.core.domain.exports import Row
from poisonadmin.core.queries.rows import SLICE_BYTES, StoredBytes

CSV = "text/csv; charset=utf-8; header=present"


def attachment(request: Request | HttpRequest, content: StoredBytes, name: str) -> HttpResponseBase:
    """Return a download; of what is longer than a slice only a slice is in memory at a time."""
    if request.method != "HEAD" and content.size_bytes <= SLICE_BYTES:
        response: HttpResponseBase = HttpResponse(b"".join(content.slices))
    else:
        response = _streamed(request, content.slices)
    response["Content-Length"] = str(content.size_bytes)
    return _hidden(response, name, "application/octet-stream")


def csv_attachment(
    request: Request | HttpRequest, columns: Sequence[str], rows: Iterable[Sequence[Row]], name: str, *, mark: bool
) -> HttpResponseBase:
    """Return a download of rows as CSV, which are read some at a time while it is sent. `mark`: a byte order mark."""
    # Here, so that a web process which sends no CSV does without Arrow's 60 MB.
    from poisonadmin.core.commands.exports.formats import csv_chunks

    return _hidden(_streamed(request, csv_chunks(columns, rows, mark=mark)), name, CSV)


def _hidden(response: HttpResponseBase, name: str, content_type: str) -> HttpResponseBase:
    response["Content-Type"] = content_type
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    response["X-Accel-Buffering"] = "no"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response


def _streamed(request: Request | HttpRequest, chunks: Iterator[bytes]) -> HttpResponseBase:
    if request.method == "HEAD":
        return HttpResponse()
    # Under ASGI a plain iterator would be read to its end before the first byte is sent.
    is_async = isinstance(getattr(request, "_request", request), ASGIRequest)
    return StreamingHttpResponse(_one_by_one(chunks) if is_async else chunks)


async def _one_by_one(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    take = sync_to_async(lambda: next(chunks, None), thread_sensitive=True)
    while (chunk := await take()) is not None:
        yield chunk
