"""How files are cut into parts, one Spark task each."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from poisonadmin.sources.domain.files import FileKind, FileToTake

# Large enough that a task's own cost vanishes, small enough that many cores share a file and a lost task loses little.
PART_BYTES = 64 * 1024 * 1024


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
