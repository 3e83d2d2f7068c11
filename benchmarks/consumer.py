"""The sink from outside: starting it, and asking what arrived."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from poisonadmin.embedded.plan import PROJECT


class Arrival(NamedTuple):
    """A request as the consumer saw it; `at` in Unix seconds, when it was whole."""

    message_id: int
    attempt_number: int
    at: float


@dataclass(frozen=True)
class Sink:
    """A running sink."""

    port: int
    tls_port: int
    pid: int

    def url(self, path: str, *, tls: bool = False) -> str:
        """Return the address of a path, which says how it is answered: `/ok…`, `/fail…`, `/hang…`."""
        return f"https://127.0.0.1:{self.tls_port}{path}" if tls else f"http://127.0.0.1:{self.port}{path}"

    def take_arrivals(self, path: str) -> list[Arrival]:
        """Return what arrived at the path since the last time."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url(f"/__arrivals{path}"), timeout=60) as answer:
            return [Arrival(*row) for row in json.load(answer)]


@contextmanager
def running_sink() -> Iterator[Sink]:
    """Yield a sink in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.sink"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=PROJECT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        plain, tls = map(int, process.stdout.readline().split())
        yield Sink(plain, tls, process.pid)
    finally:
        process.stdin.close()
        process.wait(timeout=10)
        process.stdout.close()
