"""Answers that are sent while they are made."""

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from poisonadmin.core.queries.rows import SLICE_BYTES, StoredBytes


def streamed(
    request: HttpRequest, chunks: Iterator[bytes], *, content_type: str, filename: str
) -> StreamingHttpResponse:
    """Return a download that holds one chunk in memory at a time."""
    # Under ASGI a plain iterator would be read to its end before the first byte is sent.
    source = _one_by_one(chunks) if isinstance(request, ASGIRequest) else chunks
    headers = {"Content-Disposition": f'attachment; filename="{filename}"', "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(source, content_type=content_type, headers=headers)


def download(request: HttpRequest, content: StoredBytes, filename: str) -> HttpResponseBase:
    """Return bytes as they came in, as a file that no browser opens by itself; a long one slice by slice."""
    kind = "application/octet-stream"
    if request.method != "HEAD" and content.size_bytes > SLICE_BYTES:
        response: HttpResponseBase = streamed(request, content.slices, content_type=kind, filename=filename)
    else:
        whole = b"" if request.method == "HEAD" else b"".join(content.slices)
        name = {"Content-Disposition": f'attachment; filename="{filename}"'}
        response = HttpResponse(whole, content_type=kind, headers=name)
    response["Content-Length"] = str(content.size_bytes)
    return response


async def _one_by_one(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    take = sync_to_async(lambda: next(chunks, None), thread_sensitive=True)
    while (chunk := await take()) is not None:
        yield chunk
