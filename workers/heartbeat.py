"""Says that a worker and its jobs are alive, from a thread of its own, however busy the worker is."""

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
    """Holds the advisory lock of each job given to `hold` and moves its heartbeat until `release`.

    `instance`: the number of this start of the worker, whose advisory lock is held as long as it lives.
    """

    def __init__(self, dsn: str, worker: str) -> None:
        self._dsn = dsn
        self._worker = worker
        self.instance = secrets.randbits(31)
        self._jobs: set[int] = set()
        self._locked: set[int] = set()
        self._change = threading.Event()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self._thread.start()

    def hold(self, job_id: int) -> None:
        """Keep the job alive from now on."""
        self._jobs.add(job_id)
        self._change.set()

    def release(self, job_id: int) -> None:
        """Let go of a job that has ended."""
        self._jobs.discard(job_id)
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
            except psycopg.Error as error:  # of any kind: a thread that ends here would let every job be taken for dead
                log.warning("the database does not answer as it should: %s", str(error).splitlines()[0])
                connection = None
            self._change.wait(HEARTBEAT_SECONDS)
            self._change.clear()
        if connection is not None:
            connection.close()

    def _beat(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        jobs = set(self._jobs)
        for job_id in jobs - self._locked:
            connection.execute("SELECT pg_try_advisory_lock(%s, %s)", [Lock.JOB, lock_key(job_id)])
        for job_id in self._locked - jobs:
            connection.execute("SELECT pg_advisory_unlock(%s, %s)", [Lock.JOB, lock_key(job_id)])
        self._locked = jobs
        if jobs:
            connection.execute("UPDATE job SET heartbeat_at = now() WHERE id = ANY(%s)", [list(jobs)])
            # Those that were cancelled between two turns are nobody's any more.
            ended = connection.execute(
                "SELECT id FROM job WHERE id = ANY(%s) AND finished_at IS NOT NULL", [list(jobs)]
            )
            self._jobs.difference_update(row[0] for row in ended.fetchall())
        connection.execute(_WORKER, [self._worker, platform.node(), os.getpid()])
