"""Bodies that are too long to be held in memory."""

import hashlib
import io
from collections.abc import Iterator
from typing import IO

from django.http import HttpRequest

CHUNK_BYTES = 256 * 1024


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
