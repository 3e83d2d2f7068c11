"""Starts the child process of a sandbox, and ends what a handler leaves behind: processes that outlive their sandbox,
whatever parent, session or environment they have given themselves.

Each sandbox carries a mark that its processes inherit through fork and exec: the limit of file locks, which Linux has
not enforced since 2.4. Only a process that changes this limit of its own escapes (docs/operate/handlers.md).
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from poisonadmin.delivery.domain import journal
from workers.delivery.handler.destination import CHILD, ENVIRONMENT, HandlerDestination


def start_child(
    destination: HandlerDestination, given: Mapping[str, int], output: int, mark: int
) -> subprocess.Popen[bytes]:
    """Start a child. `given`: the descriptors of its journal, its messages and the counter of those begun."""
    account = destination.account
    plan = {
        "callable": destination.callable,
        "memory_mb": destination.memory_mb,
        "mark": mark,
        "roots": list(destination.roots),
        "is_other_user": account is not None,
        "page_module": journal.__file__,
        "parent": os.getpid(),
        **given,
    }
    return subprocess.Popen(
        [account.interpreter if account else sys.executable, "-I", "-S", "-B", CHILD, json.dumps(plan)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=ENVIRONMENT,
        cwd="/",
        pass_fds=tuple(given.values()),
        start_new_session=True,
        user=account.user_id if account else None,
        group=account.group_id if account else None,
        extra_groups=[] if account else None,
    )


RLIMIT_LOCKS = 10
_MARK, _HOME_BITS, _NODE_BITS, _NUMBER_BITS = 1 << 62, 16, 24, 20
_ROUNDS = 20
_PAUSE_SECONDS = 0.001


def mark_of(directory: Path, node_id: int, number: int) -> int:
    """Return the mark of a node's sandbox; `directory`: the node's journals, which tell installations apart."""
    return _node_mark(directory, node_id) | number % (1 << _NUMBER_BITS)


def end_sandbox(mark: int, *, but: int) -> None:
    """Kill every process with this mark. `but`: the sandbox itself, which its parent ends and reaps."""
    _end(lambda found: found == mark, but)


def end_sandboxes_of(directory: Path, node_id: int) -> None:
    """Kill what the sandboxes of a node that was lost have left behind on this machine."""
    node = _node_mark(directory, node_id)
    _end(lambda found: found >> _NUMBER_BITS == node >> _NUMBER_BITS, but=0)


def _node_mark(directory: Path, node_id: int) -> int:
    home = zlib.crc32(str(directory.resolve()).encode()) % (1 << _HOME_BITS)
    return _MARK | home << (_NODE_BITS + _NUMBER_BITS) | node_id % (1 << _NODE_BITS) << _NUMBER_BITS


def _end(is_meant: Callable[[int], bool], but: int) -> None:
    """Kill until nothing new is found: what is about to be killed may fork meanwhile."""
    killed = {but, os.getpid()}
    for _ in range(_ROUNDS):
        found = [pid for pid, mark in _marked() if is_meant(mark) and pid not in killed]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed.update(found)
        time.sleep(_PAUSE_SECONDS)


def _marked() -> Iterator[tuple[int, int]]:
    for pid in (int(process.name) for process in Path("/proc").iterdir() if process.name.isdecimal()):
        with contextlib.suppress(OSError):
            mark = _mark_on(pid)
            if mark > 0 and mark & _MARK:
                yield pid, mark


def _mark_on(pid: int) -> int:
    """Return the limit of file locks of a process, 0 where it has none; raise OSError where it cannot be read."""
    try:
        return resource.prlimit(pid, RLIMIT_LOCKS)[1]
    except PermissionError:
        # The process of another user: root without CAP_SYS_RESOURCE, as in most containers, may only read it.
        limits = Path(f"/proc/{pid}/limits").read_text()
        hard = next(line for line in limits.splitlines() if line.startswith("Max file locks")).split()[4]
        return int(hard) if hard.isdecimal() else 0
