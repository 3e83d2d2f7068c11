"""PoisonAdmin as its users run it, seen from outside: `python -m poisonadmin.embedded up` and its HTTP API."""

import contextlib
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil
import psycopg

from poisonadmin.core.domain.secret_settings import DATABASE_URL, secret_setting, without_secrets
from poisonadmin.embedded.placement import data_parent
from poisonadmin.embedded.ports import free_port
from poisonadmin.embedded.postgres import processes_in
from poisonadmin.embedded.processes import database_account, marked

PROJECT = Path(__file__).resolve().parents[2]
START_SECONDS = 300
STOP_SECONDS = 20
WORKERS = ("beat", "io", "spark-redelivery", "spark-batch")
SPARK_WORKERS = frozenset({"spark-redelivery", "spark-batch"})
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class NoAnswer(Exception):
    """Raised when the web process does not answer at all: it is dead, or it hangs."""


@dataclass(frozen=True)
class Reply:
    """An answer of the API."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    def expect(self, *statuses: int) -> Any:
        """Return the JSON of an answer that was expected; fail with what it says otherwise."""
        assert self.status in statuses, f"{self.status}: {self.body[:2000].decode(errors='replace')}"
        return self.json if self.body else None


class PoisonAdmin(Protocol):
    """A running PoisonAdmin as the tests of deliveries see it: its HTTP API, its database, and a directory."""

    home: Path

    def ask(self, method: str, path: str, body: Any = None) -> Reply:
        """Send a request and return the answer, whatever its status."""

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a query on the database."""

    def get(self, path: str) -> Any:
        """Return what the API says; fail when it is not 200."""
        return self.ask("GET", path).expect(200)

    def post(self, path: str, body: Any = None) -> Any:
        """Send an object and return what the API says; fail when it is not a success."""
        return self.ask("POST", path, {} if body is None else body).expect(200, 201, 202)


class Installation(PoisonAdmin):
    """A supervisor with embedded services and every process of `make up`, in a data directory of its own."""

    # What the supervisor is started by.
    prefix: tuple[str, ...] = ()

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home.resolve()
        self.home.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.log = self.home / "output.log"
        self._environment = environment
        self._token = ""
        self.process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        kept = {name: value for name, value in without_secrets(os.environ).items() if name not in _NOT_HANDED_ON}
        # Handlers note what they see in the home.
        user = pwd.getpwuid(os.geteuid()).pw_name
        own = {"POISONADMIN_HOME": str(self.home), "POISONADMIN_PORT": str(self.port), "POISONADMIN_SANDBOX_USER": user}
        with self.log.open("ab") as output:
            return subprocess.Popen(
                [*self.prefix, sys.executable, "-m", "poisonadmin.embedded", "up"],
                cwd=PROJECT,
                env=kept | own | self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    # --- from outside ---

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        seconds: float = 30,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request and return the answer, whatever its status. Errors: `NoAnswer`."""
        url = f"http://127.0.0.1:{self.port}{path if path.startswith('/') else f'/api/v1/{path}'}"
        raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        kind = "application/x-ndjson" if isinstance(body, bytes) else "application/json"
        request = urllib.request.Request(url, data=raw, method=method, headers={"Content-Type": kind})
        request.add_header("Authorization", f"Bearer {self.token}")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with _DIRECT.open(request, timeout=seconds) as answer:
                return Reply(answer.status, answer.read(), answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, error.read(), error.headers)
        except OSError as error:
            raise NoAnswer(str(error)) from error

    @property
    def token(self) -> str:
        """The bootstrap token, as a user finds it."""
        if not self._token:
            self._token = (self.home / "admin-token").read_text().strip()
        return self._token

    # --- from inside ---

    @property
    def output(self) -> str:
        """What the supervisor and its children have printed up to now."""
        return self.log.read_text(errors="replace")

    @property
    def environment(self) -> dict[str, str]:
        """What commands run by hand find in `environment`."""
        lines = (self.home / "environment").read_text().splitlines()
        return {name: value.strip("'") for name, _, value in (line.partition("=") for line in lines)}

    @property
    def database_url(self) -> str:
        """The application's address of its database."""
        return secret_setting(self.environment, DATABASE_URL)

    @property
    def superuser_url(self) -> str:
        """The address for what only a superuser may do; the port is that of the running server."""
        secret = (self.home / "postgres-superuser-password").read_text().strip()
        return f"postgresql://postgres:{secret}@{self.database_url.partition('@')[2]}"

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a query on the database, in a session of its own."""
        with psycopg.connect(self.database_url, autocommit=True, connect_timeout=5) as session:
            return session.execute(query, values or None).fetchall()  # type: ignore[arg-type]

    def pid_of(self, name: str) -> int:
        """Return the number of the process last started as `name`."""
        return int(re.findall(rf"started {name} \(process (\d+)\)", self.output)[-1])

    def process_of(self, name: str) -> psutil.Process:
        """Return the process last started as `name`."""
        return psutil.Process(self.pid_of(name))

    # --- from start to end ---

    def until_ready(self, workers: Set[str] = SPARK_WORKERS) -> None:
        """Return when the web process is ready and these workers have said that they live."""
        for is_true in (
            (self.home / "admin-token").exists,
            self.is_ready,
            lambda: self._heartbeats() >= workers,
        ):
            until(lambda is_true=is_true: is_true() or self._has_ended(), START_SECONDS, self._last_lines)

    def is_ready(self) -> bool:
        """Return whether /readyz says so."""
        try:
            return self.ask("GET", "/readyz", seconds=5).status == 200
        except NoAnswer:
            return False

    def stop(self) -> float:
        """Ask for the end as a user does and return how many seconds it took; fail when a process is left."""
        began = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
            return time.monotonic() - began
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            until(lambda: not self.left(), STOP_SECONDS, self._last_lines)
            if (self.home / "postgres").is_symlink():
                shutil.rmtree((self.home / "postgres").readlink(), ignore_errors=True)

    def kill_everything(self) -> None:
        """Kill every process at once, the supervisor first, as a power cut would; the disks stay."""
        victims = [self.process, *self.left()]
        for victim in victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
        self.process.wait()
        until(lambda: not self.left(), STOP_SECONDS, self._last_lines)

    def start_again(self) -> None:
        """Start on the same data directory and return when everything is ready."""
        self.process = self._started()
        self.until_ready()

    def left(self) -> list[psutil.Process]:
        """Return its processes that are still alive, but for the supervisor."""
        return [*marked(self.home), *processes_in(data_parent(self.home, database_account()) / "data")]

    def _heartbeats(self) -> set[str]:
        try:
            return {name for (name,) in self.rows(_ALIVE)}
        except psycopg.Error:
            return set()

    def _has_ended(self) -> bool:
        assert self.process.poll() is None, self._last_lines()
        return False

    def _last_lines(self) -> str:
        return self.output[-6000:]


def until(
    is_true: Callable[[], object], seconds: float = 30, otherwise: Callable[[], object] = lambda: "never"
) -> None:
    """Return once `is_true()`; fail with what `otherwise` returns when it is not within so many seconds."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {otherwise()}"
        time.sleep(0.05)


_NOT_HANDED_ON = frozenset({"POISONADMIN_HOME", "POISONADMIN_SOURCE_ROOTS", "DJANGO_SETTINGS_MODULE", "MAKEFLAGS"})
_ALIVE = "SELECT split_part(name, '@', 1) FROM worker WHERE heartbeat_at > now() - interval '3 s'"
