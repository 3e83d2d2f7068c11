"""Child processes: each in a session of its own, none outliving the process that started it."""

import ctypes
import enum
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from poisonadmin.embedded.account import Account

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class RestartRule(enum.Enum):
    """When a child that has ended by itself is started again."""

    ALWAYS = "always"
    ON_FAILURE = "on failure"


@dataclass(frozen=True)
class ChildSpec:
    """What to start, and how to stop it."""

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


def spawn(spec: ChildSpec, output: int | IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """Start `spec` in a session of its own, its output and errors going to `output`.

    Call it from the main thread: the kernel sends the orphan signal when the starting *thread* ends.
    """
    account = spec.account
    return subprocess.Popen(
        [str(part) for part in spec.command],
        env=dict(spec.environment),
        cwd=spec.working_directory,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output is not None else None,
        start_new_session=True,
        user=account.user_id if account else None,
        group=account.group_id if account else None,
        extra_groups=[] if account else None,
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


def stop(process: subprocess.Popen[bytes], steps: Sequence[tuple[signal.Signals, float]]) -> None:
    """Signal `process` with each (signal, seconds to wait) in turn until it has ended; SIGKILL comes last by itself."""
    for step, seconds in steps:
        if process.poll() is not None:
            return
        process.send_signal(step)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
    if process.poll() is None:
        process.kill()
        process.wait()
