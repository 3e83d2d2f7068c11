"""The process from which Spark forks its Python workers, with what a task needs imported already.

Spark lets idle Python workers go after a minute; importing again would cost the next delivery more than a second of
processor time.

Spark Connect keeps such a process for each session, whatever `spark.sql.artifact.isolation.enabled` says (Spark 4.3),
and so for each start of a worker. It cannot know that the session is gone, so it ends when nothing has run for a while;
Spark starts another one when the session has a task after all.
"""
# ruff: noqa: E402  (what is shut out must be so before the first import)

import gc
import os
import signal
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from typing import Any

# No pool of threads for linear algebra, which nobody here does: what is forked should have no threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


# pyarrow would import pandas when it makes its first array, and PySpark where it finds it. Nobody here uses it, and it
# takes a second and 50 MB. Handlers have interpreters of their own.
class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not for tasks", name=name)


sys.meta_path.insert(0, _NoPandas())

import pyspark.daemon
import pyspark.sql.conversion
import pyspark.worker

import workers.spark.tables.source

# Spark asks our tables what they can answer, and in which parts, in processes of their own, which do nothing else.
if not any(argument.startswith("pyspark.sql.worker.") for argument in sys.argv):
    import workers.delivery.shard
    import workers.spark.jobs.drain
    import workers.spark.jobs.ingest
    import workers.spark.jobs.redeliver
    import workers.spark.jobs.search  # noqa: F401

_CHECK_SECONDS = 20.0
_MOST_EMPTY_CHECKS = 6
_empty_checks = 0


def _end_when_unused(*_: object) -> None:
    """End this process when it has had no child for some checks; a child that has ended is gone, as SIGCHLD is ignored.

    A task that asks at this very moment is tried again.
    """
    global _empty_checks
    try:
        os.waitpid(-1, os.WNOHANG)
        _empty_checks = 0
    except ChildProcessError:
        _empty_checks += 1
    if _empty_checks >= _MOST_EMPTY_CHECKS:
        os.kill(os.getpid(), signal.SIGTERM)  # it removes its socket


def _watch_children() -> None:
    signal.signal(signal.SIGALRM, _end_when_unused)
    signal.setitimer(signal.ITIMER_REAL, _CHECK_SECONDS, _CHECK_SECONDS)  # a fork does not inherit it


def ending_quietly(worker: Callable[..., int]) -> Callable[..., int]:
    """Return what a fork runs, without a traceback where Spark has let go of it meanwhile and hears no answer."""

    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except BrokenPipeError:
            return 1

    return run


if __name__ == "__main__":
    if os.environ.get("SPARK_JOB_ARTIFACT_UUID", "default") != "default":  # it belongs to one session
        _watch_children()
    # The collector writes into every object that it looks at, and so would copy for each fork what all could share.
    gc.collect()
    gc.freeze()
    # Rows have no cycles: to look for some among each 700 new objects takes a tenth of a task's time.
    gc.set_threshold(50_000)
    pyspark.daemon.worker = ending_quietly(pyspark.daemon.worker)
    pyspark.daemon.manager()
