"""API, redelivery and recovery in the tests' process: all that `make up` runs for a delivery but Celery and Spark.

What Spark does is little: it runs delivery tasks in Python processes of its own, and so does `run_task`.
"""

import json
import platform
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connections
from django.test import Client

from poisonadmin.decisions.operations.commands.operations import carry_on
from poisonadmin.decisions.restart_jobs.commands import run_due
from poisonadmin.delivery.commands.recovery import recover, search_lost_nodes
from poisonadmin.delivery.commands.settle import settle
from tests.conformance.task_process import run_task
from tests.fixtures.api import API
from tests.whole_system.installation import PoisonAdmin, Reply
from workers import spark_worker
from workers.dispatcher import Dispatcher, LocalJournals
from workers.heartbeat import WorkerHeartbeat

WORKER = "local-redelivery"
JOB = ("redeliver", WORKER, "succeeded")
TICK_SECONDS = 0.3


class LocalRedelivery(PoisonAdmin):
    """PoisonAdmin on the tests' database."""

    def __init__(self, home: Path, database_url: str, token: str) -> None:
        self.home = home
        self._database_url = database_url
        self._token = token
        self._session = psycopg.connect(database_url, autocommit=True)
        self._thread = ThreadPoolExecutor(2, thread_name_prefix="local-redelivery")
        self.start()

    def ask(self, method: str, path: str, body: Any = None) -> Reply:
        """Send a request through all of Django and return the answer, whatever its status."""
        answer = Client(raise_request_exception=False).generic(
            method,
            f"{API}/{path}",
            b"" if body is None else json.dumps(body),
            content_type="application/json",
            headers={"Authorization": f"Bearer {self._token}"},
        )
        return Reply(answer.status_code, answer.getvalue(), dict(answer.headers))

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a query on the database; fail with its error when the redelivery has ended by itself."""
        for running in self._running:
            if running.done():
                running.result()
        return self._session.execute(query, values or None).fetchall()  # type: ignore[arg-type]

    def start(self) -> None:
        """Deliver from now on."""
        self._heartbeat = WorkerHeartbeat(self._database_url, WORKER)
        url = self._database_url
        self._dispatcher = Dispatcher(partial(run_task, url, self._heartbeat.instance), self._heartbeat, WORKER, url)
        self._is_stopping = threading.Event()
        self._running: list[Future[None]] = [self._thread.submit(each) for each in (self._run, self._carry_on)]

    def stop(self) -> None:
        """Begin nothing more, and return when what was under way has ended or was broken off."""
        try:
            self._dispatcher.stop(spark_worker.STOP_SECONDS)
            self._is_stopping.set()
            for running in self._running:
                running.result()
            self._dispatcher._threads.shutdown()
            self._dispatcher._sessions.close()
        finally:
            self._heartbeat.stop()

    def restart(self) -> None:
        """Stop and start as a worker does that is asked to end and is then started again."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End everything."""
        try:
            self.stop()
            self._dispatcher._tasks._threads.shutdown()
        finally:
            self._thread.shutdown()
            self._session.close()

    def _run(self) -> None:
        """Do what Celery's beat has workers do for a delivery."""
        try:
            with pytest.MonkeyPatch.context() as patched:
                # The dispatcher's threads keep no session of a database that is to be dropped.
                patched.setitem(connections["default"].settings_dict, "CONN_MAX_AGE", 0)
                while not self._is_stopping.is_set():
                    self._dispatcher.run_for(TICK_SECONDS)
                    recover()
                    if search_lost_nodes(platform.node(), LocalJournals()):
                        settle()
        finally:
            connections.close_all()

    def _carry_on(self) -> None:
        """Do meanwhile what the beat has another worker do for decisions."""
        try:
            while not self._is_stopping.wait(TICK_SECONDS):
                run_due()
                carry_on()
        finally:
            connections.close_all()
