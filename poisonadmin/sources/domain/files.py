"""Files of a directory source: which are taken, how they are named in the database, what staging them came to."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote_from_bytes

# A writer marks a file that is not complete by one of these, and renames it when it is.
UNFINISHED_SUFFIXES = (".tmp", ".part", ".partial", ".crdownload", ".filepart", "~")
MAX_PATH_BYTES = 2000


class FileKind(StrEnum):
    """The formats of files, by the ends of their names."""

    NDJSON = "ndjson"
    GZIP = "gzip"
    PARQUET = "parquet"


_KINDS = {
    ".ndjson": FileKind.NDJSON,
    ".jsonl": FileKind.NDJSON,
    ".json": FileKind.NDJSON,
    ".ndjson.gz": FileKind.GZIP,
    ".jsonl.gz": FileKind.GZIP,
    ".json.gz": FileKind.GZIP,
    ".parquet": FileKind.PARQUET,
}


class FileStaging(StrEnum):
    """The outcome of staging a file. STAGED: whole. BROKEN: its bytes cannot be read, ever; nothing of it is staged.

    GONE: not there any more, or not the file that was seen. UNREADABLE: not now; it is tried again.
    """

    STAGED = "staged"
    BROKEN = "broken"
    GONE = "gone"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class FileToTake:
    """A file as it was seen; another size or time makes it another file. `path` is what the system calls it."""

    id: int
    source_id: int
    path: bytes
    kind: FileKind
    size_bytes: int
    modified_ns: int


@dataclass(frozen=True)
class StagedFile:
    """The result of staging a file. `batches` are to be merged; `rejected` lines are set aside already."""

    file_id: int
    outcome: FileStaging
    batches: tuple[str, ...] = ()
    staged: int = 0
    rejected: int = 0
    error: str | None = None


def kind_of(name: bytes) -> FileKind | None:
    """Return how the file of this name is read; None where the name says nothing that is known.

    >>> kind_of(b"2026-01.NDJSON.gz"), kind_of(b"notes.txt")
    (<FileKind.GZIP: 'gzip'>, None)
    """
    lower = name.lower()
    for ending, kind in _KINDS.items():
        if lower.endswith(ending.encode()) and len(lower) > len(ending):
            return kind
    return None


def is_unfinished(name: bytes) -> bool:
    """Return whether a file of this name is hidden or still being written, by its name's convention."""
    return name.startswith(b".") or name.lower().endswith(tuple(suffix.encode() for suffix in UNFINISHED_SUFFIXES))


def stored_path(path: bytes) -> str:
    """Return the text that stands for `path` in the database; two paths never share one.

    A path that is not printable UTF-8 is written with its odd bytes as %XX behind `bytes:`; one that is too long for an
    index is its SHA-256 and its end.

    >>> stored_path("/in/Zoë.ndjson".encode()), stored_path(b"/in/\\xff\\n.ndjson")
    ('/in/Zoë.ndjson', 'bytes:/in/%FF%0A.ndjson')
    """
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    shown = text if text.startswith("/") and text.isprintable() else "bytes:" + quote_from_bytes(path)
    if len(shown.encode()) <= MAX_PATH_BYTES:
        return shown
    return f"sha256:{hashlib.sha256(path).hexdigest()}:{quote_from_bytes(path)[-500:]}"
