"""Recover: notice that a process which delivers is gone, and give back what it held.

A free lock is only a hint: a restarted database frees every lock. A node is dead when its lock is free and its
heartbeat is old, or when its lease has run out.
"""

from django.db import connection, transaction

from poisonadmin.core.domain.locks import Lock, lock_key
from poisonadmin.core.queries.sql import Sql, name, named
from poisonadmin.delivery.commands import ordered_conversations
from poisonadmin.delivery.commands.crash_recovery import suspect_held
from poisonadmin.delivery.commands.settle import Settled, settle
from poisonadmin.delivery.domain.lease import SILENT_SECONDS, SILENT_SECONDS_AFTER_RESTART


def _is_gone(lock: Lock, key: str) -> Sql:
    """Return the condition that the process which holds the lock of a row is silent, and its lock is free."""
    return named(
        """
heartbeat_at < now() - CASE WHEN pg_postmaster_start_time() > now() - interval '{after_restart} s'
                            THEN interval '{after_restart} s' ELSE interval '{silent} s' END
AND NOT EXISTS (
    SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND classid = {lock} AND objid = {key} & {mask} AND granted)""",
        after_restart=SILENT_SECONDS_AFTER_RESTART,
        silent=SILENT_SECONDS,
        lock=int(lock),
        key=name(key),
        mask=lock_key(-1),
    )


_LOSE_NODES = named(
    """
UPDATE node SET ended_at = now(), "end" = 'lost'
WHERE ended_at IS NULL AND (lease_until < now() OR ({is_gone}))
RETURNING id, name, claim_id, shard, journals IS NOT NULL
""",
    is_gone=_is_gone(Lock.NODE, "node.id"),
)

# A shard whose task never began, and whose job is gone: the row that we insert keeps a late task from delivering it.
_FENCE_SHARDS = named(
    """
INSERT INTO node (name, host, pid, claim_id, shard, lease_until, ended_at, "end")
SELECT 'recover', '', 0, claim.id, claim_shard.shard, now(), now(), 'fenced'
FROM claim JOIN claim_shard ON claim_shard.claim_id = claim.id
     LEFT JOIN run ON run.id = claim.job_id
WHERE claim.is_open AND (claim.lease_until < now()
                         OR (run.id IS NOT NULL AND (run.ended_at IS NOT NULL OR ({is_gone}))))
ON CONFLICT (claim_id, shard) DO NOTHING
""",
    is_gone=_is_gone(Lock.RUN, "run.id"),
)

# A requested run has a position, where another worker goes on.
_LOSE_RUNS = named(
    """
UPDATE run SET state = CASE WHEN position IS NULL THEN 'failed' ELSE 'queued' END,
    error = CASE WHEN position IS NULL THEN 'its worker ended while it ran' ELSE error END,
    ended_at = CASE WHEN position IS NULL THEN now() END
WHERE state = 'running' AND {is_gone}
""",
    is_gone=_is_gone(Lock.RUN, "run.id"),
)


def recover() -> Settled:
    """Settle what is answered, declare dead what is dead, and give back what it held; return what was settled.

    Also looks at the heads of conversations: an administrator's decision on one lets its successors go.
    """
    settled = settle()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(*_LOSE_NODES)
        lost = cursor.fetchall()
        for node_id, node_name, claim_id, shard, has_journals in lost:
            if not has_journals:  # else what its journals report is read first, by `search_lost_nodes`
                suspect_held(cursor, node_id, node_name, (claim_id, shard))
        dead = len(lost)
        cursor.execute(*_FENCE_SHARDS)
        dead += cursor.rowcount
        cursor.execute(*_LOSE_RUNS)
        if settled == Settled():  # else they were looked at
            ordered_conversations.refresh_head(cursor)
    return settled + settle() if dead else settled
