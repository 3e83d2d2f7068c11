"""When failures of a group happened, and with which versions of consumers, from the counts by hour and by version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.rows import fetch, fetch_rows
from poisonadmin.core.queries.scope import scope_condition
from poisonadmin.core.queries.sql import Sql

TREND_HOURS = 24
TREND_DAYS = 28
SHOWN_VERSIONS = 50


@dataclass(frozen=True)
class FailedVersion:
    """A version of consumers, as they state it, and the failures with it."""

    consumer_version: str
    first_at: datetime
    last_at: datetime
    failures: int


def failures_an_hour(of: Mapping[int, int], principal: Principal) -> dict[int, list[int]]:
    """Return for each group its failures in the last 24 hours of the clock, the current one last."""
    hours = fetch_rows(
        Sql(
            """SELECT h.group_id, extract(epoch FROM date_trunc('hour', now()) - h.hour)::int / 3600,
                   sum(h.failures)::bigint
            FROM group_hour h
            WHERE h.group_id = ANY({ids}) AND h.hour > now() - {hours} * interval '1 hour' AND {scope} GROUP BY 1, 2""",
            ids=list(of),
            hours=TREND_HOURS,
            scope=scope_condition(principal, "h.address_id"),
        )
    )
    found = {group_id: [0] * TREND_HOURS for group_id in of.values()}
    for member_id, hours_ago, n in hours:
        if 0 <= hours_ago < TREND_HOURS:
            found[of[member_id]][TREND_HOURS - 1 - hours_ago] += n
    return found


def failures_a_day(member_ids: Sequence[int], principal: Principal) -> tuple[int, ...]:
    """Return the failures in the last 28 days in UTC, today last."""
    days = fetch_rows(
        Sql(
            """SELECT (now() AT TIME ZONE 'UTC')::date - (h.hour AT TIME ZONE 'UTC')::date, sum(h.failures)::bigint
            FROM group_hour h
            WHERE h.group_id = ANY({ids}) AND h.hour > now() - {days} * interval '1 day' AND {scope} GROUP BY 1""",
            ids=list(member_ids),
            days=TREND_DAYS,
            scope=scope_condition(principal, "h.address_id"),
        )
    )
    found = [0] * TREND_DAYS
    for days_ago, n in days:
        if 0 <= days_ago < TREND_DAYS:
            found[TREND_DAYS - 1 - days_ago] += n
    return tuple(found)


def failed_versions(member_ids: Sequence[int], principal: Principal) -> tuple[FailedVersion, ...]:
    """Return the consumer versions that failures in scope came with, the latest failure first, at most 50."""
    found = Sql(
        """SELECT v.consumer_version, min(v.first_at) AS first_at, max(v.last_at) AS last_at,
               sum(v.failures)::bigint AS failures
        FROM group_version v WHERE v.group_id = ANY({ids}) AND {scope}
        GROUP BY 1 ORDER BY 3 DESC, 1 LIMIT {shown}""",
        ids=list(member_ids),
        scope=scope_condition(principal, "v.address_id"),
        shown=SHOWN_VERSIONS,
    )
    return tuple(fetch(FailedVersion, found))
