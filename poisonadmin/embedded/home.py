"""The data directory, which one supervisor at a time may use."""

import fcntl
import os
from pathlib import Path
from typing import TextIO

from poisonadmin.embedded.errors import EmbeddedError


class HomeInUse(EmbeddedError):
    """Raised when another supervisor runs on the same data directory."""


def claim_home(home: Path) -> TextIO:
    """Make `home` where it is missing, and return its lock, held until the file is closed or this process ends."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        file = (home / "supervisor.lock").open("a+")
    except OSError as error:
        raise EmbeddedError(
            f"The data directory {home} cannot be used: {error.strerror}. Set POISONADMIN_HOME."
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        raise HomeInUse(
            f"PoisonAdmin already runs on {home} (process {holder}). Stop it first, or start this one elsewhere: "
            "POISONADMIN_HOME=another/directory POISONADMIN_PORT=8001 make up"
        ) from None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file
