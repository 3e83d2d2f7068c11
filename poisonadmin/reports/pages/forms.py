"""The form that asks for a report, shows its first rows, and keeps it under a name."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from django import forms

from poisonadmin.alerts.channels.registry import CHANNELS
from poisonadmin.alerts.domain.kinds import REPORT_CHANNELS
from poisonadmin.core.domain.errors import NEW, AlreadyExists, PoisonAdminError, PreconditionFailed
from poisonadmin.core.domain.exports import FileFormat
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.core.domain.settings import Setting, settings_of
from poisonadmin.reports.commands import saved
from poisonadmin.reports.domain.asked import MAX_NAME_CHARS, AskedReport, Period, SavedReportSettings, asked_report
from poisonadmin.reports.domain.columns import InvalidReport
from poisonadmin.reports.domain.groups import PIVOT_VALUES
from poisonadmin.reports.domain.kinds import KINDS, KindInfo, PeriodBy, ReportKind
from poisonadmin.reports.queries.live import report_filter
from poisonadmin.web.pages.forms import (
    TextField,
    texts_by_comma,
    texts_by_line,
)
from poisonadmin.web.pages.setting_fields import SettingsFields

FORMATS: dict[str, str] = {
    FileFormat.XLSX: "Excel (.xlsx)",
    FileFormat.CSV: "CSV",
    FileFormat.NDJSON: "NDJSON",
    FileFormat.PARQUET: "Parquet",
    FileFormat.JSON: "JSON",
}
BY: dict[str, str] = {PeriodBy.FAILED: "when it happened", PeriodBy.RECEIVED: "when the message came in"}
FIGURES = {
    name: name.replace("_", " ").capitalize()
    for info in KINDS.values()
    if info.measures is not None
    for name, _ in info.measures.columns
}
# What a link to the form may say, beside the filter.
KEPT_FIELDS = ("kind", "days", "first", "last", "time_zone")
_PARAMETER = re.compile(r"([\w.-]+)=(.+)")
_OF_THE_LIST = {"cursor", "ordering", "since", "mark", "group_by", "sort"}


def parameters(text: str) -> dict[str, list[str]]:
    """Return the filter that lines say: search words, or a parameter such as `address=orders.#`."""
    found: dict[str, list[str]] = {}
    for line in texts_by_line(text):
        parameter = _PARAMETER.fullmatch(line)
        name, value = parameter.groups() if parameter else ("q", line)
        found.setdefault(name, []).append(value)
    return found


def parameter_lines(given: Mapping[str, Sequence[str]]) -> str:
    """Return a parameter of a filter a line, and search words as they are."""
    named = [(name, text) for name, texts in given.items() if name not in _OF_THE_LIST for text in texts]
    return "\n".join(text if name == "q" else f"{name}={text}" for name, text in named)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidReport("period", f"{text[:40]!r} is no day such as 2026-01-31.") from None


def _days(label: str, **options: Any) -> TextField:
    return TextField(label, read=_day, write=lambda day: day.isoformat(), **options)


_SETTINGS = settings_of(SavedReportSettings, but=("name",))


class ReportForm(SettingsFields):
    """A report. Its days are those of its time zone, both of them included."""

    undone = "Nothing was made or saved."
    layout: ClassVar[tuple[tuple[str, str], ...]] = (
        ("", "kind format filter"),
        ("Period", "days first last by time_zone"),
        ("Columns and groups", "columns group_by pivot figure"),
    )
    rest = "To keep it under a name"
    settings: ClassVar[Mapping[str, Setting]] = {
        **_SETTINGS,
        "channel": replace(_SETTINGS["channel"], words={kind: CHANNELS[kind].words for kind in REPORT_CHANNELS}),
    }
    kind = TextField("Kind", choices=[(str(kind), info.words) for kind, info in KINDS.items()], needed=True)
    format = TextField("Format", choices=list(FORMATS.items()), initial=str(FileFormat.XLSX))
    filter = TextField(
        "Filter",
        read=parameters,
        write=parameter_lines,
        rows=3,
        hint="state:NDLV address:orders.#",
        note="Search words as on Triage, or a parameter of the API a line, such as address=orders.#. Empty: all.",
    )
    first = _days("From the day", hint="2026-01-31", note="Empty: from the beginning.")
    last = _days("To the day", hint="2026-02-28", note="Empty: until now.")
    by = TextField("Period of", choices=list(BY.items()), initial=str(PeriodBy.FAILED))
    time_zone = TextField("Time zone", initial="UTC", needed=True, note="Such as Europe/Berlin.")
    columns = texts_by_comma(
        "Columns",
        most=20_000,
        note="In their order, with commas between them; also header.<name> and key.<name>. Empty: the usual ones.",
    )
    group_by = texts_by_comma(
        "Group by",
        most=20_000,
        note="Columns, with commas between them, such as failed_day, address. A row is then a group.",
    )
    pivot = TextField(
        "Pivot: its values as columns",
        most=300,
        hint="failed_day",
        note=f"Beside groups. The {PIVOT_VALUES} most frequent values; all others are one column.",
    )
    figure = TextField("Figure of the pivot", choices=[("", "How many there are"), *FIGURES.items()])
    name = TextField("Name", most=MAX_NAME_CHARS)
    schedule = TextField(
        "Schedule",
        most=_SETTINGS["schedule"].most,
        hint="only on request",
        note="Five cron fields, in the time zone above: 0 7 * * 1 is every Monday at 7:00.",
        list="schedules",
    )
    # Of the saved report that the form was opened with.
    was = forms.CharField(required=False, widget=forms.HiddenInput)
    version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def asked(self) -> AskedReport:
        """Return the report as typed. Errors: `InvalidReport`."""
        typed = self.cleaned_data
        zone = typed.get("time_zone") or "UTC"
        found = asked_report(
            typed.get("kind", ""),
            format=typed.get("format") or FileFormat.XLSX,
            filter=typed.get("filter") or {},
            columns=typed.get("columns") or (),
            time_zone=zone,
            group_by=typed.get("group_by") or (),
            pivot=typed.get("pivot") or None,
            figure=typed.get("figure") or None,
        )
        since, last = typed.get("first"), typed.get("last")
        until = None if last is None else last + timedelta(days=1)
        by = PeriodBy.RECEIVED if typed.get("by") == PeriodBy.RECEIVED else PeriodBy.FAILED
        if since is not None and until is not None and since >= until:
            raise InvalidReport("period", "ends before it begins.")
        period = Period(_midnight(since, zone), _midnight(until, zone), by)
        asked = AskedReport(**{**vars(found), "period": period})
        if typed.get("days") and self.data.get("do") != "save":  # what is saved counts them back from each run
            return saved.last_days(typed["days"], datetime.now(UTC), asked)
        return asked

    def expected_version(self) -> int:
        """Return the version of the saved report that is changed; `NEW` under another name than it had."""
        typed = self.cleaned_data
        return int(typed["version"] or NEW) if typed["name"] == typed["was"] else NEW

    def check(self) -> None:
        """Raise what the command would refuse."""
        asked = self.asked()
        report_filter(asked)
        if self.cleaned_data.get("days") and (self.cleaned_data.get("first") or self.cleaned_data.get("last")):
            raise InvalidReport("days", "is a period, too; leave it or the two days empty.")
        do, kept = self.data.get("do"), self.values()
        if do == "save" or (do == "preview" and any(kept.values())):
            name = self.cleaned_data.get("name", "") or ("" if do == "save" else "not named yet")
            saved.check_saved_report(SavedReportSettings(name=name, **kept), asked)

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error."""
        if isinstance(error, InvalidFilter):
            return "filter"
        if isinstance(error, AlreadyExists | PreconditionFailed):
            return "name"
        found = super().field_of(error)
        return "first" if found == "period" else found


def _midnight(day: date | None, zone: str) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), ZoneInfo(zone))


def columns_by_kind() -> list[tuple[str, list[str], list[str]]]:
    """Return what a form offers for each kind: the kind, columns to choose from, and those that are always there."""
    return [(str(kind), *_columns_of(info)) for kind, info in KINDS.items()]


def _columns_of(info: KindInfo) -> tuple[list[str], list[str]]:
    names = [column.name for column in info.columns]
    if info.measures is None:
        return names, []
    return list(dict.fromkeys([*info.group_by, *names])), [name for name, _ in info.measures.columns]


def initial_of(asked: AskedReport) -> dict[str, Any]:
    """Return what a form holds for a report like this one."""
    zone = ZoneInfo(asked.time_zone)
    since, until = asked.period.since, asked.period.until
    return {
        "kind": str(asked.kind),
        "format": str(asked.format),
        "filter": asked.filter,
        "first": None if since is None else since.astimezone(zone).date(),
        "last": None if until is None else (until - timedelta(seconds=1)).astimezone(zone).date(),
        "by": str(asked.period.by),
        "time_zone": asked.time_zone,
        "columns": list(asked.columns),
        "group_by": list(asked.group_by),
        "pivot": asked.pivot,
        "figure": asked.figure,
    }


def words_of(asked: Mapping[str, Any]) -> str:
    """Return what a report is of, for a list; `asked` as reports/domain/asked.py says."""
    words = KINDS[ReportKind(asked["kind"])].words
    if not asked.get("group_by"):
        return words
    return f"{words.partition(':')[0]}, by {', '.join([*asked['group_by'], *filter(None, [asked.get('pivot')])])}"
