"""The figures of the summary: failures by day or month and by address, groups, and counts of archived messages."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

from poisonadmin.archive.domain.figures import DECISION_SECONDS, DECISIONS, DELIVERED, FAILURES, NOT_DELIVERED
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.exports import Row
from poisonadmin.core.queries.masking import with_titles
from poisonadmin.core.queries.rows import bounded, fetch, fetch_rows
from poisonadmin.core.queries.scope import scope_condition
from poisonadmin.core.queries.sql import Sql
from poisonadmin.reports.domain.asked import AskedReport, Period
from poisonadmin.reports.domain.kinds import ReportKind, redelivered
from poisonadmin.reports.queries.rows import SECONDS, named_groups

TOP_GROUPS = 10
Failures = tuple[tuple[date, ...], Mapping[str, tuple[int, ...]]]
"""Days, or the first days of months; and the failures of each by address, the one with the most first."""

_BY_DAY = partial(
    Sql,
    """SELECT a.name, (h.hour AT TIME ZONE {zone})::date, sum(h.failures)::bigint
    FROM group_hour h JOIN address a ON a.id = h.address_id
    WHERE h.hour >= {since} AND h.hour < {until} AND {scope} GROUP BY 1, 2""",
)
# Of the last days the counts by hour know more: they are added up by day once a day.
_BY_MONTH = partial(
    Sql,
    """SELECT a.name, date_trunc('month', f.day)::date, sum(f.n)::bigint
    FROM (SELECT day, address_id, max(n) AS n FROM (
              SELECT day, address_id, n FROM day_figure WHERE figure = {figure}
              UNION ALL
              SELECT (hour AT TIME ZONE 'UTC')::date, address_id, sum(failures) FROM group_hour GROUP BY 1, 2
          ) AS counted WHERE day >= {since} AND day < {until} GROUP BY 1, 2
    ) AS f JOIN address AS a ON a.id = f.address_id WHERE {scope} GROUP BY 1, 2""",
    figure=FAILURES,
)
_BY_FIGURE = partial(
    Sql,
    """SELECT a.name, f.figure, sum(f.n)::bigint FROM day_figure AS f JOIN address AS a ON a.id = f.address_id
    WHERE f.day >= {since} AND f.day < {until} AND {figures} AND {scope} GROUP BY 1, 2""",
)
_TRIES = Sql(
    "f.figure LIKE {delivered} OR f.figure LIKE {not_delivered}",
    delivered=f"{DELIVERED}%",
    not_delivered=f"{NOT_DELIVERED}%",
)
_DECIDED = Sql("f.figure IN ({decisions}, {seconds})", decisions=DECISIONS, seconds=DECISION_SECONDS)


@dataclass(frozen=True)
class FailingGroup:
    """A failure group with its failures in the period."""

    id: int
    title: str
    failures: int


def failures_by_day(period: Period, time_zone: str, *, principal: Principal, patterns: list[str]) -> Failures:
    """Return the failures of a period that has both ends, live and archived, by days of the time zone."""
    since, until = _ends(period)
    scope = scope_condition(principal, "h.address_id", patterns)
    first, last = since.date(), (until - timedelta(microseconds=1)).date()
    days = tuple(first + timedelta(days=n) for n in range((last - first).days + 1))
    return _failures(_BY_DAY(zone=time_zone, since=since, until=until, scope=scope), days, principal)


def failures_by_month(period: Period, *, principal: Principal, patterns: list[str]) -> Failures:
    """Return the failures of a period that has both ends, live and archived, by months of UTC."""
    since, until = (end.date() for end in _ends(period))
    scope = scope_condition(principal, "f.address_id", patterns)
    months = [since.replace(day=1)]
    while (following := (months[-1] + timedelta(days=32)).replace(day=1)) < until:
        months.append(following)
    return _failures(_BY_MONTH(since=since, until=until, scope=scope), tuple(months), principal)


def _failures(counts: Sql, steps: tuple[date, ...], principal: Principal) -> Failures:
    principal.require(Permission.EXPORT)
    with bounded(SECONDS):
        found = fetch_rows(counts)
    counted: dict[str, Counter[date]] = defaultdict(Counter)
    for address, step, n in found:
        counted[address][step] += n
    ordered = sorted(counted, key=lambda address: (-counted[address].total(), address))
    return steps, {address: tuple(counted[address][step] for step in steps) for address in ordered}


def _ends(period: Period) -> tuple[datetime, datetime]:
    assert period.since is not None
    assert period.until is not None
    return period.since, period.until


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
        return with_titles(fetch(FailingGroup, groups), principal)


def with_archived(asked: AskedReport, rows: list[Row], *, principal: Principal, patterns: list[str]) -> list[Row]:
    """Return the figures of live messages with those of archived ones, of whole days.

    Of decisions the mean is of both; there is no median where archived ones are among them.
    """
    since, until = (end.date() for end in _ends(asked.period))
    is_tries = asked.kind is ReportKind.REDELIVERY
    figures = Sql("({which})", which=_TRIES if is_tries else _DECIDED)
    scope = scope_condition(principal, "f.address_id", patterns)
    with bounded(SECONDS):
        found = fetch_rows(_BY_FIGURE(since=since, until=until, figures=figures, scope=scope))
    return _tries(asked, rows, found) if is_tries else _decisions(rows, found)


def _decisions(rows: Iterable[Row], archived: Iterable[tuple[str, str, int]]) -> list[Row]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for address, figure, n in archived:
        counts[address][figure] += n
    found: dict[Any, Row] = {row[0]: row for row in rows}
    for address, figures in counts.items():
        if not figures[DECISIONS]:
            continue
        _, n, mean, _ = found.get(address, (address, 0, None, None))
        total = n + figures[DECISIONS]
        seconds = (mean or 0.0) * n + figures[DECISION_SECONDS]
        found[address] = (address, total, round(seconds / total, 3), None)
    return [found[address] for address in sorted(found, key=str)]


def _tries(asked: AskedReport, rows: Iterable[Row], archived: Iterable[tuple[str, str, int]]) -> list[Row]:
    counts: dict[tuple[Any, int], Counter[str]] = defaultdict(Counter)
    for policy, number, _, delivered, failed, _ in rows:
        counts[policy, number] += Counter(delivered=delivered, failed=failed)
    policy_of = named_groups(asked)
    for address, figure, n in archived:
        result, _, number = figure.rpartition(":")
        counts[policy_of(0, address), int(number)]["delivered" if f"{result}:" == DELIVERED else "failed"] += n
    return [(*group, *redelivered(counts[group])) for group in sorted(counts, key=lambda one: (str(one[0]), one[1]))]
