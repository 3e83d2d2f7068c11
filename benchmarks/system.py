"""The whole of PoisonAdmin under its own supervisor, as `make up` runs it."""

import http.client
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from benchmarks import memory
from poisonadmin.embedded.plan import PROJECT
from poisonadmin.embedded.ports import free_port

START_SECONDS = 300.0
STOP_SECONDS = 30.0
SPARK_WORKERS = 2


@dataclass(frozen=True)
class System:
    """A running system, started at `began_at` (Unix seconds).

    `web_seconds`, `ready_seconds`: from the command to the first page, and to all workers.
    """

    home: Path
    port: int
    supervisor: int
    web_seconds: float
    ready_seconds: float
    began_at: float

    def processes(self) -> dict[str, list[int]]:
        """Return its processes by what they are."""
        return memory.labelled(self.supervisor)

    @property
    def token(self) -> str:
        """The bootstrap token."""
        return (self.home / "admin-token").read_text().strip()


class SystemFailed(Exception):
    """Raised when the system does not come up; says where its output is."""


@contextmanager
def running_system(
    home: Path,
    environment: Mapping[str, str] | None = None,
    at_first_page: Callable[[System], None] = lambda _: None,
) -> Iterator[System]:
    """Start the system on a data directory and a free port; yield it when all workers are ready, stop it afterwards.

    `environment` replaces variables of ours; a variable that is empty is left out. Output goes to `home/output.log`.
    """
    home.mkdir(parents=True, exist_ok=True)
    port = free_port()
    wanted = dict(os.environ) | dict(environment or {})
    wanted |= {"POISONADMIN_HOME": str(home), "POISONADMIN_PORT": str(port)}
    began, began_at = time.monotonic(), time.time()
    with (home / "output.log").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "poisonadmin.embedded", "up"],
            cwd=PROJECT,
            env={name: value for name, value in wanted.items() if value},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(process, home, lambda: _answers(port))
        system = System(home, port, process.pid, time.monotonic() - began, math.nan, began_at)
        at_first_page(system)
        _wait(process, home, lambda: _workers_beat(home))
        yield replace(system, ready_seconds=time.monotonic() - began)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_SECONDS)


def _wait(process: "subprocess.Popen[bytes]", home: Path, is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + START_SECONDS
    while not is_so():
        if process.poll() is not None or time.monotonic() > until:
            last = (home / "output.log").read_text(errors="replace").splitlines()[-15:]
            raise SystemFailed("\n".join([f"the system did not come up; the end of {home / 'output.log'}:", *last]))
        time.sleep(0.1)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()


def _workers_beat(home: Path) -> bool:
    """Return whether both Spark workers have a session: they beat only then."""
    try:
        with psycopg.connect(Path(_setting(home, "DATABASE_URL_FILE")).read_text(), connect_timeout=2) as connection:
            row = connection.execute(
                "SELECT count(*) FROM worker WHERE name LIKE 'spark-%' AND heartbeat_at > now() - interval '3 s'"
            ).fetchone()
    except (OSError, psycopg.Error):
        return False
    return row is not None and row[0] >= SPARK_WORKERS


def _setting(home: Path, name: str) -> str:
    for line in (home / "environment").read_text().splitlines():
        key, _, value = line.partition("=")
        if key == name:
            return value.strip("'")
    raise SystemFailed(f"{home / 'environment'} does not say {name}")
