"""Says that a worker and its runs are alive, from a thread of its own, however busy the worker is."""

import logging
import os
import platform
import secrets
import threading

import psycopg

from poisonadmin.core.domain.locks import Lock, lock_key
from poisonadmin.delivery.domain.lease import HEARTBEAT_SECONDS

_WORKER = """
INSERT INTO worker (name, host, pid) VALUES (%s, %s, %s)
ON CONFLICT (name) DO UPDATE SET host = excluded.host, pid = excluded.pid, heartbeat_at = now(),
    started_at = CASE WHEN worker.pid = excluded.pid THEN worker.started_at ELSE now() END
"""

log = logging.getLogger(__name__)


class WorkerHeartbeat:
    """Holds the advisory lock of each run given to `hold` and moves its heartbeat until `release`.

    `instance`: the number of this start of the worker, whose advisory lock is held as long as it lives.
    """

    def __init__(self, dsn: str, worker: str) -> None:
        self._dsn = dsn
        self._worker = worker
        self.instance = secrets.randbits(31)
        self._runs: set[int] = set()
        self._locked: set[int] = set()
        self._change = threading.Event()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def hold(self, run_id: int) -> None:
        """Keep the run alive from now on."""
        self._runs.add(run_id)
        self._change.set()

    def release(self, run_id: int) -> None:
        """Let go of a run that has ended."""
        self._runs.discard(run_id)
        self._change.set()

    def stop(self) -> None:
        """Let go of everything."""
        self._is_over = True
        self._change.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        connection: psycopg.Connection[tuple[object, ...]] | None = None
        while not self._is_over:
            try:
                if connection is None or connection.closed or connection.broken:
                    connection = psycopg.connect(
                        self._dsn, autocommit=True, connect_timeout=5, application_name=f"poisonadmin {self._worker}"
                    )
                    self._locked.clear()
                    connection.execute("SELECT pg_try_advisory_lock(%s, %s)", [Lock.WORKER, self.instance])
                self._beat(connection)
            except psycopg.Error as error:  # of any kind: a thread that ends here would let every run be taken for dead
                log.warning("the database does not answer as it should: %s", str(error).splitlines()[0])
                connection = None
            self._change.wait(HEARTBEAT_SECONDS)
            self._change.clear()
        if connection is not None:
            connection.close()

    def _beat(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        runs = set(self._runs)
        for run_id in runs - self._locked:
            connection.execute("SELECT pg_try_advisory_lock(%s, %s)", [Lock.RUN, lock_key(run_id)])
        for run_id in self._locked - runs:
            connection.execute("SELECT pg_advisory_unlock(%s, %s)", [Lock.RUN, lock_key(run_id)])
        self._locked = runs
        if runs:
            connection.execute("UPDATE run SET heartbeat_at = now() WHERE id = ANY(%s)", [list(runs)])
            # Those that were cancelled between two turns are nobody's any more.
            ended = connection.execute("SELECT id FROM run WHERE id = ANY(%s) AND ended_at IS NOT NULL", [list(runs)])
            self._runs.difference_update(row[0] for row in ended.fetchall())
        connection.execute(_WORKER, [self._worker, platform.node(), os.getpid()])
