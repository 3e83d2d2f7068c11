"""Sealing the audit log: by a tick, behind the writers, who know nothing of it."""

import logging
import time
from collections.abc import Callable

import structlog
from django.conf import settings
from django.db import connection, transaction

from poisonadmin.core.domain import ecs
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.core.queries.sql import Sql
from poisonadmin.store.models.access import Audit
from poisonadmin.system.domain.audit_chain import chain_hash
from poisonadmin.system.queries.audit import ROW_HASH

ROWS_A_BATCH = 5_000
# A transaction that goes on for longer is waited for by the next tick.
WAIT_SECONDS = 5.0
# What a tick does not get done the next one goes on with.
SECONDS_A_TICK = 10.0
_POLL_SECONDS = 0.05

_LAST = "SELECT audit_id, chain_hash FROM audit_seal ORDER BY audit_id DESC LIMIT 1"
_NEWEST = "SELECT coalesce(max(id), 0) FROM audit"
# A transaction has this lock before it draws an id, and until its rows can be seen or are gone.
_WRITERS = """
SELECT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND relation = 'audit'::regclass AND mode = 'RowExclusiveLock'
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid()
"""
_SEAL = """
INSERT INTO audit_seal (audit_id, row_hash, chain_hash)
SELECT * FROM unnest(%(ids)s::bigint[], %(rows)s::bytea[], %(seals)s::bytea[])
"""

log = structlog.get_logger(__name__)


def seal_audit(
    *,
    wait_seconds: float = WAIT_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Seal the entries of the audit log in the order of their ids; return how many.

    Ids are drawn before they are committed, so a smaller one may come after a greater one. What is sealed leaves no
    such id open: each has its entry, or will never get one. Call under `single_flight(Tick.SEAL)`.
    """
    newest = int(fetch_values(_NEWEST)[0])
    if newest == _last()[0] or not _are_decided(clock() + wait_seconds, clock, sleep):
        return 0
    until = clock() + SECONDS_A_TICK
    sealed = _seal_batch(newest)
    while clock() < until and (batch := _seal_batch(newest)):
        sealed += batch
    last_id, head = _last()
    # Where the log goes, a copy of the head goes along: who rewrites the database cannot rewrite that.
    log.info("audit_sealed", entries=sealed, last_id=last_id, head=head.hex())
    return sealed


def _stream(ids: list[int]) -> None:
    """Write entries that are about to be sealed to the stream of the audit log: each once, but for a tick that dies."""
    stream = logging.getLogger(ecs.LOGGER)
    if not stream.isEnabledFor(logging.INFO):
        return
    names = ("id", "at", "actor", "action", "object_type", "object_id", "note", "details", "request_id")
    for entry in Audit.objects.filter(id__in=ids).order_by("id").values(*names):
        entry["at"] = entry["at"].isoformat()
        stream.info(ecs.audit_line(entry, settings.ENVIRONMENT_NAME))


def _are_decided(until: float, clock: Callable[[], float], sleep: Callable[[float], None]) -> bool:
    """Wait until every transaction that writes to the audit log now is over; return whether that was in time.

    Those that begin meanwhile draw greater ids, and are not waited for.
    """
    writers = set(fetch_values(_WRITERS))
    while writers and clock() < until:
        sleep(_POLL_SECONDS)
        writers &= set(fetch_values(_WRITERS))
    return not writers


def _last() -> tuple[int, bytes]:
    found = fetch_rows(_LAST)
    return (found[0][0], bytes(found[0][1])) if found else (0, b"")


def _seal_batch(newest: int) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        last, head = _last()
        following = Sql(
            """SELECT id, {row_hash}
            FROM (SELECT * FROM audit WHERE id > {last} AND id <= {newest} ORDER BY id LIMIT {limit}) AS audit
            ORDER BY id""",
            row_hash=ROW_HASH,
            last=last,
            newest=newest,
            limit=ROWS_A_BATCH,
        )
        rows = fetch_rows(following)
        seals: list[bytes] = []
        for entry_id, row_hash in rows:
            head = chain_hash(head, entry_id, bytes(row_hash))
            seals.append(head)
        if rows:
            ids, hashes = zip(*rows, strict=True)
            _stream(list(ids))
            cursor.execute(_SEAL, {"ids": list(ids), "rows": [bytes(one) for one in hashes], "seals": seals})
    return len(rows)
