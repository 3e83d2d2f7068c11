"""The delivery tasks of one worker: as many as have a shard to deliver, and one that waits for the next click."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from poisonadmin.core.commands.jobs import error_text

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
