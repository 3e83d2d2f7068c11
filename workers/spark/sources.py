"""The lines of one part of a file, read by a task.

`spark.read` is not used here: its text source decodes, and so changes bytes that are not UTF-8, and numbers no lines.
"""

import contextlib
import dataclasses
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from gzip import BadGzipFile, GzipFile
from typing import BinaryIO

from poisonadmin.intake.domain.quick_lines import BYTE_ORDER_MARK, split_lines
from poisonadmin.messages.domain.envelope_fields import LIMITS
from poisonadmin.sources.domain.files import FileKind, FileToTake
from poisonadmin.sources.domain.roots import open_without_links

# Large enough that a task's own cost vanishes, small enough that many cores share a file and a lost task loses little.
PART_BYTES = 64 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024
# Real logs shrink to a thirtieth; what expands more than this, beyond the first stretch, means harm.
MAX_EXPANSION = 500
FREE_EXPANSION_BYTES = 64 * 1024 * 1024
# Some minutes' work for one task, however long the file is.
MAX_EXPANSION_BYTES = 64 * 1024 * 1024 * 1024
# {"address":"a","payload":1} is longer, and no message is shorter.
_MIN_MESSAGE_BYTES = 24


@dataclass(frozen=True)
class FilePart:
    """The lines of a file that begin within start..end (bytes), numbered from `first_line`.

    `id_ranges` (first, last) are the ids for its messages, at least one a line, growing along the file and from file to
    file: messages that must be delivered in order are, however many tasks stage them.
    Only uncompressed NDJSON is cut; any other file is one part.
    """

    file: FileToTake
    start: int
    end: int
    first_line: int = 1
    id_ranges: tuple[tuple[int, int], ...] = ()

    @property
    def batch(self) -> str:
        """The name under which the part is staged: the same for each try of its task, another one in another run."""
        return f"file:{self.file.id}:{self.id_ranges[0][0]}"

    @property
    def ids(self) -> Iterator[int]:
        """The ids for the part's messages, in order."""
        return (row_id for first, last in self.id_ranges for row_id in range(first, last + 1))


def parts_of(files: Iterable[FileToTake], *, part_bytes: int = PART_BYTES) -> list[FilePart]:
    """Return the parts of each file in the order of their bytes; at least one a file."""
    return [FilePart(file, start, end) for file in files for start, end in _stretches(file, part_bytes)]


def numbered(
    parts: Sequence[FilePart], newlines: Sequence[int], id_ranges: Sequence[Sequence[tuple[int, int]]]
) -> list[FilePart]:
    """Return the parts with their first lines and their ids, given the newlines of each and the ranges by place."""
    found: list[FilePart] = []
    line = 1
    for place, (part, count) in enumerate(zip(parts, newlines, strict=True)):
        line = 1 if part.start == 0 else line
        found.append(dataclasses.replace(part, first_line=line, id_ranges=tuple(id_ranges[place])))
        line += count
    return found


def _stretches(file: FileToTake, part_bytes: int) -> Iterator[tuple[int, int]]:
    if file.kind is not FileKind.NDJSON or file.size_bytes <= part_bytes:
        yield 0, file.size_bytes
        return
    count = -(-file.size_bytes // part_bytes)
    for place in range(count):
        yield file.size_bytes * place // count, file.size_bytes * (place + 1) // count


class InvalidFile(Exception):
    """Raised when a file's bytes cannot be read as what its name says."""


class FileGone(Exception):
    """Raised when the file is not there any more, or is not the one that was seen."""


@contextlib.contextmanager
def opened(file: FileToTake) -> Iterator[BinaryIO]:
    """Open the file that was seen, and no other; look again afterwards.

    Errors: `FileGone` when it is missing or has another size or time, before or after; `OSError`.
    """
    try:
        # No link is followed and no pipe is waited for, whatever has taken the file's place since.
        descriptor = open_without_links(file.path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise FileGone("The file is not there any more.") from None
    with os.fdopen(descriptor, "rb", buffering=0) as handle:
        _check_identity(descriptor, file)
        yield handle
        _check_identity(descriptor, file)


def _check_identity(descriptor: int, file: FileToTake) -> None:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or (found.st_size, found.st_mtime_ns) != (file.size_bytes, file.modified_ns):
        raise FileGone("The file has changed since it was seen.")


def lines_of(part: FilePart, handle: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the part's lines that are not blank, each with its number in the file.

    Errors: `InvalidFile` for a gzip file that is damaged, cut off, or expands beyond measure.
    """
    for number, raw in split_lines(_chunks(part, handle), max_bytes=LIMITS.line_bytes, first=part.first_line):
        yield number, raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw


def newlines_of(part: FilePart, handle: BinaryIO) -> tuple[int, int]:
    """Return how many newlines the part has, and how many messages at most.

    The second is what ids are reserved for: a few kilobytes can unfold to a hundred million newlines.
    Errors: `InvalidFile`, as for `lines_of`.
    """
    newlines = size = 0
    for chunk in _chunks(part, handle):
        newlines += chunk.count(b"\n")
        size += len(chunk)
    return newlines, min(newlines, size // _MIN_MESSAGE_BYTES) + 1


def expansion_limit(size_bytes: int) -> int:
    """Return how many bytes a packed file of this size may unfold to."""
    return min(max(FREE_EXPANSION_BYTES, size_bytes * MAX_EXPANSION), MAX_EXPANSION_BYTES)


def _chunks(part: FilePart, handle: BinaryIO) -> Iterator[bytes]:
    return _inflated(part, handle) if part.file.kind is FileKind.GZIP else _stretch(part, handle)


def _stretch(part: FilePart, handle: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of the lines that begin within the part's stretch, whole lines to the last one's newline."""
    start = _line_start(handle, part.start, part.file.size_bytes)
    end = _line_start(handle, part.end, part.file.size_bytes)
    handle.seek(start)
    while start < end and (chunk := handle.read(min(_CHUNK_BYTES, end - start))):
        start += len(chunk)
        yield chunk


def _line_start(handle: BinaryIO, offset: int, size_bytes: int) -> int:
    """Return where the first line begins that begins at `offset` or later; the file's size where none does."""
    if offset <= 0 or offset >= size_bytes:
        return max(0, min(offset, size_bytes))
    position = offset - 1
    handle.seek(position)
    while chunk := handle.read(_CHUNK_BYTES):
        found = chunk.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(chunk)
    return size_bytes


def _inflated(part: FilePart, handle: BinaryIO) -> Iterator[bytes]:
    limit = expansion_limit(part.file.size_bytes)
    try:
        with GzipFile(fileobj=handle, mode="rb") as inflated:
            while chunk := inflated.read(_CHUNK_BYTES):
                limit -= len(chunk)
                if limit < 0:
                    raise InvalidFile(f"The file expands to more than {MAX_EXPANSION} times its size, or 64 GiB.")
                yield chunk
    except (BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidFile(f"Not a whole gzip file: {error}") from None
