"""Keeps redelivery jobs going.

Claims what is due, runs each claim's Spark job on a driver thread, settles as outcomes arrive.
"""

import logging
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from django.db import close_old_connections, connections
from pyspark.sql import SparkSession

from poisonadmin.core.commands.locks import Tick, single_flight
from poisonadmin.delivery.commands.redelivery import (
    Redelivery,
    begin_redelivery,
    fail_redelivery,
    finish_redelivery,
    stop_claims,
)
from workers.crash_recovery import recover_here
from workers.heartbeat import WorkerHeartbeat
from workers.spark.jobs.redeliver import redeliver

# Jobs at once: one whose endpoint hangs must not keep the others waiting.
MAX_JOBS = 8
LOOK_SECONDS = 0.1
# It adds to the silence after which a dead node is noticed: 2 s in all (PERFORMANCE B11).
RECOVER_SECONDS = 0.25
TASKS_A_CLAIM = max(1, min(os.cpu_count() or 1, 8))

log = logging.getLogger(__name__)


class Dispatcher:
    """The redelivery of one worker process."""

    def __init__(self, spark: SparkSession, keeper: WorkerHeartbeat, worker: str) -> None:
        self._spark = spark
        self._keeper = keeper
        self._worker = worker
        self._threads = ThreadPoolExecutor(MAX_JOBS, thread_name_prefix="redeliver")
        self._active: set[int] = set()
        self._ended = threading.Event()
        self._stopping = threading.Event()

    def run_for(self, seconds: float) -> None:
        """Begin a job whenever something is due and there is room, for about `seconds`; jobs may go on after that."""
        until = time.monotonic() + seconds
        next_look = 0.0
        while time.monotonic() < until and not self._stopping.is_set():
            if len(self._active) < MAX_JOBS and self._begin():
                continue
            if self._active and time.monotonic() >= next_look:
                self._recover()
                next_look = time.monotonic() + RECOVER_SECONDS
            self._ended.wait(LOOK_SECONDS)
            self._ended.clear()

    def stop(self, seconds: float) -> None:
        """Begin nothing more, give what was begun `seconds` to end, then break off what is left."""
        self._stopping.set()
        self._ended.set()
        stop_claims(self._worker)
        until = time.monotonic() + seconds
        while self._active and time.monotonic() < until:
            time.sleep(0.05)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _recover(self) -> None:
        with single_flight(Tick.RECOVER) as alone:
            if alone:
                recover_here()

    def _begin(self) -> bool:
        redelivery = begin_redelivery(worker=self._worker, tasks=TASKS_A_CLAIM)
        if redelivery is None:
            return False
        self._keeper.hold(redelivery.job_id)
        self._active.add(redelivery.job_id)
        self._threads.submit(self._deliver, redelivery)
        return True

    def _deliver(self, redelivery: Redelivery) -> None:
        try:
            close_old_connections()
            tallies = redeliver(self._spark, claim_id=redelivery.claim.id, shards=redelivery.claim.shards)
            finish_redelivery(redelivery, tallies)
        except Exception as error:
            if self._stopping.is_set():
                log.info("redelivery job %s was broken off", redelivery.job_id)
            else:
                log.exception("redelivery job %s failed", redelivery.job_id)
            self._fail(redelivery, error)
        finally:
            self._active.discard(redelivery.job_id)
            self._keeper.release(redelivery.job_id)
            self._ended.set()
            close_old_connections()

    def _fail(self, redelivery: Redelivery, error: Exception) -> None:
        try:
            connections.close_all()
            fail_redelivery(redelivery, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        except Exception:
            log.exception("the end of job %s could not be written; recover will", redelivery.job_id)
