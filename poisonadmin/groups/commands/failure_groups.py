"""Failure groups: made and moved forward by the writers of failures."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.backends.utils import CursorWrapper

from poisonadmin.archive.domain.figures import FAILURES, KEPT_MONTHS
from poisonadmin.core.queries.sql import named_sql, raw
from poisonadmin.groups.domain.failures import FINGERPRINT_VERSION, HOURS_KEPT_DAYS, LEAST_QUIET_MINUTES


@dataclass(frozen=True)
class Seen:
    """One failure, or several of one fingerprint on one address in one hour, as far as their group is concerned."""

    fingerprint: str
    title: str
    error_class: str
    message_id: int
    address_id: int
    first_at: datetime
    last_at: datetime
    count: int = 1
    consumer_version: str | None = None


# Grown after such a gap, a group has been quiet; of two gaps that nobody has seen the longer one is kept.
_IS_RESUMED = named_sql(
    """excluded.first_at > failure_group.last_at + interval '{least_quiet} min'
 AND NOT (failure_group.is_unseen AND coalesce(
     failure_group.resumed_at - failure_group.quiet_since > excluded.first_at - failure_group.last_at, TRUE))""",
    least_quiet=LEAST_QUIET_MINUTES,
)
# Groups are locked in the order of their fingerprints, so that two settles never wait for each other. Hours and
# versions are written by who holds their groups: each sum reads every group before its first row is written.
_UPSERT = str(
    named_sql(
        """
WITH seen AS MATERIALIZED (
    SELECT * FROM unnest(%(fingerprints)s::text[], %(titles)s::text[], %(classes)s::text[], %(messages)s::bigint[],
                         %(addresses)s::bigint[], %(firsts)s::timestamptz[], %(lasts)s::timestamptz[],
                         %(counts)s::bigint[], %(versions)s::text[])
           AS seen (fingerprint, title, error_class, message_id, address_id, first_at, last_at, count,
                    consumer_version)
), counted AS (
    INSERT INTO failure_group (fingerprint, version, title, error_class, sample_message_id, first_at, last_at, failures)
    SELECT fingerprint, %(version)s, min(title), min(error_class), min(message_id), min(first_at), max(last_at),
           sum(count)
    FROM seen GROUP BY fingerprint ORDER BY fingerprint
    ON CONFLICT (fingerprint) DO UPDATE SET
        first_at = LEAST(failure_group.first_at, excluded.first_at),
        last_at = GREATEST(failure_group.last_at, excluded.last_at),
        failures = failure_group.failures + excluded.failures,
        quiet_since = CASE WHEN {is_resumed} THEN failure_group.last_at ELSE failure_group.quiet_since END,
        resumed_at = CASE WHEN {is_resumed} THEN excluded.first_at ELSE failure_group.resumed_at END,
        is_unseen = failure_group.is_unseen OR {is_resumed}
    RETURNING fingerprint, id
), hourly AS (
    INSERT INTO group_hour (group_id, hour, address_id, failures)
    SELECT counted.id, date_trunc('hour', last_at), address_id, sum(count) FROM seen JOIN counted USING (fingerprint)
    WHERE last_at > now() - interval '{hours_kept_days} days' GROUP BY 1, 2, 3
    ON CONFLICT (group_id, hour, address_id) DO UPDATE SET failures = group_hour.failures + excluded.failures
), late AS (
    -- Whole days of what is older are added up already, and hours of it are not kept.
    INSERT INTO day_figure (day, address_id, figure, n)
    SELECT (last_at AT TIME ZONE 'UTC')::date, address_id, '{failures}', sum(count) FROM seen
    WHERE last_at <= now() - interval '{hours_kept_days} days' AND last_at > now() - interval '{kept_months} months'
    GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (day, address_id, figure) DO UPDATE SET n = day_figure.n + excluded.n
), by_version AS (
    INSERT INTO group_version (group_id, consumer_version, address_id, first_at, last_at, failures)
    SELECT counted.id, consumer_version, address_id, min(first_at), max(last_at), sum(count)
    FROM seen JOIN counted USING (fingerprint) WHERE consumer_version IS NOT NULL GROUP BY 1, 2, 3
    ON CONFLICT (group_id, consumer_version, address_id) DO UPDATE SET
        first_at = LEAST(group_version.first_at, excluded.first_at),
        last_at = GREATEST(group_version.last_at, excluded.last_at),
        failures = group_version.failures + excluded.failures
)
SELECT fingerprint, id FROM counted
""",
        is_resumed=_IS_RESUMED,
        hours_kept_days=HOURS_KEPT_DAYS,
        failures=raw(FAILURES),
        kept_months=KEPT_MONTHS,
    )
)


def ensure(cursor: CursorWrapper, seen: Sequence[Seen]) -> dict[str, int]:
    """Count the failures into their groups, made where missing; return fingerprint -> group id."""
    if not seen:
        return {}
    cursor.execute(
        _UPSERT,
        {
            "version": FINGERPRINT_VERSION,
            "fingerprints": [one.fingerprint for one in seen],
            "titles": [one.title[:300] for one in seen],
            "classes": [one.error_class[:255] for one in seen],
            "messages": [one.message_id for one in seen],
            "addresses": [one.address_id for one in seen],
            "firsts": [one.first_at for one in seen],
            "lasts": [one.last_at for one in seen],
            "counts": [one.count for one in seen],
            "versions": [one.consumer_version for one in seen],
        },
    )
    return dict(cursor.fetchall())
