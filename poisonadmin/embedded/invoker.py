"""`make`, when it is what started us: its user signals it, and means us.

GNU make passes SIGTERM on to what it runs, but expects the terminal to have sent SIGINT to all; when only make gets it
(`kill -INT`), it waits for us without a word. It also cannot pass anything on when it is killed.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def watch_make(request_stop: Callable[[], None]) -> Callable[[], None] | None:
    """Return a step to call often, which asks for the stop once make was told to stop; None where make is no parent."""
    parent = os.getppid()
    if sys.platform != "linux" or _name(parent) not in {"make", "gmake"}:
        return None
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if not _catches(parent, signal.SIGINT):
        return None

    def step() -> None:
        # On a signal make gives up its handler and waits for its children, which /proc shows.
        if os.getppid() != parent or not _catches(parent, signal.SIGINT):
            request_stop()

    return step


def _name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def _catches(process: int, wanted: signal.Signals) -> bool:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (wanted - 1) & 1)
