"""A delivery task: takes shards as claims are made, one after the other, until none has come for a while.

While a shard only waits for answers the task takes another one, so that endpoints that hang do not use up the tasks.

It runs in a Spark task, whose start would cost a single message more than its delivery. Which shards wait is in the
database, and the row of a node is the fence as ever, so that it does not matter which task takes a shard.
"""

import logging
import time
from typing import Any

import psycopg

from poisonadmin.core.domain.channels import SHARD
from poisonadmin.core.domain.locks import Lock
from workers.delivery.listening import listen, wait
from workers.delivery.sessions import Session, Sessions
from workers.delivery.shards import Shards

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
                    listen(listener, SHARD)
                    listening = listener
                shards.reap()
                lives, claim_id, shard = _next(listener, instance)
                if not lives:
                    break
                if claim_id is not None:
                    shards.deliver(claim_id, shard)
                    until = time.monotonic() + idle_seconds
                else:
                    wait(listener, min(CHECK_SECONDS, max(until - time.monotonic(), REAP_SECONDS)))
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
