"""A broker's process group for tests: started, killed as `kill -9` kills, started again on the same files and ports."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

START_SECONDS = 240
_STOP_SECONDS = 20


class Server(Protocol):
    """What every broker of the tests can do."""

    @property
    def url(self) -> str:
        """Where clients connect."""

    def start(self) -> None:
        """Start it, on what it has stored; returns when it answers."""

    def kill(self) -> None:
        """End it as a power cut would: SIGKILL to the whole group."""

    def stop(self) -> None:
        """End it in order."""


class Probe(Protocol):
    """Asks a starting server whether it answers by now."""

    def __call__(self) -> bool:
        """Return whether it does."""


class Processes:
    """One command in a process group of its own; what it prints goes to a file."""

    def __init__(self, command: Sequence[str | Path], *, environment: Mapping[str, str], log: Path) -> None:
        self._command = command
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the command, if it does not run."""
        if self.is_running():
            return
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=os.environ | self._environment, stdout=log, stderr=log, start_new_session=True
            )

    def is_running(self) -> bool:
        """Return whether the group's leader runs."""
        return self._process is not None and self._process.poll() is None

    def until(self, answers: Probe) -> None:
        """Return when `answers` says so; fail with what the command has printed when it ends or takes too long."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.is_running():
            if answers():
                return
            time.sleep(0.1)
        printed = self._log.read_text(errors="replace")[-4000:]
        raise AssertionError(f"{self._command[0]} does not answer:\n{printed}")

    def kill(self) -> None:
        """End the whole group with SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the group with SIGTERM, and with SIGKILL what takes too long."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None or not self.is_running():
            return
        os.killpg(self._process.pid, how)
        try:
            self._process.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
