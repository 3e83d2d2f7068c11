"""Random secrets kept in files that only their owner can read."""

import os
import secrets
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write `text` to `path` with mode 600, whole or not at all: readers never see half a file."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    draft.replace(path)


def kept_secret(path: Path) -> str:
    """Return the secret in `path`, made of 256 random bits on first use; letters, digits, `-` and `_` only."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32))
    return path.read_text().strip()
