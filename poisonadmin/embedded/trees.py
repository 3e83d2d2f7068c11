"""Process trees: finding every descendant, also those whose parent has died, and ending them."""

import contextlib
import ctypes
import os
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

import psutil

# In the environment of every process that a supervisor starts, with its data directory as the value.
MARK = "POISONADMIN_SUPERVISED"
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent ends, so that none is lost from sight."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_adopted(children: Collection[int]) -> None:
    """Collect the exit status of ended processes that we adopted, leaving those in `children` to their starter."""
    if not hasattr(os, "waitid"):
        return
    with contextlib.suppress(ChildProcessError):
        for _ in range(1000):
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid in children:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)


def in_session(session: int) -> list[psutil.Process]:
    """Return the living processes of `session`, which carries the number of the child that began it."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def descendants(except_for: Collection[int] = ()) -> list[psutil.Process]:
    """Return all living descendants of this process, but for those numbered in `except_for` and their descendants."""
    found: list[psutil.Process] = []
    for child in psutil.Process().children():
        if child.pid not in except_for:
            found.append(child)
            with contextlib.suppress(psutil.Error):
                found += child.children(recursive=True)
    return found


def marked(home: Path) -> list[psutil.Process]:
    """Return the processes, other than this one, that a supervisor of `home` started."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARK) == str(home):
                found.append(process)
    return found


def kill(processes: Iterable[psutil.Process]) -> None:
    """Send SIGKILL to each of `processes` that is still there."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
