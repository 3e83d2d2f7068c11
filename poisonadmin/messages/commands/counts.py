"""Counters: deltas folded into totals, so that reading exact counts never counts messages."""

from django.db import connection, transaction

from poisonadmin.core.commands.locks import Tick, try_lock
from poisonadmin.core.domain.locks import Lock
from poisonadmin.messages.queries.counts import COUNTED

_FOLD = f"""
WITH taken AS (DELETE FROM counter_delta RETURNING {COUNTED}, delta)
INSERT INTO counter ({COUNTED}, total)
SELECT {COUNTED}, sum(delta) FROM taken GROUP BY {COUNTED} HAVING sum(delta) <> 0
ON CONFLICT ({COUNTED}) DO UPDATE SET total = counter.total + excluded.total
"""  # noqa: S608  (constants)


def fold() -> None:
    """Add the deltas to the totals and remove them, in one transaction; nothing while another does it."""
    with transaction.atomic(), connection.cursor() as cursor:
        if try_lock(cursor, Lock.TICK, Tick.FOLD):
            cursor.execute(_FOLD)
