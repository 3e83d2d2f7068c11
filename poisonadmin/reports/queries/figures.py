"""Counts of archived messages, and of past months: figures by day (UTC) and address."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Any

from poisonadmin.archive.domain.figures import DECISION_SECONDS, DECISIONS, DELIVERED, FAILURES, NOT_DELIVERED
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.exports import Row
from poisonadmin.core.queries.rows import bounded, fetch_rows
from poisonadmin.core.queries.scope import scope_condition
from poisonadmin.reports.domain.asked import AskedReport, Period
from poisonadmin.reports.domain.kinds import ReportKind, redelivered
from poisonadmin.reports.queries.rows import SECONDS, named_groups

_BY_FIGURE = """
SELECT a.name, f.figure, sum(f.n)::bigint FROM day_figure AS f JOIN address AS a ON a.id = f.address_id
WHERE f.day >= %s AND f.day < %s AND {figures} AND {scope} GROUP BY 1, 2
"""
# Of the last days the counts by hour know more: they are added up by day once a day.
_BY_MONTH = """
SELECT a.name, date_trunc('month', f.day)::date, sum(f.n)::bigint
FROM (SELECT day, address_id, max(n) AS n FROM (
          SELECT day, address_id, n FROM day_figure WHERE figure = %s
          UNION ALL
          SELECT (hour AT TIME ZONE 'UTC')::date, address_id, sum(failures) FROM group_hour GROUP BY 1, 2
      ) AS counted WHERE day >= %s AND day < %s GROUP BY 1, 2
) AS f JOIN address AS a ON a.id = f.address_id WHERE {scope} GROUP BY 1, 2
"""
Months = tuple[tuple[date, ...], Mapping[str, tuple[int, ...]]]


def failures_by_month(period: Period, *, principal: Principal, patterns: list[str]) -> Months:
    """Return the months of a period, and the failures of each by address, the one with the most first."""
    principal.require(Permission.EXPORT)
    since, until = _days(period)
    scope, parameters = scope_condition(principal, "f.address_id", patterns)
    with bounded(SECONDS):
        found = fetch_rows(_BY_MONTH.format(scope=scope), [FAILURES, since, until, *parameters])
    months = _months(since, until)
    counted: dict[str, Counter[date]] = defaultdict(Counter)
    for address, month, n in found:
        counted[address][month] += n
    ordered = sorted(counted, key=lambda address: (-counted[address].total(), address))
    return months, {address: tuple(counted[address][month] for month in months) for address in ordered}


def with_archived(asked: AskedReport, rows: list[Row], *, principal: Principal, patterns: list[str]) -> list[Row]:
    """Return the figures of live messages with those of archived ones, of whole days.

    Of decisions the mean is of both; there is no median where archived ones are among them.
    """
    wanted = "f.figure IN ('decisions', 'decision_seconds')"
    if asked.kind is ReportKind.REDELIVERY:
        wanted = f"(f.figure LIKE '{DELIVERED}%%' OR f.figure LIKE '{NOT_DELIVERED}%%')"
    scope, parameters = scope_condition(principal, "f.address_id", patterns)
    with bounded(SECONDS):
        sql = _BY_FIGURE.format(figures=wanted, scope=scope)
        found = fetch_rows(sql, [*_days(asked.period), *parameters])
    if asked.kind is ReportKind.REDELIVERY:
        return _tries(asked, rows, found)
    return _decisions(rows, found)


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


def _days(period: Period) -> tuple[date, date]:
    assert period.since is not None
    assert period.until is not None
    return period.since.date(), period.until.date()


def _months(since: date, until: date) -> tuple[date, ...]:
    months = [since.replace(day=1)]
    while (following := (months[-1] + timedelta(days=32)).replace(day=1)) < until:
        months.append(following)
    return tuple(months)
