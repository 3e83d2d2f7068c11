"""Processes: under which account they are started, found, and ended with all their descendants.

`python -m poisonadmin.embedded.processes HOME` watches a supervisor.
"""

import contextlib
import ctypes
import enum
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil

ACCOUNT_NAME = "poisonadmin-db"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
# In the environment of every process that a supervisor starts, with its data directory as the value.
MARK = "POISONADMIN_SUPERVISED"
_PR_SET_CHILD_SUBREAPER = 36


class EmbeddedError(Exception):
    """Raised when a service cannot be started; the text says why and what to do, and is shown without a traceback."""


@dataclass(frozen=True)
class Account:
    """A user of the operating system."""

    name: str
    user_id: int
    group_id: int


def database_account() -> Account | None:
    """Return the account that PostgreSQL must run under, or None where it can run under our own.

    Started as root, a system account is created once. Where that is not possible (no `useradd`, a
    read-only /etc) it is `nobody`: initdb insists on a user that has a name.
    """
    if os.geteuid() != 0:
        return None
    account = _account(ACCOUNT_NAME) or _create_account() or _account("nobody")
    if account is None:
        raise EmbeddedError(
            "PostgreSQL does not run as root, and there is no unprivileged user to run it under: "
            f"create one named {ACCOUNT_NAME}, start as an ordinary user, or set DATABASE_URL."
        )
    return account


def _account(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(name, entry.pw_uid, entry.pw_gid)


def _create_account() -> Account | None:
    useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if useradd is None:
        return None
    subprocess.run(
        [useradd, "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", ACCOUNT_NAME],
        capture_output=True,
        check=False,
    )
    # Another start may have created it a moment before us, so the answer is in the table, not in the exit status.
    return _account(ACCOUNT_NAME)


class RestartRule(enum.Enum):
    """When a child that has ended by itself is started again."""

    ALWAYS = "always"
    ON_FAILURE = "on failure"
    NEVER = "never"


@dataclass(frozen=True)
class ChildSpec:
    """A process to start, and the signals that stop it."""

    name: str
    command: Sequence[str | Path]
    environment: Mapping[str, str] = field(default_factory=dict)
    working_directory: Path = Path("/")
    account: Account | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    # What the kernel sends the child when the process that started it is gone, however it went.
    orphan_signal: signal.Signals = signal.SIGKILL
    restart: RestartRule = RestartRule.ALWAYS
    start_after_seconds: float = 0.0
    # Lines that hold one of these are harmless, alarm the reader, and cannot be switched off at their source.
    unsaid: Sequence[str] = ()
    # Run before each start: makes room where an earlier one left something behind.
    clear_the_way: Callable[[], None] | None = None


def run_as(account: Account | None) -> dict[str, Any]:
    """Return the arguments with which `subprocess` runs a program under an account; None: under our own."""
    return {"user": account.user_id, "group": account.group_id, "extra_groups": []} if account else {}


def spawn(spec: ChildSpec, output: int | IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """Start `spec` in a session of its own, its output and errors going to `output`.

    Call it from the main thread: the kernel sends the orphan signal when the starting *thread* ends.
    """
    return subprocess.Popen(
        [str(part) for part in spec.command],
        env=dict(spec.environment),
        cwd=spec.working_directory,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output is not None else None,
        start_new_session=True,
        **run_as(spec.account),
        preexec_fn=_die_with_parent(spec.orphan_signal),  # noqa: PLW1509 - it takes no lock, and nothing else can do this
    )


def _die_with_parent(orphan_signal: signal.Signals) -> Callable[[], None] | None:
    """Return the step between fork and exec that ties the child's life to its parent's, where the kernel can."""
    if _libc is None:
        return None
    libc, parent = _libc, os.getpid()

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(orphan_signal))
        if os.getppid() != parent:
            os._exit(1)

    return tie


class NotReady(EmbeddedError):
    """Raised when a service ended, or did not answer in time."""


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


def processes_where(holds: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """Return the processes for which a condition holds, of those that can be seen and do not end meanwhile."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if holds(process):
                found.append(process)
    return found


def in_session(session: int) -> list[psutil.Process]:
    """Return the living processes of `session`, which carries the number of the child that began it."""
    return processes_where(
        lambda process: os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE
    )


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
    return processes_where(lambda process: process.pid != os.getpid() and process.environ().get(MARK) == str(home))


def kill(processes: Iterable[psutil.Process]) -> None:
    """Send SIGKILL to each of `processes` that is still there."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def ending(status: int) -> str:
    """Return what a return code of `subprocess` says, in words."""
    if status >= 0:
        return f"status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def watch(home: Path) -> None:
    """End what the supervisor of `home` leaves behind when it is killed itself.

    It holds the other end of standard input, which the kernel closes when it ends, however it ends.
    """
    for wished in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(wished, signal.SIG_IGN)
    while os.read(sys.stdin.fileno(), 4096):
        pass
    for _ in range(20):
        left = marked(home)
        if not left:
            return
        kill(left)
        time.sleep(0.1)


if __name__ == "__main__":
    watch(Path(sys.argv[1]))
