"""Counters: deltas folded into totals, so that reading exact counts never counts messages."""

from django.db import connection, transaction

from poisonadmin.core.commands.locks import Tick, try_lock
from poisonadmin.core.domain.locks import Lock

_FOLD = """
WITH taken AS (DELETE FROM counter_delta RETURNING address_id, state, reason, group_id, delta)
INSERT INTO counter (address_id, state, reason, group_id, total)
SELECT address_id, state, reason, group_id, sum(delta) FROM taken GROUP BY 1, 2, 3, 4 HAVING sum(delta) <> 0
ON CONFLICT (address_id, state, reason, group_id) DO UPDATE SET total = counter.total + excluded.total
"""


def fold() -> None:
    """Add the deltas to the totals and remove them, in one transaction; nothing while another does it."""
    with transaction.atomic(), connection.cursor() as cursor:
        if try_lock(cursor, Lock.TICK, Tick.FOLD):
            cursor.execute(_FOLD)
