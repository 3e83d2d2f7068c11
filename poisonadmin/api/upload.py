"""Bodies that are too long to be held in memory."""

import hashlib
import tempfile
from collections.abc import Iterator
from typing import IO, BinaryIO, cast

from django.http import HttpRequest

CHUNK_BYTES = 256 * 1024
IN_MEMORY_BYTES = 2 * 1024 * 1024


def file_of(request: HttpRequest) -> IO[bytes]:
    """Return the body as a file at its beginning, which can be read again.

    Under ASGI Django has put it into one already; from WSGI it is copied into one. Nothing else may have read it.
    """
    stream = request._stream  # noqa: SLF001
    if not stream.seekable():
        copy = cast("BinaryIO", tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES))  # noqa: SIM115
        while chunk := stream.read(CHUNK_BYTES):
            copy.write(chunk)
        stream = request._stream = copy  # noqa: SLF001
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
