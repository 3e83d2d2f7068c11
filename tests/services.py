"""PostgreSQL and Valkey only, for tests and benchmarks."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

from poisonadmin.embedded import postgres as embedded_postgres
from poisonadmin.embedded.processes import NotReady, spawn, stop, wait_until_ready
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
        stop(valkey_process, [(signal.SIGTERM, 3)])
        _stop_postgres(postgres_process)
        if not durable:
            shutil.rmtree(postgres.data.parent, ignore_errors=True)

    if not durable:
        (postgres.data.parent / "throwaway").write_text(str(os.getpid()))
        _remove_abandoned(postgres.data.parent.parent)
    postgres.separate_roles()
    return Services(postgres.owner_url, postgres.superuser_url, valkey.url, postgres_process, valkey_process, stop_both)


def _stop_postgres(process: subprocess.Popen[bytes]) -> None:
    stop(process, [(signal.SIGINT, embedded_postgres.STOP_SECONDS), (signal.SIGQUIT, 3)])


def _start(home: Path, prepare: Callable[[], Server]) -> tuple[Server, subprocess.Popen[bytes]]:
    """Start a server on a free port, and on another one when that was taken in the meantime."""
    attempts = iter(range(_PORT_ATTEMPTS - 1, -1, -1))
    while True:
        server = prepare()
        with (home / f"{server.spec.name}.log").open("ab") as log:
            process = spawn(server.spec, log)
        try:
            wait_until_ready(server.spec.name, process, server.is_ready, seconds=_START_SECONDS)
            return server, process
        except BaseException as error:
            stop(process, [(server.spec.stop_signal, 3)])
            if not isinstance(error, NotReady) or not next(attempts):
                raise


def _remove_abandoned(directory: Path) -> None:
    """Remove the throwaway files in `directory` whose test run was killed."""
    for mark in directory.glob("*/throwaway"):
        with contextlib.suppress(OSError, ValueError):
            if not psutil.pid_exists(int(mark.read_text())):
                shutil.rmtree(mark.parent, ignore_errors=True)
