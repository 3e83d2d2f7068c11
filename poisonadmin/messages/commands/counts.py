"""Counters: deltas folded into totals, so that reading exact counts never counts messages."""

from django.db import connection, transaction

from poisonadmin.core.commands.locks import Tick, try_lock
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.sql import Sql
from poisonadmin.messages.queries.counts import COUNTED

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
