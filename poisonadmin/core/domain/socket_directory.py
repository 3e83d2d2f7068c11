"""Directories for the sockets of Spark's Python processes: who can reach one is not asked for a secret."""

import os
import shutil
import tempfile
from pathlib import Path

# Spark refuses longer directories, since a socket's path has at most 107 bytes and its own names are long.
_MOST_BYTES = 60


def fresh_directory(wished: Path) -> Path:
    """Return an empty directory for this user alone: `wished`, or what it links to where its path would be too long.

    What the last start left there is removed.
    """
    if wished.is_symlink():
        shutil.rmtree(wished.readlink(), ignore_errors=True)
        wished.unlink()
    else:
        shutil.rmtree(wished, ignore_errors=True)
    if _fits(wished):
        wished.mkdir(mode=0o700)
        return wished
    short = temporary_directory()
    wished.symlink_to(short)
    return short


def temporary_directory() -> Path:
    """Return a new directory for this user alone."""
    parent = Path(tempfile.gettempdir())
    return Path(
        tempfile.mkdtemp(prefix="poisonadmin-", dir=parent if _fits(parent / "poisonadmin-12345678") else "/tmp")
    )


def _fits(directory: Path) -> bool:
    return len(os.fsencode(directory)) <= _MOST_BYTES
