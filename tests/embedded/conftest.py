"""A way to start supervisors that are gone when the test is over."""

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from poisonadmin.embedded.ports import free_port
from tests.embedded.running import Running
from tests.services import Services

Start = Callable[..., Running]


@pytest.fixture
def start_all(tmp_path: Path) -> Iterator[Start]:
    """Start a supervisor with PostgreSQL and Valkey, on a home and a port of its own unless they are named."""
    with _starting(tmp_path) as begin:
        yield begin


@pytest.fixture
def start_small(tmp_path: Path, services: Services) -> Iterator[Start]:
    """Start a supervisor of the small programs alone: the tests' PostgreSQL and Valkey run already."""
    urls = {"DATABASE_URL": services.database_url, "REDIS_URL": services.redis_url}
    with _starting(tmp_path) as begin:
        yield lambda **options: begin(**urls, **options)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A supervisor with PostgreSQL and Valkey that the tests of a module share; what they do to it must heal."""
    with _starting(tmp_path_factory.mktemp("shared")) as begin:
        shared = begin()
        shared.until("last is up")
        yield shared


@contextlib.contextmanager
def _starting(directory: Path) -> Iterator[Start]:
    started: list[Running] = []

    def begin(home: Path | None = None, port: int | None = None, **options: str) -> Running:
        running = Running(home or directory / "home", port or free_port(), **options)
        started.append(running)
        return running

    try:
        yield begin
    finally:
        for running in started:
            if running.process.poll() is None:
                os.killpg(running.process.pid, signal.SIGKILL)
                running.process.wait()
        for running in started:
            running.until_none_left()
        for link in {running.home / "postgres" for running in started}:
            if link.is_symlink():
                shutil.rmtree(link.readlink(), ignore_errors=True)
