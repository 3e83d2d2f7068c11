"""The web process as it is run, and its memory."""

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from django.db import connection

from poisonadmin.embedded.ports import free_port


@contextmanager
def running_web() -> Iterator[tuple[str, psutil.Process]]:
    """Run the web process on the test's database; yield its address and the process."""
    parameters = connection.get_connection_params()
    url = "postgresql://{user}:{password}@{host}:{port}/{dbname}".format(**parameters)
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "poisonadmin.asgi:application", "--port", str(port)]
    quiet = ["--log-level", "error"]
    with subprocess.Popen(
        [*command, *quiet], env=os.environ | {"DATABASE_URL": url}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        address = f"127.0.0.1:{port}"
        deadline = time.monotonic() + 60
        try:
            while not answers(address):
                assert process.poll() is None
                assert time.monotonic() < deadline, "the web process did not answer"
                time.sleep(0.1)
            yield address, psutil.Process(process.pid)
        finally:
            process.terminate()


def answers(address: str) -> bool:
    """Return whether a server answers there."""
    try:
        return exchange(address, "GET", "/healthz")[0] == 200
    except OSError:
        return False


def exchange(address: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str, bytes]:
    """Send a request over a connection of its own; return the status, the content type and the body of the answer."""
    connection = http.client.HTTPConnection(address, timeout=300)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()
    finally:
        connection.close()


class Peak:
    """The most memory that the process has had, as the kernel counts it."""

    def __init__(self, process: psutil.Process) -> None:
        self._status = Path(f"/proc/{process.pid}/status")
        self._reset = Path(f"/proc/{process.pid}/clear_refs")
        self.bytes = 0

    def __enter__(self) -> "Peak":
        self._reset.write_text("5")
        return self

    def __exit__(self, *_: object) -> None:
        line = next(line for line in self._status.read_text().splitlines() if line.startswith("VmHWM"))
        self.bytes = int(line.split()[1]) * 1024
