"""The parameters of a report, checked, the columns of its result, and what is kept of one under a name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from poisonadmin.alerts.domain.kinds import REPORT_CHANNELS
from poisonadmin.core.domain import settings
from poisonadmin.core.domain.errors import all_checked
from poisonadmin.core.domain.exports import ColumnType, FileFormat, Schema
from poisonadmin.core.domain.settings import one_of, within
from poisonadmin.reports.domain.columns import HiddenColumns, InvalidReport, ReportColumn, named
from poisonadmin.reports.domain.kinds import (
    COUNT,
    KINDS,
    POLICY,
    Grain,
    KindInfo,
    Measures,
    PeriodBy,
    ReportKind,
)
from poisonadmin.search.domain.filters import fields_of

MAX_NAME_CHARS = 100
MAX_COLUMNS = 60
MAX_GROUPS_BY = 4
# Names in the database of time zones that mean another zone on each machine, or none.
_NO_PLACE = ("localtime", "posixrules", "Factory")


@dataclass(frozen=True)
class Period:
    """From `since`, before `until`; either may be None."""

    since: datetime | None = None
    until: datetime | None = None
    by: PeriodBy = PeriodBy.FAILED

    def conditions(self, time: str) -> tuple[tuple[str, datetime], ...]:
        """Return each bound as the beginning of a condition on the time, and its value."""
        bounds = ((f"{time} >=", self.since), (f"{time} <", self.until))
        return tuple((sql, value) for sql, value in bounds if value is not None)


@dataclass(frozen=True)
class AskedReport:
    """A report as it was asked for. `filter`: parameters of `GET /messages/`. `columns` are those of its result.

    `pivot`: the column whose values are columns, each with the `figure` of its rows. Those stand before the last column
    of the result, the figure of the whole group; only the rows say which there are. `hidden`: what is masked for who
    asked, of now; it is not kept.
    """

    kind: ReportKind
    format: FileFormat = FileFormat.JSON
    filter: Mapping[str, Sequence[str]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    period: Period = Period()
    time_zone: str = "UTC"
    group_by: tuple[str, ...] = ()
    pivot: str | None = None
    figure: str | None = None
    hidden: HiddenColumns = field(default_factory=HiddenColumns)

    @property
    def of_kind(self) -> KindInfo:
        """Its kind."""
        return KINDS[self.kind]

    @property
    def measures(self) -> Measures | None:
        """The measures of each group; None where a row of the query is a row of the report."""
        return self.of_kind.measures or (COUNT if self.group_by else None)

    @property
    def cells(self) -> tuple[str, ...]:
        """The columns in which rows are equal that are counted together."""
        return self.group_by if self.pivot is None else (*self.group_by, self.pivot)

    @property
    def read(self) -> tuple[ReportColumn, ...]:
        """The columns of the query: those of the rows, or what the groups are made of and what is counted in them."""
        if self.measures is None:
            return self._masked(self.columns)
        of = self.measures.of
        return (*self._masked(self.cells), *([] if of is None else [of]))

    def _masked(self, names: Sequence[str]) -> tuple[ReportColumn, ...]:
        of = "p" if self.of_kind.grain is Grain.POISON else "m"
        return tuple(self.hidden.mask(_column(self.of_kind, name), of=of) for name in names)

    @property
    def schema(self) -> Schema:
        """The name and the type of each column of the result; of a pivot without the values."""
        types = self._offered()
        return tuple((name, types[name]) for name in self.columns)

    def _offered(self) -> dict[str, ColumnType]:
        if self.measures is None:
            return {name: _column(self.of_kind, name).type for name in self.columns}
        groups = {name: _column(self.of_kind, name).type for name in self.group_by}
        return groups | dict(self.measures.columns)

    @property
    def shows_payload(self) -> bool:
        """True when a column, or a group, is of payloads."""
        return any(column.is_payload for column in self.read)

    @property
    def needs(self) -> frozenset[str]:
        """The tables that the rows are joined with."""
        return frozenset().union(*(column.needs for column in self.read))

    def as_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        period = self.period
        return {
            "kind": str(self.kind),
            "format": str(self.format),
            "filter": {name: list(texts) for name, texts in self.filter.items()},
            "columns": list(self.columns),
            "period": {
                "from": None if period.since is None else period.since.isoformat(),
                "to": None if period.until is None else period.until.isoformat(),
                "by": str(period.by),
            },
            "time_zone": self.time_zone,
            "group_by": list(self.group_by),
            "pivot": self.pivot,
            "figure": self.figure,
        }


def audited(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the audit log has of a report that `AskedReport.as_json` wrote."""
    return {**kept, "filter": fields_of(kept["filter"])}


def from_json(kept: Mapping[str, Any]) -> AskedReport:
    """Return the report that `AskedReport.as_json` wrote; raise InvalidReport where it can be no more."""
    period = kept["period"]
    since, until = (None if (text := period[end]) is None else datetime.fromisoformat(text) for end in ("from", "to"))
    return asked_report(
        kept["kind"],
        format=kept["format"],
        filter=kept["filter"],
        columns=() if kept.get("pivot") else kept["columns"],
        period=Period(since, until, PeriodBy(period["by"])),
        time_zone=kept["time_zone"],
        group_by=kept["group_by"],
        pivot=kept.get("pivot"),
        figure=kept.get("figure"),
    )


def asked_report(kind: str, **wishes: Any) -> AskedReport:
    """Return the report of these wishes, which are fields of `AskedReport`; where no columns are chosen, it has those
    of its kind. Errors: `InvalidReport`."""
    found = AskedReport(**{"kind": kind, **wishes})
    checked = all_checked(
        {"kind": lambda: _kind(kind), "format": lambda: _format(found.format), "zone": lambda: _zone(found.time_zone)}
    )
    info = KINDS[checked["kind"]]
    pivot, columns = found.pivot, tuple(found.columns)
    groups = tuple(found.group_by) or tuple(name for name in info.group_by if name != pivot)
    _check_groups(info, groups, "group_by", MAX_GROUPS_BY)
    found = replace(found, kind=checked["kind"], format=checked["format"], columns=columns, group_by=groups)
    _check_period(found.period)
    if pivot or found.figure:
        return _pivoted(found, pivot, found.figure)
    if found.measures is None:
        _check_names(info, columns, "columns", MAX_COLUMNS)
        return found if columns else replace(found, columns=info.default)
    offered = (*groups, *(name for name, _ in found.measures.columns))
    for name in columns:
        if name not in offered:
            raise InvalidReport(
                "columns", f"{name[:60]!r} is no column of these groups; those are {', '.join(offered)}."
            )
    _refuse_twice(columns, "columns")
    return found if columns else replace(found, columns=offered)


def _pivoted(found: AskedReport, pivot: str | None, figure: str | None) -> AskedReport:
    if not pivot:
        raise InvalidReport("figure", "needs a pivot.")
    if found.measures is None:
        raise InvalidReport("group_by", "is required with a pivot: it names the rows.")
    _check_groups(found.of_kind, (pivot,), "pivot", 1)
    if pivot in found.group_by:
        raise InvalidReport("pivot", "must be none of the columns by which rows are grouped.")
    if found.columns:
        raise InvalidReport("columns", "are those of the groups and the values of the pivot; leave them out.")
    figures = [name for name, _ in found.measures.columns]
    if figure and figure not in figures:
        raise InvalidReport("figure", f"must be one of {', '.join(figures)}.")
    shown = figure or found.measures.main
    return replace(found, columns=(*found.group_by, shown), pivot=pivot, figure=shown)


def _column(info: KindInfo, name: str) -> ReportColumn:
    found = info.by_name.get(name) or (named(name) if info.grain is not Grain.POISON else None)
    if found is None:
        more = "" if info.grain is Grain.POISON else ", header.<name>, key.<name>"
        known = ", ".join(column.name for column in info.columns)
        raise InvalidReport("columns", f"there is no column {name[:60]!r}; those are {known}{more}.")
    return found


def _check_groups(info: KindInfo, names: Sequence[str], field: str, most: int) -> None:
    _check_names(info, names, field, most)
    if any(_column(info, name).type is ColumnType.BYTES for name in names):
        raise InvalidReport(field, "payloads make no groups; choose a header or a business key.")


def _check_names(info: KindInfo, names: Sequence[str], field: str, most: int) -> None:
    if len(names) > most:
        raise InvalidReport(field, f"may have {most} names at most.")
    for name in names:
        try:
            _column(info, name)
        except InvalidReport as error:
            raise InvalidReport(field, error.reason) from None
        if field == "columns" and name == POLICY.name:
            raise InvalidReport(field, "policy is a group, and no column.")
    _refuse_twice(names, field)


def _refuse_twice(names: Sequence[str], field: str) -> None:
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise InvalidReport(field, f"names {twice[:60]} twice.")


def _kind(kind: str) -> ReportKind:
    try:
        return ReportKind(kind)
    except ValueError:
        raise InvalidReport("kind", f"must be one of {', '.join(ReportKind)}.") from None


def _format(text: str) -> FileFormat:
    try:
        return FileFormat(text)
    except ValueError:
        raise InvalidReport("format", f"must be one of {', '.join(FileFormat)}.") from None


def _zone(name: str) -> ZoneInfo:
    try:
        if name in _NO_PLACE:
            raise KeyError(name)
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidReport("time_zone", f"{name[:60]!r} is no time zone such as Europe/Berlin.") from None


def _check_period(period: Period) -> None:
    if period.since is not None and period.until is not None and period.since >= period.until:
        raise InvalidReport("period", "ends before it begins.")


@settings.configuration
class SavedReportSettings:
    """A report as a person keeps it under a name.

    `days`: its period is so many whole days before a run; None: the period of the report. `schedule`: five cron fields
    in its time zone. `channel`, `to`: how others are told of a run of the schedule.
    """

    name: str = settings.name_of(MAX_NAME_CHARS)
    days: int | None = settings.number(
        "The last days",
        within(1, 800),
        default=None,
        hint="7",
        note="So many whole days before each run, instead of two days below.",
    )
    schedule: str | None = settings.text(
        "Schedule: five cron fields", default=None, most=100, hint="0 7 * * 1", note="In the time zone above."
    )
    is_shared: bool = settings.switch("Share it with others", default=False)
    channel: str | None = settings.choice(
        "Tell of each scheduled run by", one_of(REPORT_CHANNELS, "."), default=None, hint="Nobody"
    )
    to: Sequence[str] = settings.lines(
        "Send to",
        default=[],
        most=20,
        each=2000,
        rows=2,
        note="Mail addresses, one a line, or one URL. They get a link below POISONADMIN_PUBLIC_URL, and no rows.",
    )
