"""A Celery worker that drives Spark: its session, its heartbeat, its end. One a process, made before any thread."""

import logging
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from poisonadmin.core.domain.secret_settings import database_url
from poisonadmin.core.domain.spark_settings import LOCAL_BATCH_MASTER, LOCAL_MASTER, SHORT_JOBS
from poisonadmin.destinations.domain.handler_config import UnknownSandboxUser, handler_directories
from workers.delivery.handler.destination import UnusableSandboxUser, choose_account
from workers.dispatcher import Dispatcher
from workers.heartbeat import WorkerHeartbeat
from workers.spark.jobs.redeliver import run_delivery_task
from workers.spark.session import awaited_url, is_here, remote_url, start_session, warm_up

STOP_SECONDS = 6.0
BATCH = "spark-batch"  # the worker's kind
# A server that says where it is after each start need not be asked often.
SERVER_CHECK_SECONDS, EMBEDDED_CHECK_SECONDS = 2.0, 30.0
ADDRESS_CHECK_SECONDS = 0.25
EXIT_JVM_DIED = 70
EXIT_NO_SPARK = 71

log = logging.getLogger(__name__)


class SparkWorker:
    """The session and heartbeat of a solo worker process, for its lifetime. `name`: as Celery has it, kind@host."""

    def __init__(self, name: str) -> None:
        started = time.monotonic()
        self.name = name
        self._kind = name.partition("@")[0]
        self._is_stopping = False
        self._remote = remote_url() and awaited_url()
        if self._remote:
            # From the beginning: the client would ask a server that has gone meanwhile for ten minutes.
            self._watch(self._end_with_the_address)
        is_batch = self._kind == BATCH
        self.spark: SparkSession = start_session(
            self._kind,
            local=LOCAL_BATCH_MASTER if is_batch else LOCAL_MASTER,
            java_options=() if is_batch else SHORT_JOBS,
        )
        warm_up(self.spark)
        self._say_if_nobody_runs_handlers()
        url = database_url(os.environ)
        self.heartbeat = WorkerHeartbeat(url, name)
        self.dispatcher = Dispatcher(
            partial(run_delivery_task, self.spark, self.heartbeat.instance), self.heartbeat, name, url
        )
        self._watch(self._end_with_the_session if self._remote else self._end_with_the_jvm)
        log.info("Spark %s is ready after %.1f s", self.spark.version, time.monotonic() - started)

    def _watch(self, watch: Callable[[], None]) -> None:
        threading.Thread(target=watch, name="spark-watch", daemon=True).start()

    def _say_if_nobody_runs_handlers(self) -> None:
        roots = [] if self._kind == BATCH else [str(root) for root in handler_directories(os.environ)]
        try:
            if roots:
                choose_account(os.environ, roots)
        except (UnknownSandboxUser, UnusableSandboxUser) as error:
            log.warning("handlers are not run: %s", error)

    @property
    def is_stopping(self) -> bool:
        """True when the process is to end."""
        return self._is_stopping

    def stop(self) -> None:
        """Stop what runs, within `STOP_SECONDS`.

        Nothing more begins, what was begun gets a moment, the rest is cancelled.
        """
        if self._is_stopping:
            return
        self._is_stopping = True
        self.dispatcher.stop(STOP_SECONDS)
        if self._remote:
            self.spark.interruptAll()
        else:
            self.spark.sparkContext.cancelAllJobs()

    def _end_with_the_jvm(self) -> None:
        """Leave when the JVM has died: nothing works without it, and the supervisor starts a new process."""
        gateway: Any = self.spark.sparkContext._gateway  # noqa: SLF001  (no public way to ask)
        jvm = gateway.proc
        jvm.wait()
        if not self._is_stopping:
            log.critical("the JVM has died (exit code %s); this worker ends and is started again", jvm.returncode)
            os._exit(EXIT_JVM_DIED)

    def _end_with_the_session(self) -> None:
        """Leave when the Connect server no longer knows our session: a server that was started again has another one.

        While the server is away the client tries again by itself, and so does this.
        """
        seconds = EMBEDDED_CHECK_SECONDS if is_here(self._remote) else SERVER_CHECK_SECONDS
        while not self._is_stopping:
            time.sleep(seconds)
            try:
                self.spark.conf.get("spark.speculation", "false")
            except Exception as error:
                self._end_without_server(str(error).splitlines()[0])

    def _end_with_the_address(self) -> None:
        """Leave when the address of the Connect server has changed: an embedded one that was started again says so."""
        while remote_url() == self._remote:
            time.sleep(ADDRESS_CHECK_SECONDS)
        self._end_without_server("it was started again")

    def _end_without_server(self, why: str) -> None:
        if not self._is_stopping:
            log.critical("Spark Connect has lost our session: %s; this worker ends and is started again", why)
            os._exit(EXIT_JVM_DIED)


_worker: SparkWorker | None = None


def start(name: str) -> None:
    """Make this process's Spark worker; end the process when Spark does not start, so that it is started again.

    Celery calls this as a signal's receiver: it would write the error down and go on as a worker that can do nothing.
    """
    global _worker
    try:
        _worker = SparkWorker(name)
    except Exception:
        log.critical("Spark does not start; this worker ends and is started again", exc_info=True)
        os._exit(EXIT_NO_SPARK)


def current() -> SparkWorker:
    """Return this process's Spark worker; an error in a process that is none."""
    if _worker is None:
        raise RuntimeError("this worker has no Spark: start it with --pool=solo on a spark- queue")
    return _worker


def stop() -> None:
    """Stop this process's Spark worker, if it is one."""
    if _worker is not None:
        _worker.stop()
