"""A delivery task: takes shards as claims are made, one after the other, until none has come for a while.

It runs in a Spark task, whose start would cost a single message more than its delivery. Which shards wait is in the
database, and the row of a node is the fence as ever, so that it does not matter which task takes a shard.
"""

import logging
import time

import psycopg

from poisonadmin.delivery.domain.channels import SHARD
from workers.delivery.listening import listen, wait
from workers.delivery.sessions import Session, Sessions
from workers.delivery.shard import deliver_shard

# How long a task that nothing is left for stays, so that nobody has to end one whose worker is gone.
IDLE_SECONDS = 60.0
# A notification may be lost with its session.
LOOK_SECONDS = 5.0
RETRY_SECONDS = 0.5

_WAITING = """
SELECT claim_id, shard FROM claim_shard JOIN claim ON claim.id = claim_id
WHERE claim.is_open AND NOT EXISTS (
    SELECT FROM node WHERE node.claim_id = claim_shard.claim_id AND node.shard = claim_shard.shard)
ORDER BY claim_id, shard LIMIT 1
"""

log = logging.getLogger(__name__)


def serve(dsn: str, *, idle_seconds: float = IDLE_SECONDS) -> int:
    """Deliver what is claimed until nothing was for `idle_seconds`; return how many shards it took.

    Errors: `psycopg.OperationalError` when the database was away all that time.
    """
    taken = 0
    away: psycopg.OperationalError | None = None
    until = time.monotonic() + idle_seconds
    with Sessions(dsn) as sessions:
        listening: Session | None = None
        while time.monotonic() < until:
            try:
                reader = sessions.reader()
                if listening is not reader:
                    listen(reader, SHARD)
                    listening = reader
                if (shard := _waiting(reader)) is not None:
                    taken += deliver_shard(sessions, claim_id=shard[0], shard=shard[1])
                    until = time.monotonic() + idle_seconds
                else:
                    wait(reader, min(LOOK_SECONDS, until - time.monotonic()))
                away = None
            except psycopg.OperationalError as error:
                log.warning("the database does not answer: %s", str(error).splitlines()[0])
                away = error
                sessions.close()
                time.sleep(RETRY_SECONDS)
    if away is not None:
        raise away
    return taken


def _waiting(reader: Session) -> tuple[int, int] | None:
    """Return the claim and number of the shard that has waited longest for a node."""
    row = reader.execute(_WAITING).fetchone()
    return (int(str(row[0])), int(str(row[1]))) if row else None
