"""An archive of Java classes, with which the embedded Spark starts in half the time.

The name of an archive says by which Java and for which classes it was made, and its checksum: Java notices a stale
archive by itself, but believes a damaged one.
"""

import contextlib
import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path

_BLOCK_BYTES = 1024 * 1024


def kind_of(java_home: Path, classes: Path, options: Sequence[str]) -> str:
    """Return a short name for what an archive depends on."""
    release = java_home / "release"
    java = java_home / "bin" / "java"
    facts = [
        release.read_text() if release.exists() else java.read_text(errors="replace"),
        str(java_home.resolve()),
        *(f"{jar.name} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in sorted(classes.iterdir())),
        *options,
    ]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def find(directory: Path, kind: str) -> Path | None:
    """Return the archive of this kind, None where there is none; remove one that is damaged."""
    for path in directory.glob(f"classes-{kind}-*.jsa"):
        with contextlib.suppress(OSError):
            if path == _named(path, directory, kind):
                return path
            path.unlink()
    return None


def keep(draft: Path, directory: Path, kind: str) -> None:
    """Put a finished archive in the place of all others. Errors: `OSError`."""
    kept = _named(draft, directory, kind)
    for other in directory.glob("classes-*"):
        other.unlink()
    draft.rename(kept)


def _named(archive: Path, directory: Path, kind: str) -> Path:
    checksum = 0
    with archive.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
    return directory / f"classes-{kind}-{checksum:08x}.jsa"
