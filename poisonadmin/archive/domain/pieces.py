"""Orders and results between the commands, which run the archive, and the workers, which write its files."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

# Of each table, how many rows the database has of a piece, and the sum of their versions.
Versions = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class PieceOrder:
    """A piece to be written: messages with ids above `after`, up to `until`. `name`: of its files, not used before."""

    id: int
    after: int
    until: int
    name: str


@dataclass(frozen=True)
class WriteOrder:
    """The place of the files, their run, and its cutoffs (JSON, as `chosen.CHOSEN` reads them)."""

    place: str
    run_id: int
    cutoffs: str


@dataclass(frozen=True)
class WrittenFile:
    """A file that was written and read back. `sha256`: of its bytes, `rows_sha256`: of its rows as the database gave
    them."""

    table: str
    day: date
    root: str
    path: str
    rows: int
    bytes: int
    sha256: str
    rows_sha256: str
    first_id: int
    last_id: int


@dataclass(frozen=True)
class Rewrite:
    """The changes of a file that is written anew: it loses the rows of messages, or rows lose their payloads."""

    without: Collection[int] = ()
    emptied: Collection[int] = ()

    @property
    def ids(self) -> Collection[int]:
        """The messages that it is about."""
        return [*self.without, *self.emptied]


@dataclass
class WrittenPiece:
    """The files of a piece, and what the database had of it when they were written: one snapshot of all."""

    versions: Versions
    files: list[WrittenFile] = field(default_factory=list)
