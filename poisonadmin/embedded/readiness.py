"""Waiting until a started service answers."""

import subprocess
import time
from collections.abc import Callable

from poisonadmin.embedded.errors import EmbeddedError


class NotReady(EmbeddedError):
    """Raised when a service ended, or did not answer in time."""


def wait_until_ready(
    name: str, process: subprocess.Popen[bytes], is_ready: Callable[[], bool], *, seconds: float
) -> None:
    """Return when `is_ready()`; raise `NotReady` when the process has ended or `seconds` are over."""
    deadline = time.monotonic() + seconds
    while not is_ready():
        if (status := process.poll()) is not None:
            raise NotReady(f"{name} ended with status {status} before it was ready.")
        if time.monotonic() > deadline:
            raise NotReady(f"{name} did not answer within {seconds:.0f} s.")
        time.sleep(0.05)
