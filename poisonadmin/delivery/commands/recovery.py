"""Recovers what a process that delivers and is gone held: notices it, reads its journals, and gives the rest back.

A free lock is only a hint: a restarted database frees every lock. A node is dead when its lock is free and its
heartbeat is old, or when its lease has run out.

A lost node has left behind what it had begun, and the results of its handlers (`Journals`). The process that finds it
lost leaves its messages alone until these have been read, on the node's machine (rulings R2, R18). When nobody has read
them a lease later, they are lost with their machine, and everything unsettled counts as begun.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.domain.locks import Lock, lock_key
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.core.queries.sql import Sql, join, name, named_sql, names, raw
from poisonadmin.delivery.commands import ordered_conversations
from poisonadmin.delivery.commands.settle import Settled, settle
from poisonadmin.delivery.domain.lease import LEASE_SECONDS, SILENT_SECONDS, SILENT_SECONDS_AFTER_RESTART, HeldFor
from poisonadmin.groups.domain.failures import Failure, fingerprint, title

# A FROM clause with `taken` (claim_id, shard, message_id) and `message`. Claims are few and name their messages, so
# that no index has to change with a state. OFFSET 0 is a fence: to the planner, whose statistics are older than any
# claim, hardly a message is DLNG, and it would read the table and compare each of its rows with each that was taken.
IN_FLIGHT = raw("""
(SELECT claim.id AS claim_id, claim_shard.shard, unnest(claim_shard.message_ids) AS message_id
 FROM claim JOIN claim_shard ON claim_shard.claim_id = claim.id WHERE claim.is_open) AS taken CROSS JOIN LATERAL (
    SELECT * FROM message WHERE id = taken.message_id AND claim_id = taken.claim_id AND state = 'DLNG' OFFSET 0
) AS message
""")


@dataclass(frozen=True)
class LostNode:
    """A lost node whose journals nobody has read yet.

    `may_begin`: its lease is not over; should its process live on, it may begin more.
    """

    id: int
    name: str
    claim_id: int
    shard: int
    journals: str
    may_begin: bool


@dataclass(frozen=True)
class LeftBehind:
    """The results and notes of a lost node.

    `attempts`: rows of the attempt table, column -> value: what its handlers had answered or begun. `begun`: messages
    that it had begun to send to a consumer or broker; of some it may have written the outcome.
    """

    attempts: Sequence[Mapping[str, Any]] = ()
    begun: Sequence[int] = ()


class StillDelivers(Exception):
    """Raised when the process of a lost node lives: its sessions were lost, and it has not noticed yet."""


class Journals(Protocol):
    """The journals on this machine (workers/dispatcher.py)."""

    def read(self, node: LostNode, held: Mapping[int, HeldFor]) -> LeftBehind | None:
        """Return what the node has left behind; None when its journals are lost. Errors: `StillDelivers`.

        `held`: its unsettled messages by their ids.
        """

    def forget(self, node_id: int) -> None:
        """Remove the node's journals."""

    def node_ids(self) -> set[int]:
        """Return the nodes that have journals here."""


_LOST = """
SELECT id, name, claim_id, shard, journals, lease_until > now(), host <> %(host)s AS is_given_up FROM node
WHERE "end" = 'lost' AND journals IS NOT NULL
  AND (host = %(host)s OR ended_at < now() - %(lease)s * interval '1 s')
ORDER BY id
"""

_HELD_BY_SHARD = named_sql(
    """
{in_flight} JOIN address ON address.id = message.address_id
     JOIN destination ON destination.id = address.destination_id
WHERE taken.claim_id = %(claim)s AND taken.shard = %(shard)s
""",
    in_flight=IN_FLIGHT,
)
_HELD = named_sql("SELECT message.id, destination_id, destination.owner FROM {held}", held=_HELD_BY_SHARD)

# A candidate had begun from its start mark on, which is here wherever its journals are. What has no outcome of this is
# accused, or its outcome is lost.
_READ = """
UPDATE node SET journals = NULL, unanswered = array_remove(
    coalesce(%(begun)s::bigint[], CASE WHEN is_isolation THEN '{}' ELSE message_ids END) || start_mark, NULL)
FROM claim_shard JOIN claim ON claim.id = claim_shard.claim_id
WHERE node.id = %(node)s AND claim_shard.claim_id = node.claim_id AND claim_shard.shard = node.shard
"""

_SUSPECT = named_sql(
    """
INSERT INTO attempt (message_id, attempt_number, claim_id, shard, destination_id, finished_at, outcome, error_class,
                     error_message, fingerprint, title)
SELECT message.id, message.attempt_number, taken.claim_id, taken.shard, destination_id, now(), 'node_lost', 'NodeLost',
       %(words)s, %(fingerprint)s, %(title)s
FROM {held}
  AND (address.blame = 'all_in_flight' OR destination.kind = 'handler')
  AND message.id IN (SELECT unnest(unanswered) FROM node WHERE id = %(node)s)
ON CONFLICT DO NOTHING
""",
    held=_HELD_BY_SHARD,
)

_INSERT = partial(Sql, "INSERT INTO attempt ({columns}) VALUES ({values}) ON CONFLICT DO NOTHING")
_NEEDED = """
SELECT id FROM node WHERE id = ANY(%(nodes)s) AND (ended_at IS NULL OR "end" = 'lost' AND journals IS NOT NULL)
"""


def search_lost_nodes(host: str, journals: Journals) -> int:
    """Read the journals of the lost nodes of this host, and write what they say; return how many nodes were searched.

    Settle afterwards.
    """
    searched = 0
    for *values, is_given_up in fetch_rows(_LOST, {"host": host, "lease": LEASE_SECONDS}):
        with contextlib.suppress(StillDelivers):
            _search(LostNode(*values), None if is_given_up else journals)
            journals.forget(values[0])
            searched += 1
    return searched


def _search(node: LostNode, journals: Journals | None) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(str(_HELD), {"claim": node.claim_id, "shard": node.shard})
        held = {message_id: HeldFor(*place) for message_id, *place in cursor.fetchall()}
        found = None if journals is None else journals.read(node, held)
        _write(cursor, found.attempts if found else ())
        cursor.execute(_READ, {"node": node.id, "begun": list(found.begun) if found else None})
        _suspect(cursor, node)


def sweep_journals(journals: Journals) -> int:
    """Remove journals that nobody needs any more, of nodes that ended and could not do it; return of how many nodes."""
    kept = journals.node_ids()
    unneeded = kept.difference(fetch_values(_NEEDED, {"nodes": list(kept)}))
    for node_id in sorted(unneeded):
        journals.forget(node_id)
    return len(unneeded)


def _write(cursor: CursorWrapper, rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        values = join(", ", (Sql("{value}", value=value) for value in row.values()))
        cursor.execute(*_INSERT(columns=names(row), values=values))


def _suspect(cursor: CursorWrapper, node: LostNode) -> None:
    """Write the attempts, outcome `node_lost`, of what a lost node had begun, did not answer and its loss accuses.

    By the plain rule that is all of it, whatever it was delivered to (SAP-8, SAP-n); by the exact one what it had begun
    for handlers.
    """
    failure = Failure("NodeLost", f"The node {node.name} was lost while it held this message.")
    cursor.execute(
        str(_SUSPECT),
        {
            "node": node.id,
            "claim": node.claim_id,
            "shard": node.shard,
            "words": failure.message,
            "fingerprint": fingerprint(failure),
            "title": title(failure),
        },
    )


def _is_gone(lock: Lock, key: str) -> Sql:
    """Return the condition that the process which holds the lock of a row is silent, and its lock is free."""
    return named_sql(
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


# One of an earlier version may not have said where its journals are: it has none.
_LOSE_NODES = named_sql(
    """
UPDATE node SET ended_at = now(), "end" = 'lost', journals = coalesce(journals, '')
WHERE ended_at IS NULL AND (lease_until < now() OR ({is_gone}))
""",
    is_gone=_is_gone(Lock.NODE, "node.id"),
)

# A shard whose task never began, and whose job is gone: the row that we insert keeps a late task from delivering it.
_FENCE_SHARDS = named_sql(
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
_LOSE_RUNS = named_sql(
    """
UPDATE run SET state = CASE WHEN position IS NULL THEN 'failed' ELSE 'queued' END,
    error = CASE WHEN position IS NULL THEN 'its worker ended while it ran' ELSE error END,
    ended_at = CASE WHEN position IS NULL THEN now() END
WHERE state = 'running' AND {is_gone}
""",
    is_gone=_is_gone(Lock.RUN, "run.id"),
)


def recover() -> Settled:
    """Settle what is answered, declare dead what is dead, and give back what nobody took; return what was settled.

    What dead nodes held is given back once their journals are read (`search_lost_nodes`). Also looks at the heads of
    conversations: an administrator's decision on one lets its successors go.
    """
    settled = settle()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(*_LOSE_NODES)
        cursor.execute(*_FENCE_SHARDS)
        dead = cursor.rowcount
        cursor.execute(*_LOSE_RUNS)
        if settled == Settled():  # else they were looked at
            ordered_conversations.refresh_head(cursor)
    return settled + settle() if dead else settled
