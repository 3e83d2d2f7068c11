"""The summary of a week or month on one page that prints: failures, groups, ages, decisions, redeliveries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import path, reverse

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.exports import Row
from poisonadmin.core.domain.filter_values import InvalidFilter, address_or_pattern
from poisonadmin.core.queries.rows import QueryTooExpensive
from poisonadmin.deployments.queries import deployments_since
from poisonadmin.reports.commands.saved import last_days
from poisonadmin.reports.domain.asked import AskedReport, Period, asked_report
from poisonadmin.reports.domain.kinds import BRACKETS
from poisonadmin.reports.pages.forms import KEPT_FIELDS, initial_of
from poisonadmin.reports.pages.plots import Plot, largest, stacked
from poisonadmin.reports.queries.archived import archived_days
from poisonadmin.reports.queries.figures import failures_by_day, failures_by_month, top_groups, with_archived
from poisonadmin.reports.queries.rows import rows_at_once
from poisonadmin.web.pages.templatetags.pages import milliseconds
from poisonadmin.web.pages.views import page

SPANS = {
    "1": "Yesterday",
    "7": "7 days",
    "28": "28 days",
    "92": "3 months",
    "366": "12 months",
    "761": "25 months",
}
# The counts by hour, by group too, are kept for five weeks; what is older is counted by day and address.
MOST_DAYS_BY_DAY = 28
SHOWN = 15
SHOWN_ATTEMPTS = 12
_SECONDS = "_seconds"
Draw = Callable[[list[Row]], Plot]


@dataclass(frozen=True)
class SummarySection:
    """A part of the page. `rows` None: it takes too long to count while a page waits. `link`: the whole of it.

    `has_archived`: archived messages are in it, in days of UTC.
    """

    columns: tuple[str, ...]
    rows: list[Row] | None
    link: str
    plot: Plot | None = None
    has_archived: bool = False


@page(Permission.EXPORT, filters=("days", "time_zone", "address"), topic="use/reports#the-summary")
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the page for the last whole days."""
    days = request.GET.get("days", "7")
    if days not in SPANS:
        raise InvalidFilter("days", f"days is one of {', '.join(SPANS)}.")
    zone = request.GET.get("time_zone", "UTC")
    address = request.GET.get("address", "")
    patterns = [address_or_pattern("address", address)] if address else []
    base = asked_report("attempts", time_zone=zone, filter={"address": patterns} if patterns else {})
    period = last_days(int(days), datetime.now(UTC), base).period
    is_by_day = int(days) <= MOST_DAYS_BY_DAY
    steps, by_address = _failures(period, zone, is_by_day, principal, patterns)
    marks = _deployed(steps, period, zone, is_by_day, principal, patterns)
    total = sum(sum(counts) for counts in by_address.values())

    def section(kind: str, *, has_period: bool = True, plot: Draw | None = None) -> SummarySection:
        asked = asked_report(kind, time_zone=zone, filter=base.filter)
        asked = replace(asked, period=period) if has_period else asked
        return _section(asked, principal, patterns, plot)

    context = {
        "spans": SPANS,
        "days": days,
        "zone": zone,
        "address": address,
        "first_day": period.since.date() if period.since else None,
        "last_day": (period.until - timedelta(seconds=1)).date() if period.until else None,
        "is_by_day": is_by_day,
        "failures_total": total,
        "failures_plot": stacked(
            steps,
            largest(by_address),
            label=f"{total:,} failures by {'day' if is_by_day else 'month'} and address",
            marks=marks,
        ),
        "addresses": [(name, sum(counts)) for name, counts in list(by_address.items())[:SHOWN]],
        "groups": top_groups(period, principal=principal, patterns=patterns) if is_by_day else None,
        "ageing": section("ageing", has_period=False, plot=_ages),
        "time_to_decision": section("time_to_decision"),
        "redelivery": section("redelivery", plot=_successes),
    }
    return render(request, "reports/summary.html", context)


def _failures(
    period: Period, zone: str, is_by_day: bool, principal: Principal, patterns: list[str]
) -> tuple[list[str], Mapping[str, tuple[int, ...]]]:
    """Return what the days or months of the period are called, and the failures of each by address."""
    if is_by_day:
        days, by_address = failures_by_day(period, zone, principal=principal, patterns=patterns)
        return [_step(day, is_by_day=True) for day in days], by_address
    months, by_address = failures_by_month(period, principal=principal, patterns=patterns)
    return [_step(month, is_by_day=False) for month in months], by_address


def _step(day: date, *, is_by_day: bool) -> str:
    return f"{day:%b} {day.day}" if is_by_day else f"{day:%b %y}"


def _deployed(
    steps: list[str], period: Period, zone: str, is_by_day: bool, principal: Principal, patterns: list[str]
) -> dict[int, str]:
    """Return the deployments of the period in words, by the place of the day or month."""
    marks: dict[int, list[str]] = {}
    since = period.since or datetime.now(UTC)
    for one in deployments_since(since, principal=principal, consumers=patterns):
        step = _step(one.at.astimezone(ZoneInfo(zone)).date(), is_by_day=is_by_day)
        if step in steps:
            marks.setdefault(steps.index(step), []).append(one.words)
    return {place: ", ".join(words) for place, words in marks.items()}


def _section(asked: AskedReport, principal: Principal, patterns: list[str], plot: Draw | None) -> SummarySection:
    rows: list[Row] | None
    has_archived = asked.of_kind.in_archive and bool(archived_days(asked))
    try:
        rows = rows_at_once(asked, principal=principal).rows
        if has_archived:
            rows = with_archived(asked, rows, principal=principal, patterns=patterns)
    except QueryTooExpensive:
        rows = None
    link = f"{reverse('reports-new')}?{urlencode(_as_query(asked), doseq=True)}"
    drawn = plot(rows) if plot is not None and rows else None
    shown = None if rows is None else [_with_spans(asked.columns, row) for row in rows[:SHOWN]]
    names = tuple(name.removesuffix(_SECONDS) for name in asked.columns)
    return SummarySection(names, shown, link, drawn, has_archived=has_archived and rows is not None)


def _with_spans(columns: Sequence[str], row: Row) -> Row:
    """Return a row with its seconds in words."""
    return tuple(
        milliseconds(value * 1000) if name.endswith(_SECONDS) and value is not None else value
        for name, value in zip(columns, row, strict=True)
    )


def _as_query(asked: AskedReport) -> dict[str, Any]:
    given = {name: value for name, value in initial_of(asked).items() if name in KEPT_FIELDS and value is not None}
    return given | {name: list(texts) for name, texts in asked.filter.items()}


def _ages(rows: list[Row]) -> Plot:
    names = [name.replace("_", " ") for name, _ in BRACKETS]
    series = {str(row[0]): row[1 : 1 + len(names)] for row in rows}
    total = sum(sum(values) for values in series.values())
    return stacked(names, largest(series), label=f"{total:,} undecided messages by age and address")


def _successes(rows: list[Row]) -> Plot:
    """Return how many tries delivered, and how many did not, by the number of the attempt."""
    numbers = sorted({row[1] for row in rows})[:SHOWN_ATTEMPTS]
    delivered = [sum(row[3] for row in rows if row[1] == number) for number in numbers]
    failed = [sum(row[4] for row in rows if row[1] == number) for number in numbers]
    series = {"delivered": delivered, "not delivered": failed}
    return stacked([f"attempt {number}" for number in numbers], series, label="Tries by attempt and result")


urlpatterns = [
    path("reports/summary/", show, name="reports-summary"),
]
