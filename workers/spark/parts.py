"""How files are cut into parts, one Spark task each."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from poisonadmin.domain.source_files import FileKind, FileToTake, batch_of

# Large enough that a task's own cost vanishes, small enough that many cores share a file and a lost task loses little.
PART_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class Part:
    """The lines of a file that begin within start..end (bytes), numbered from `first_line`.

    Only uncompressed NDJSON is cut; any other file is one part.
    """

    file: FileToTake
    start: int
    end: int
    first_line: int = 1

    @property
    def batch(self) -> str:
        """The name under which the part is staged."""
        return batch_of(self.file.id, self.start, self.end)


def parts_of(files: Iterable[FileToTake], *, part_bytes: int = PART_BYTES) -> list[Part]:
    """Return the parts of each file in the order of their bytes; at least one a file."""
    return [Part(file, start, end) for file in files for start, end in _stretches(file, part_bytes)]


def with_first_lines(parts: Sequence[Part], newlines: Mapping[str, int]) -> list[Part]:
    """Return the parts numbered through, given how many newlines each batch of a file that was cut has."""
    numbered: list[Part] = []
    line = 1
    for part in parts:
        line = 1 if part.start == 0 else line
        numbered.append(dataclasses.replace(part, first_line=line))
        line += newlines.get(part.batch, 0)
    return numbered


def _stretches(file: FileToTake, part_bytes: int) -> Iterator[tuple[int, int]]:
    if file.kind is not FileKind.NDJSON or file.size_bytes <= part_bytes:
        yield 0, file.size_bytes
        return
    for start in range(0, file.size_bytes, part_bytes):
        yield start, min(start + part_bytes, file.size_bytes)
