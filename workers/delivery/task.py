"""A delivery task: takes shards as claims are made, one after the other, until none has come for a while.

While a shard only waits for answers the task takes another one, so that endpoints that hang do not use up the tasks.

It runs in a Spark task, whose start would cost a single message more than its delivery. Which shards wait is in the
database, and the row of a node is the fence as ever, so that it does not matter which task takes a shard.
"""

import logging
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Self

import psycopg

from poisonadmin.core.domain.locks import SHARD_CHANNEL, Lock
from workers.delivery.sessions import Session, Sessions, listen, wait_for_notification
from workers.delivery.shard import deliver_shard

# An endpoint that hangs holds a shard, and a session of its node, for as long as its time-out.
MOST_WAITING = 5


class Shards:
    """Delivers shards, one after the other, each in a thread. `taken` counts them. On exit all have ended."""

    def __init__(self, sessions: Sessions) -> None:
        self.taken = 0
        self._sessions = sessions
        self._idle: list[Sessions] = []
        self._running: set[Future[bool]] = set()
        self._threads = ThreadPoolExecutor(MOST_WAITING + 1, thread_name_prefix="shard")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()
        for sessions in self._idle:
            sessions.close()

    @property
    def are_under_way(self) -> bool:
        """Return whether any waits for an answer."""
        return bool(self._running)

    def deliver(self, claim_id: int, shard: int) -> None:
        """Deliver a shard; return when it has ended, or only waits for answers and another one may begin beside it.

        Errors: those of `deliver_shard`, of any shard that has ended since the last call.
        """
        own = self._idle.pop() if self._idle else self._sessions.beside()
        only_waits: Future[bool] = Future()
        running = self._threads.submit(self._deliver, own, claim_id, shard, only_waits)
        self._running.add(running)
        wait({running, only_waits}, return_when=FIRST_COMPLETED)
        if len(self._running) > MOST_WAITING:
            wait(self._running, return_when=FIRST_COMPLETED)
        self.reap()

    def reap(self) -> None:
        """Count the shards that have ended. Errors: as `deliver`."""
        ended = {one for one in self._running if one.done()}
        self._running -= ended
        for one in ended:
            self.taken += one.result()

    def _deliver(self, own: Sessions, claim_id: int, shard: int, only_waits: "Future[bool]") -> bool:
        try:
            return deliver_shard(own, claim_id=claim_id, shard=shard, waits=lambda: only_waits.set_result(True))
        finally:
            self._idle.append(own)


# How long a task that nothing is left for stays.
IDLE_SECONDS = 60.0
# A notification may be lost with its session.
CHECK_SECONDS = 5.0
RETRY_SECONDS = 0.5
# A shard may still wait for answers when the task would end.
REAP_SECONDS = 0.5

# Whether the worker lives, and the shard that has waited longest for a node.
_NEXT = """
SELECT EXISTS (
    SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND classid = %s AND objid = %s AND granted
), waiting.*
FROM (SELECT) AS always LEFT JOIN (
    SELECT claim_id, shard FROM claim_shard JOIN claim ON claim.id = claim_id
    WHERE claim.is_open AND NOT EXISTS (
        SELECT FROM node WHERE node.claim_id = claim_shard.claim_id AND node.shard = claim_shard.shard)
    ORDER BY claim_id, shard LIMIT 1
) AS waiting ON TRUE
"""

log = logging.getLogger(__name__)


def serve(dsn: str, *, instance: int, idle_seconds: float = IDLE_SECONDS) -> int:
    """Deliver what is claimed until nothing was for `idle_seconds`; return how many shards it took.

    `instance`: of the worker that started it (workers/spark_worker.py). When that is gone the task takes nothing more:
    Spark may end it at any moment.
    Errors: `psycopg.OperationalError` when the database was away all that time.
    """
    away: psycopg.OperationalError | None = None
    until = time.monotonic() + idle_seconds
    with Sessions(dsn) as sessions, Shards(sessions) as shards:
        listening: Session | None = None
        while shards.are_under_way or time.monotonic() < until:
            try:
                listener = sessions.listener()
                if listening is not listener:
                    listen(listener, SHARD_CHANNEL)
                    listening = listener
                shards.reap()
                lives, claim_id, shard = _next(listener, instance)
                if not lives:
                    break
                if claim_id is not None:
                    shards.deliver(claim_id, shard)
                    until = time.monotonic() + idle_seconds
                else:
                    wait_for_notification(listener, min(CHECK_SECONDS, max(until - time.monotonic(), REAP_SECONDS)))
                away = None
            except psycopg.OperationalError as error:
                log.warning("the database does not answer: %s", str(error).splitlines()[0])
                away = error
                sessions.close()
                time.sleep(RETRY_SECONDS)
    shards.reap()
    if away is not None:
        raise away
    return shards.taken


def _next(listener: Session, instance: int) -> tuple[bool, int | None, int]:
    row: Any = listener.execute(_NEXT, [Lock.WORKER, instance]).fetchone()
    return row[0], row[1], row[2]
