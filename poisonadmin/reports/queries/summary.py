"""The figures of the summary: failures by day, address and group, from the counts by hour."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.rows import bounded, fetch, fetch_rows
from poisonadmin.core.queries.scope import scope_condition
from poisonadmin.core.queries.sql import Sql
from poisonadmin.reports.domain.asked import Period
from poisonadmin.reports.queries.rows import SECONDS

TOP_GROUPS = 10
# The counts by hour are kept for five weeks.
MOST_DAYS = 31


@dataclass(frozen=True)
class FailingGroup:
    """A failure group with its failures in the period."""

    id: int
    title: str
    failures: int


@dataclass(frozen=True)
class FailuresByDay:
    """Failures a day, from the first to the last, by address; the address with the most comes first."""

    days: tuple[date, ...]
    by_address: Mapping[str, tuple[int, ...]]

    @property
    def total(self) -> int:
        """All of them."""
        return sum(sum(counts) for counts in self.by_address.values())


def failures_by_day(period: Period, time_zone: str, *, principal: Principal, patterns: list[str]) -> FailuresByDay:
    """Return the failures of a period that has both ends, live and archived, in days of the time zone."""
    principal.require(Permission.EXPORT)
    assert period.since is not None
    assert period.until is not None
    with bounded(SECONDS):
        found = fetch_rows(
            Sql(
                """SELECT a.name, (h.hour AT TIME ZONE {zone})::date, sum(h.failures)::bigint
                FROM group_hour h JOIN address a ON a.id = h.address_id
                WHERE h.hour >= {since} AND h.hour < {until} AND {scope} GROUP BY 1, 2""",
                zone=time_zone,
                since=period.since,
                until=period.until,
                scope=scope_condition(principal, "h.address_id", patterns),
            )
        )
    days = _days(period.since, period.until)
    counted: dict[str, Counter[date]] = {}
    for address, day, n in found:
        counted.setdefault(address, Counter())[day] += n
    ordered = sorted(counted, key=lambda address: (-counted[address].total(), address))
    return FailuresByDay(days, {address: tuple(counted[address][day] for day in days) for address in ordered})


def _days(since: datetime, until: datetime) -> tuple[date, ...]:
    first, last = since.date(), (until - timedelta(microseconds=1)).date()
    return tuple(first + timedelta(days=n) for n in range((last - first).days + 1))


def top_groups(period: Period, *, principal: Principal, patterns: list[str]) -> list[FailingGroup]:
    """Return the groups with the most failures in the period; a merged group counts for the one that people see."""
    principal.require(Permission.EXPORT)
    groups = Sql(
        """SELECT shown.id, shown.title, sum(h.failures)::bigint AS failures
        FROM group_hour h JOIN failure_group g ON g.id = h.group_id
             JOIN failure_group shown ON shown.id = coalesce(g.merged_into_id, g.id)
        WHERE h.hour >= {since} AND h.hour < {until} AND {scope} GROUP BY 1, 2 ORDER BY 3 DESC, 1 LIMIT {top}""",
        since=period.since,
        until=period.until,
        scope=scope_condition(principal, "h.address_id", patterns),
        top=TOP_GROUPS,
    )
    with bounded(SECONDS):
        return fetch(FailingGroup, groups)
