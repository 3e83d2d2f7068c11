"""Delivery tasks as in Spark: in processes without Django, forked from one that has all imported."""

import multiprocessing
import os

from workers.delivery.task import serve

IDLE_SECONDS = 5.0

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


def run_task(database_url: str, instance: int) -> None:
    """Run a delivery task in a process until nothing was left for it; when it dies another one goes on, as in Spark."""
    while _run_once(database_url, instance) != 0:
        pass


def _run_once(database_url: str, instance: int) -> int | None:
    process = _processes.Process(target=_serve, args=(dict(os.environ), database_url, instance), daemon=True)
    process.start()
    process.join()
    return process.exitcode


def _serve(environment: dict[str, str], database_url: str, instance: int) -> None:
    os.environ.update(environment)
    serve(database_url, instance=instance, idle_seconds=IDLE_SECONDS)
