"""Keeps redelivery going: claims what is due, sees to it that tasks deliver it, settles what they delivered.

Recovery on this machine reads the journals that its sandboxes have left behind.
"""

import logging
import platform
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import psycopg
from django.db import close_old_connections, connections

from poisonadmin.core.commands.locks import Tick, single_flight
from poisonadmin.core.domain.errors import error_text
from poisonadmin.core.domain.locks import DUE_CHANNEL
from poisonadmin.core.domain.spark_settings import MOST_DELIVERY_TASKS
from poisonadmin.core.queries.read_only import read_only_mode
from poisonadmin.delivery.commands.claim import seconds_until_due
from poisonadmin.delivery.commands.recovery import LeftBehind, LostNode, StillDelivers, recover, search_lost_nodes
from poisonadmin.delivery.commands.redelivery import (
    Redelivery,
    begin_redelivery,
    fail_redelivery,
    finish_redelivery,
    shards_left,
    stop_claims,
)
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.delivery.domain.lease import HeldFor
from poisonadmin.runs.commands.worker_runs import RunHeartbeat
from workers.delivery.begun import begun_of
from workers.delivery.handler.children import end_sandboxes_of
from workers.delivery.handler.journals import attempts_left_behind, journal_directory, node_ids, remove_journals
from workers.delivery.sessions import Sessions, listen, wait_for_notification
from workers.delivery.task import MOST_WAITING


def recover_here() -> None:
    """Settle what is answered, and give back what dead nodes held, of this machine's also what they had begun."""
    recover()
    if search_lost_nodes(platform.node(), LocalJournals()):
        settle()


class LocalJournals:
    """Those in POISONADMIN_HOME. A node's own directory is read where it names another."""

    def read(self, node: LostNode, held: Mapping[int, HeldFor]) -> LeftBehind | None:
        """Return what the node has noted; None when its files are not there. Errors: `StillDelivers`.

        What its sandboxes have left behind is ended.
        """
        # That of a restored backup has its process in another installation, which goes on.
        may_begin = node.may_begin and Path(node.journals) == journal_directory()
        try:
            begun = begun_of(Path(node.journals), node.id, may_begin=may_begin)
        except BlockingIOError as error:
            raise StillDelivers from error
        end_sandboxes_of(Path(node.journals), node.id)
        rows = attempts_left_behind(
            Path(node.journals),
            node_id=node.id,
            name=node.name,
            claim_id=node.claim_id,
            shard=node.shard,
            destinations=held,
        )
        return None if rows is None or begun is None else LeftBehind([asdict(row) for row in rows], begun)

    def forget(self, node_id: int) -> None:
        """Remove the node's journals."""
        remove_journals(node_id)

    def node_ids(self) -> set[int]:
        """Return the nodes that have journals here."""
        return node_ids(journal_directory())


# Eight claims at once that begin deliveries, or more small ones; those that only wait for answers are not counted.
CLAIMS = 8
TASKS_A_CLAIM = MOST_DELIVERY_TASKS // CLAIMS
# A check without a notification: while claims are delivered their room changes, and a notification may be lost.
CHECK_SECONDS = 0.1
IDLE_CHECK_SECONDS = 1.0
# It adds to the silence after which a dead node is noticed: 2 s in all (benchmark B11).
RECOVER_SECONDS = 0.25
# With nothing to deliver, one waits: a message alone is delivered without the start of a Spark job.
TASKS_KEPT = 1
# A task may be stuck, and then it is none: so long after a shard has been left alone another task is started.
UNTAKEN_SECONDS = 1.0
# Between the failure of a task and the start of the next.
PAUSE_SECONDS = 1.0

log = logging.getLogger(__name__)


class DeliveryTasks:
    """`run` runs one task to its end, in a thread; at most `limit` at a time."""

    def __init__(self, run: Callable[[], object], *, limit: int) -> None:
        self._run = run
        self._limit = limit
        self._threads = ThreadPoolExecutor(limit, thread_name_prefix="delivery-task")
        self._running: set[Future[object]] = set()
        self._untaken_since: float | None = None
        self._paused_until = 0.0

    def supply(self, *, untaken: int, taken: int) -> str | None:
        """Start the tasks that are missing; return why one has failed since the last call, None when none has.

        `untaken`: the shards that wait for a task. `taken`: those in which a task begins deliveries.
        """
        error = self._reap()
        now = time.monotonic()
        if not untaken or self._untaken_since is None:
            self._untaken_since = now if untaken else None
        if now >= self._paused_until:
            for _ in range(min(self._missing(untaken, taken, now), self._limit - len(self._running))):
                self._running.add(self._threads.submit(self._run))
        return error

    def stop(self) -> None:
        """Start nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _missing(self, untaken: int, taken: int, now: float) -> int:
        free = len(self._running) - taken
        missing = max(untaken - free, TASKS_KEPT - len(self._running), 0)
        if self._untaken_since is not None and now - self._untaken_since > UNTAKEN_SECONDS:
            self._untaken_since = now
            return max(missing, 1)
        return missing

    def _reap(self) -> str | None:
        why = None
        for ended in [one for one in self._running if one.done()]:
            self._running.discard(ended)
            if (error := ended.exception()) is not None:
                why = error_text(error)
                log.error("a delivery task failed: %s", why)
                self._paused_until = time.monotonic() + PAUSE_SECONDS
        return why


class Dispatcher:
    """The redelivery of one worker process. `run_task` runs one delivery task to its end (workers/delivery/task.py)."""

    def __init__(self, run_task: Callable[[], object], heartbeat: RunHeartbeat, worker: str, dsn: str) -> None:
        self._heartbeat = heartbeat
        self._worker = worker
        self._sessions = Sessions(dsn)
        self._is_listening = False
        self._tasks = DeliveryTasks(run_task, limit=MOST_DELIVERY_TASKS)
        self._threads = ThreadPoolExecutor(CLAIMS, thread_name_prefix="redelivery")
        self._active: dict[int, Redelivery] = {}
        self._ending: set[int] = set()
        # Those that have a task to themselves, or wait for one; and all that have not ended.
        self._shards = (0, 0)
        self._one_at_a_time = threading.Lock()
        self._stopping = threading.Event()
        self._next_recovery = 0.0

    def run_for(self, seconds: float) -> None:
        """Claim whenever something is due and there is room, for about `seconds`; what is claimed goes on after it."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._stopping.is_set():
            idle_seconds = self._check()
            if self._active and time.monotonic() >= self._next_recovery:
                self._recover()
                self._next_recovery = time.monotonic() + RECOVER_SECONDS
            self._wait(min(left, idle_seconds))

    def stop(self, seconds: float) -> None:
        """Claim nothing more, give what was claimed `seconds` to end, then leave it to `recover`."""
        self._stopping.set()
        stop_claims(self._worker)
        until = time.monotonic() + seconds
        while self._active and time.monotonic() < until:
            self._end_what_is_delivered()
            time.sleep(0.05)
        self._tasks.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _check(self) -> float:
        """Begin what can be begun, end what is delivered; return the seconds until the next check."""
        due_in = seconds_until_due()
        if read_only_mode():
            stop_claims(self._worker)
            due_in = None
        while due_in is not None and due_in <= 0 and self._has_room() and self._begin():
            due_in = seconds_until_due()
        self._end_what_is_delivered()
        if self._active or (due_in is not None and due_in <= 0):
            return CHECK_SECONDS
        return IDLE_CHECK_SECONDS if due_in is None else min(due_in, IDLE_CHECK_SECONDS)

    def _wait(self, seconds: float) -> None:
        try:
            session = self._sessions.reader()
            if not self._is_listening:
                listen(session, DUE_CHANNEL)
                self._is_listening = True
            wait_for_notification(session, seconds)
        except psycopg.Error:  # the next check says what is wrong with the database
            self._sessions.close()
            self._is_listening = False
            self._stopping.wait(CHECK_SECONDS)

    def _has_room(self) -> bool:
        """Return whether another claim would find tasks."""
        busy, unended = self._shards
        return busy + TASKS_A_CLAIM <= MOST_DELIVERY_TASKS and unended < MOST_DELIVERY_TASKS * MOST_WAITING

    def _recover(self) -> None:
        with single_flight(Tick.RECOVER) as alone:
            if alone:
                recover_here()

    def _begin(self) -> bool:
        redelivery = begin_redelivery(worker=self._worker, tasks=TASKS_A_CLAIM)
        if redelivery is None:
            return False
        self._heartbeat.hold(redelivery.job_id)
        self._active[redelivery.job_id] = redelivery
        count = len(redelivery.claim.shards)
        self._shards = (self._shards[0] + count, self._shards[1] + count)
        return True

    def _end_what_is_delivered(self) -> None:
        """End the redeliveries whose nodes have ended, and have tasks for the shards of the others."""
        with self._one_at_a_time:
            going = [one for job_id, one in list(self._active.items()) if job_id not in self._ending]
            left = shards_left(going) if going else []
            untaken = sum(shards.untaken for _, shards in left)
            taken = sum(shards.beginning for _, shards in left)
            self._shards = (untaken + taken, sum(shards.unended for _, shards in left))
            error = None if self._stopping.is_set() else self._tasks.supply(untaken=untaken, taken=taken)
            for redelivery, shards in left:
                if shards.unended == 0:
                    self._end(redelivery, None)
                elif shards.untaken and error is not None:
                    self._end(redelivery, error)

    def _end(self, redelivery: Redelivery, error: str | None) -> None:
        self._ending.add(redelivery.job_id)
        if self._stopping.is_set():  # the process may be over so soon that its threads take nothing more
            self._finish(redelivery, error)
        else:
            self._threads.submit(self._finish, redelivery, error)

    def _finish(self, redelivery: Redelivery, error: str | None) -> None:
        try:
            close_old_connections()
            if error is None:
                finish_redelivery(redelivery)
            else:
                fail_redelivery(redelivery, error)
        except Exception as unfinished:
            log.exception("the end of job %s could not be written", redelivery.job_id)
            self._fail(redelivery, unfinished)
        finally:
            self._active.pop(redelivery.job_id, None)
            self._ending.discard(redelivery.job_id)
            self._heartbeat.release(redelivery.job_id)
            close_old_connections()

    def _fail(self, redelivery: Redelivery, error: Exception) -> None:
        try:
            connections.close_all()
            fail_redelivery(redelivery, error_text(error))
        except Exception:
            log.exception("the end of job %s could not be written; recover will", redelivery.job_id)
