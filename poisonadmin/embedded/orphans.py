"""Finding and ending what an earlier PostgreSQL left running on its files."""

import contextlib
import os
import time
from pathlib import Path

import psutil

from poisonadmin.embedded.errors import EmbeddedError


def processes_in(directory: Path) -> list[psutil.Process]:
    """Return the processes whose working directory is `directory`: for PostgreSQL's data, its server and back ends."""
    whole = os.path.realpath(directory)
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.cwd() == whole:
                found.append(process)
    return found


def end_postmaster_of(data: Path, seconds: float = 10) -> None:
    """Return when no process works on `data` any more and no stale `postmaster.pid` is in the way.

    A server that was killed leaves back ends which end by themselves at their next wait, and hold the shared memory
    until then; a new server refuses to start meanwhile. They are given a moment, then ended.
    """
    deadline = time.monotonic() + seconds
    rounds = ((psutil.Process.terminate, 1.0), (psutil.Process.kill, seconds))
    for end, patience in rounds:
        left = processes_in(data)
        if not left:
            break
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                end(process)
        psutil.wait_procs(left, timeout=min(patience, max(0.0, deadline - time.monotonic())))
    if left := processes_in(data):
        raise EmbeddedError(f"Processes {[process.pid for process in left]} still use {data} and do not end.")
    # Its number may by now belong to a stranger, whom PostgreSQL would take for a running server.
    (data / "postmaster.pid").unlink(missing_ok=True)
