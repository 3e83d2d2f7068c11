"""The totals that monitoring reads are added up from the histories of messages, each row of them once."""

import json
from functools import partial

from django.db import connection, transaction

from poisonadmin.core.commands.locks import Tick, try_lock
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.core.queries.sql import Sql
from poisonadmin.system.domain.metrics import ATTEMPTS, BUCKETS, EVENTS, OTHER, SECONDS, SUM, bounded_series
from poisonadmin.system.queries.metrics import COUNTED_UNTIL, counted_until, totals
from poisonadmin.system.queries.overview import SETTLED_AFTER

# A row of a history carries the time at which its transaction began. So no row before the beginning of the oldest
# transaction is still to come; one that lasts does not write.
_UNTIL = Sql(
    """SELECT date_trunc('second', now() - interval '1 hour'), date_trunc('second', greatest(
          now() - {settled_after}, least(now(), min(xact_start)) - interval '1 s'))
    FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()""",
    settled_after=SETTLED_AFTER,
)
_COUNTED = partial(
    Sql,
    """WITH ended AS MATERIALIZED (
        SELECT coalesce(split_part(came.name, '.', 1), {other}) AS root, h.event, h.to_state,
               h.operation_id IS NOT NULL AS by_operation, coalesce(destination.name, '') AS destination,
               attempt.outcome, coalesce(attempt.error_class, '') AS error_class,
               -- greatest() leaves a NULL out.
               CASE WHEN attempt.started_at IS NOT NULL
                    THEN greatest(extract(epoch FROM attempt.finished_at - attempt.started_at)::float8, 0) END
                 AS seconds
        FROM history h
        LEFT JOIN message ON message.id = h.message_id
        LEFT JOIN address came ON came.id = coalesce(message.original_address_id, message.address_id)
        LEFT JOIN attempt ON h.from_state = 'DLNG' AND attempt.message_id = h.message_id
                         AND attempt.attempt_number = h.attempt_number
        LEFT JOIN destination ON destination.id = attempt.destination_id
        WHERE h.at >= {since} AND h.at < {until} AND h.event <> 'claimed'
    )
    SELECT {events}, ARRAY[root, event, to_state, by_operation::text], count(*)::float8 FROM ended
    GROUP BY root, event, to_state, by_operation
    UNION ALL SELECT {attempts}, ARRAY[destination, outcome, error_class], count(*) FROM ended
    WHERE outcome IS NOT NULL GROUP BY destination, outcome, error_class
    UNION ALL SELECT {attempt_seconds}, ARRAY[destination, width_bucket(seconds, {buckets}::float8[])::text], count(*)
    FROM ended WHERE seconds IS NOT NULL GROUP BY 1, 2
    UNION ALL SELECT {attempt_seconds}, ARRAY[destination, {sum}], sum(seconds)
    FROM ended WHERE seconds IS NOT NULL GROUP BY 1, 2""",
    other=OTHER,
    events=EVENTS,
    attempts=ATTEMPTS,
    attempt_seconds=SECONDS,
    buckets=list(BUCKETS),
    sum=SUM,
)
_ADD = """
INSERT INTO metric_total (metric, labels, total)
SELECT * FROM unnest(%s::text[], %s::jsonb[], %s::float8[])
ON CONFLICT (metric, labels) DO UPDATE
SET total = excluded.total + CASE WHEN metric_total.metric = %s THEN 0 ELSE metric_total.total END
"""


def add_up() -> None:
    """Add what has happened since the last call to the totals, in one transaction; nothing while another does it."""
    with transaction.atomic(), connection.cursor() as cursor:
        if not try_lock(cursor, Lock.TICK, Tick.METRICS):
            return
        an_hour_ago, until = fetch_rows(_UNTIL)[0]
        since = counted_until() or an_hour_ago
        if until <= since:
            return
        counted = [(metric, tuple(labels), n) for metric, labels, n in fetch_rows(_COUNTED(since=since, until=until))]
        series = [*bounded_series(counted, totals()).items(), ((COUNTED_UNTIL, ()), until.timestamp())]
        names, labels = [metric for (metric, _), _ in series], [json.dumps(labels) for (_, labels), _ in series]
        cursor.execute(_ADD, [names, labels, [n for _, n in series], COUNTED_UNTIL])
