"""PostgreSQL and Valkey only, for tests and benchmarks."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

from poisonadmin.embedded import postgres as embedded_postgres
from poisonadmin.embedded.processes import NotReady, spawn
from poisonadmin.embedded.services import Valkey, prepare_valkey

Server = TypeVar("Server", embedded_postgres.Postgres, Valkey)

_PORT_ATTEMPTS = 5
_START_SECONDS = 60.0


@dataclass(frozen=True)
class Services:
    """A running PostgreSQL and a running Valkey."""

    database_url: str  # as the owner of the tables, who may make databases
    superuser_url: str
    redis_url: str
    server: embedded_postgres.Postgres  # its `url` is that of the role that PoisonAdmin runs as
    postgres: subprocess.Popen[bytes]
    valkey: subprocess.Popen[bytes]
    stop: Callable[[], None]


def start_services(home: Path, *, durable: bool = True) -> Services:
    """Start PostgreSQL and Valkey with their files in `home`, and return when both answer.

    They end with the calling process, however it ends; call from the main thread. With `durable=False` the database
    is quicker and not safe against a crash, and `stop()` removes its files. Output goes to `home/<name>.log`.
    """
    home.mkdir(parents=True, exist_ok=True)
    postgres, postgres_process = _start(home, lambda: embedded_postgres.prepare(home, durable=durable))
    try:
        valkey, valkey_process = _start(home, lambda: prepare_valkey(home))
    except BaseException:
        _stop_postgres(postgres_process)
        raise

    def stop_both() -> None:
        _stop(valkey_process, [(signal.SIGTERM, 3)])
        _stop_postgres(postgres_process)
        if not durable:
            shutil.rmtree(postgres.data.parent, ignore_errors=True)

    if not durable:
        (postgres.data.parent / "throwaway").write_text(str(os.getpid()))
        _remove_abandoned(postgres.data.parent.parent)
    postgres.separate_roles()
    return Services(
        postgres.owner_url, postgres.superuser_url, valkey.url, postgres, postgres_process, valkey_process, stop_both
    )


def _stop_postgres(process: subprocess.Popen[bytes]) -> None:
    _stop(process, [(signal.SIGINT, embedded_postgres.STOP_SECONDS), (signal.SIGQUIT, 3)])


def _start(home: Path, prepare: Callable[[], Server]) -> tuple[Server, subprocess.Popen[bytes]]:
    """Start a server on a free port, and on another one when that was taken in the meantime."""
    attempts = iter(range(_PORT_ATTEMPTS - 1, -1, -1))
    while True:
        server = prepare()
        with (home / f"{server.spec.name}.log").open("ab") as log:
            process = spawn(server.spec, log)
        try:
            _wait_until_ready(server.spec.name, process, server.is_ready, seconds=_START_SECONDS)
            return server, process
        except BaseException as error:
            _stop(process, [(server.spec.stop_signal, 3)])
            if not isinstance(error, NotReady) or not next(attempts):
                raise


def _stop(process: subprocess.Popen[bytes], steps: Sequence[tuple[signal.Signals, float]]) -> None:
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


def _wait_until_ready(
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


def _remove_abandoned(directory: Path) -> None:
    """Remove the throwaway files in `directory` whose test run was killed."""
    for mark in directory.glob("*/throwaway"):
        with contextlib.suppress(OSError, ValueError):
            if not psutil.pid_exists(int(mark.read_text())):
                shutil.rmtree(mark.parent, ignore_errors=True)
