"""Counters: their deltas are folded into totals; they are compared with the messages, and mended."""

import time
from functools import partial

import structlog
from django.db import connection, transaction

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.commands.locks import Tick, try_lock
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch, fetch_rows
from poisonadmin.core.queries.sql import TRUE, Sql
from poisonadmin.messages.queries.counts import COUNTED, DIFFERENT, NAMED, WrongCounter, wrong_counters

_FOLD = Sql(
    """WITH taken AS (DELETE FROM counter_delta RETURNING {counted}, delta)
    INSERT INTO counter ({counted}, total)
    SELECT {counted}, sum(delta) FROM taken GROUP BY {counted} HAVING sum(delta) <> 0
    ON CONFLICT ({counted}) DO UPDATE SET total = counter.total + excluded.total""",
    counted=COUNTED,
)


def fold() -> None:
    """Add the deltas to the totals and remove them, in one transaction; nothing while another does it."""
    with transaction.atomic(), connection.cursor() as cursor:
        if try_lock(cursor, Lock.TICK, Tick.FOLD):
            cursor.execute(*_FOLD)


log = structlog.get_logger(__name__)

# Each address is compared so often, and comparing takes one hundredth of the time at the most.
EVERY_SECONDS = 3600
SHARE = 0.01
SECONDS_A_TICK = 0.3

_NEXT = """
SELECT address.id FROM address LEFT JOIN counter_check AS last ON last.address_id = address.id
WHERE last.checked_at IS NULL OR last.checked_at < now() - %s * interval '1 s'
ORDER BY last.checked_at NULLS FIRST, address.id LIMIT 1
"""
_IS_RESTING = """
SELECT EXISTS (SELECT FROM counter_check WHERE checked_at > now() - interval '1 day'
               AND checked_at + seconds / %s * interval '1 s' > now())
"""
_WRONG = partial(Sql, "SELECT coalesce(sum(abs(counted - there)), 0)::bigint FROM ({different}) d")
_RECORD = """
INSERT INTO counter_check (address_id, checked_at, seconds, wrong) VALUES (%s, now(), %s, %s)
ON CONFLICT (address_id) DO UPDATE
SET checked_at = excluded.checked_at, seconds = excluded.seconds, wrong = excluded.wrong
"""
# Whatever is changed meanwhile adds its own deltas: a difference stays the same until it is mended.
_MEND = Sql(
    """WITH different AS MATERIALIZED ({different}), mended AS (
        INSERT INTO counter_delta ({counted}, delta) SELECT {counted}, there - counted FROM different
    )
    {named}""",
    different=DIFFERENT(of=TRUE),
    counted=COUNTED,
    named=NAMED(different=Sql("different")),
)
_FORGET = "UPDATE counter_check SET checked_at = '-infinity', seconds = 0, wrong = 0"


def check_some() -> int:
    """Compare the counters of the addresses whose turn it is, and record what differs; return how many addresses.

    Does nothing while another one does it, and until the last ones are a hundred times as long ago as they took.
    """
    began, checked = time.monotonic(), 0
    if fetch_rows(_IS_RESTING, [SHARE])[0][0]:
        return 0
    while time.monotonic() - began < SECONDS_A_TICK and _check_next():
        checked += 1
    return checked


def _check_next() -> bool:
    with transaction.atomic(), connection.cursor() as cursor:
        if not try_lock(cursor, Lock.TICK, Tick.COUNTS) or not (found := fetch_rows(_NEXT, [EVERY_SECONDS])):
            return False
        address_id = found[0][0]
        began = time.monotonic()
        wrong = fetch_rows(_WRONG(different=DIFFERENT(of=Sql("address_id = {id}", id=address_id))))[0][0]
        cursor.execute(_RECORD, [address_id, time.monotonic() - began, wrong])
    if wrong:
        log.error("the counters of an address are wrong", address_id=address_id, messages=wrong)
    return True


def verify(*, is_repair: bool, actor: str) -> list[WrongCounter]:
    """Return every counter that is wrong, compared in one snapshot; with `is_repair`, they are right afterwards.

    A repair is audited. What the tick had found is forgotten then, and found anew where it is still so.
    """
    if not is_repair:
        return wrong_counters()
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.TICK, Tick.COUNTS)  # two repairs at once would mend twice
        wrong = fetch(WrongCounter, _MEND)
        cursor.execute(_FORGET)
        if wrong:
            audit.record(actor, "counts.repaired", "counts", "", details={"counters": len(wrong)})
    return wrong
