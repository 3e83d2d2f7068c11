"""The real web server on the test's database, and consumers under the guard, in this process and in others."""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from poisonadmin.core.domain.access import Permission, Role
from poisonadmin.embedded.ports import free_port
from poisonadmin.system.commands.accounts import create_token
from poisonguard.guard import Guard
from tests.fixtures.api import make_user

START_SECONDS = 60
ANSWER_SECONDS = 30


class Web:
    """The web process, as `make up` starts it; it can be stopped and started again on the same port."""

    def __init__(
        self, database_url: str, log: Path, program: str = "poisonadmin.serve", more: Sequence[str] = ()
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.database_url = database_url
        self._environment = os.environ | {"DATABASE_URL": database_url, "POISONADMIN_DB_POOL": "true"}
        self._log = log
        self._program = program
        self._more = more
        self.process = self.start()

    def start(self) -> "subprocess.Popen[bytes]":
        """Start it and return when it answers."""
        command = [sys.executable, "-W", "ignore", "-m", self._program, "--port", str(self.port)]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *self._more], env=self._environment, stdout=log, stderr=log, cwd=settings.BASE_DIR
            )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return self.process
            time.sleep(0.05)
        raise AssertionError(f"the web process does not answer:\n{self.log[-4000:]}")

    def stop(self) -> None:
        """Ask it to stop and wait until it has."""
        self.process.terminate()
        self.process.wait(timeout=15)

    @property
    def log(self) -> str:
        """What it has printed."""
        return self._log.read_text(errors="replace")


@dataclass(frozen=True)
class Service:
    """A PoisonAdmin and a token of it."""

    web: Web
    token: str
    journal_dir: Path

    def options(self, source: str, **more: Any) -> dict[str, Any]:
        """Return what a guard of the source is made with."""
        return {
            "url": self.web.url,
            "token": self.token,
            "source": source,
            "journal_dir": str(self.journal_dir),
            **more,
        }

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return what the API answers; fail when it is no success."""
        raw = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.web.url}/api/v1/{path}", raw, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
                content = answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{error.code}: {error.read()[:2000]!r}") from error
        return json.loads(content) if content else None

    def entries(self, source: str) -> dict[str, dict[str, Any]]:
        """Return the source's entries by bookmark."""
        found = self.ask("GET", f"poison-list/?source={source}&limit=500")["results"]
        return {entry["bookmark"]: entry for entry in found}

    def until_entry(self, source: str, bookmark: str, **values: Any) -> dict[str, Any]:
        """Return the entry once it is there and has these values."""
        found: dict[str, Any] = {}

        def is_there() -> bool:
            found.update(self.entries(source).get(bookmark, {}))
            return bool(found) and all(found[name] == value for name, value in values.items())

        until(is_there, lambda: found)
        return found

    def release(self, entry: dict[str, Any]) -> None:
        """Take an entry off the list."""
        self.ask("POST", f"poison-list/{entry['id']}/release/", {"reason": "repaired"})


class Consumer:
    """A consumer in a process of its own."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.poisonguard.consumer", json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=settings.BASE_DIR,
            text=True,
        )

    def tell(self, command: str) -> None:
        """Give a command and do not wait for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """Return the next answer; empty when the process has ended."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_SECONDS)
        assert ready, "the consumer says nothing"
        return self.process.stdout.readline().strip()

    def ask(self, command: str) -> str:
        """Give a command and return its answer."""
        self.tell(command)
        return self.answer()

    def end(self) -> None:
        """Kill it, if it is not dead already."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


@pytest.fixture(scope="session")
def web(test_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """Yield the running web process."""
    running = Web(test_database_url, tmp_path_factory.mktemp("web") / "web.log")
    yield running
    running.stop()


@pytest.fixture
def service(transactional_db: None, web: Web, tmp_path: Path) -> Service:
    """Return the running PoisonAdmin with a token of an operator; a test that failed may have left it stopped."""
    if web.process.poll() is not None:
        web.start()
    made = create_token(make_user("olga", Role.OPERATOR, []), "guard", scopes=list(Permission), by="test")
    return Service(web, made.text, tmp_path / "journals")


StartConsumer = Callable[..., Consumer]
MakeGuard = Callable[..., Guard]


@pytest.fixture
def start_consumer(service: Service) -> Iterator[StartConsumer]:
    """Start consumers of a source, each in a process of its own, with the list loaded."""
    started: list[Consumer] = []

    def start_one(source: str, *, is_started: bool = True, **options: Any) -> Consumer:
        consumer = Consumer(service.options(source, **options))
        started.append(consumer)
        if is_started:
            assert consumer.ask("start") == "started"
        return consumer

    yield start_one
    for consumer in started:
        consumer.end()


@pytest.fixture
def make_guard(service: Service) -> Iterator[MakeGuard]:
    """Make guards in this process; they are closed at the end."""
    made: list[Guard] = []

    def make_one(source: str, **options: Any) -> Guard:
        guard = Guard(**service.options(source, **options))
        made.append(guard)
        return guard

    yield make_one
    for guard in made:
        guard.close(0.1)


def until(is_true: Callable[[], object], otherwise: Callable[[], object] = lambda: "never") -> None:
    """Return once `is_true()`; fail with what `otherwise` returns when it takes too long."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.01)


def closed_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
