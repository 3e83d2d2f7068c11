"""A broker for tests: started, killed as `kill -9` kills, started again on the same files and ports."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

START_SECONDS = 240


class Server(ABC):
    """One command in a process group of its own; what it prints goes to a file. `url`: where clients connect."""

    url: str

    def __init__(self, command: Sequence[str | Path], *, environment: Mapping[str, str], log: Path) -> None:
        self._command = command
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, if it does not run, on what it has stored; returns when it answers."""
        if self._is_running():
            return
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=os.environ | self._environment, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._is_running():
            if self._answers():
                return
            time.sleep(0.1)
        printed = self._log.read_text(errors="replace")[-4000:]
        raise AssertionError(f"{self._command[0]} does not answer:\n{printed}")

    def kill(self) -> None:
        """End it, if it runs, as a power cut would: SIGKILL to the whole group."""
        if self._process is not None and self._is_running():
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def stop(self) -> None:
        """End it for good: nobody needs its files afterwards, so it need not put them in order."""
        self.kill()

    @abstractmethod
    def _answers(self) -> bool:
        """Return whether it takes connections."""

    def _is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None


AnyServer = TypeVar("AnyServer", bound=Server)


@contextlib.contextmanager
def running(server: AnyServer) -> Iterator[AnyServer]:
    """Yield the server, which answers."""
    try:
        server.start()
        yield server
    finally:
        server.stop()


def answers(port: int, greeting: bytes) -> bool:
    """Return whether something on a port of the loopback interface answers a greeting."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as probe:
        probe.sendall(greeting)
        probe.settimeout(1)
        return bool(probe.recv(1))
    return False
