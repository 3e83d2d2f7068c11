"""Reports: asked for, followed, downloaded; and those that are kept under a name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http.response import HttpResponseBase
from django.urls import reverse
from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.alerts.domain.kinds import ChannelKind
from poisonadmin.core.domain.access import Permission
from poisonadmin.core.domain.errors import NEW
from poisonadmin.core.domain.exports import FileFormat
from poisonadmin.core.domain.settings import settings_of
from poisonadmin.reports.commands import requests, saved
from poisonadmin.reports.domain.asked import AskedReport, Period, SavedReportSettings, asked_report
from poisonadmin.reports.domain.kinds import PeriodBy, ReportKind
from poisonadmin.reports.queries.reports import (
    ReportRow,
    SavedReportRow,
    get_report,
    get_saved_report,
    list_reports,
    list_saved_reports,
)
from poisonadmin.reports.queries.rows import ReportRows, as_objects
from poisonadmin.runs.domain.kinds import RunState
from poisonadmin.web.api.attachments import attachment
from poisonadmin.web.api.contract import (
    PAGE,
    FilterField,
    Moment,
    Paged,
    Raw,
    SettingsInput,
    StrictSerializer,
    Text,
    contract,
)
from poisonadmin.web.api.rendering import TakeAny
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route, shown


@dataclass(frozen=True, kw_only=True)
class NewSavedReport(SavedReportRow):
    """A saved report that was just made. `secret`: of its webhook, which is not shown again."""

    secret: str | None = None


REPORT = Shape("Report", ReportRow, also={"kind": ReportKind}, kinds={"state": RunState})
ROWS = {
    "type": "object",
    "description": "The rows of a report, where they are few.",
    "properties": {
        "columns": {"type": "array", "items": {"type": "string"}},
        "rows": {"type": "array", "items": {"type": "object", "additionalProperties": True}},
        "count": {"type": "integer"},
    },
    "required": ["columns", "rows", "count"],
}


class PeriodInput(StrictSerializer):
    """Rows `from`, before `to`: of what happened then (`failed`), or of messages that came in then (`received`)."""

    to = Moment(required=False, allow_null=True, default=None)
    by = serializers.ChoiceField(choices=[str(one) for one in PeriodBy], required=False, default=str(PeriodBy.FAILED))

    def get_fields(self) -> dict[str, Any]:
        """Return the fields, with one whose name is a word of the language."""
        return {"from": Moment(required=False, allow_null=True, default=None), **super().get_fields()}


class AskedReportInput(StrictSerializer):
    """`filter`: parameters of `GET /messages/`. `columns` are those of the kind by default, in their order here.

    Beside those that a kind has, `header.<name>` and `key.<name>` are columns. With `group_by` rows are groups of equal
    values. Days, hours and times are in `time_zone`. With `pivot` too, the values of that column are columns, with the
    `figure` of each: `count`, or one that the kind has.
    """

    kind = serializers.ChoiceField(choices=[str(one) for one in ReportKind])
    format = serializers.ChoiceField(
        choices=[str(one) for one in FileFormat], required=False, default=str(FileFormat.JSON)
    )
    filter = FilterField(required=False, default=dict)
    columns = serializers.ListField(child=Text(max_length=300), required=False, default=list, max_length=60)
    period = PeriodInput(required=False, default=None)
    time_zone = Text(max_length=64, required=False, default="UTC")
    group_by = serializers.ListField(child=Text(max_length=300), required=False, default=list, max_length=4)
    pivot = Text(max_length=300, required=False, allow_null=True, default=None)
    figure = Text(max_length=60, required=False, allow_null=True, default=None)


def asked_of(body: Mapping[str, Any]) -> AskedReport:
    """Return the report that a checked body asks for. Errors: `InvalidReport`."""
    given = dict(body)
    period = given.pop("period") or {}
    by = PeriodBy(period.get("by", PeriodBy.FAILED))
    return asked_report(**given, period=Period(period.get("from"), period.get("to"), by))


class ReportList(ApiView):
    """`/reports/`."""

    @contract(Permission.EXPORT, "reports", {200: Paged(REPORT)}, query=PAGE)
    def get(self) -> Response:
        """List the reports of 90 days, newest first: one's own, and the runs of shared ones."""
        return self.listed(REPORT, list_reports)

    @contract(Permission.EXPORT, "reports", {200: ROWS, 202: REPORT}, body=AskedReportInput, acts=True)
    def post(self) -> Response:
        """Ask for a report.

        200 with the rows where `format` is `json` and they are up to 10,000, none of them archived; otherwise a job
        makes a file of them: 202 with the report. Columns of payloads take `read_payload` too.
        """
        asked = asked_of(self.body)
        found = requests.rows_now(asked, principal=self.principal)
        if found is not None:
            return Response(_rows(asked, found))
        report_id = requests.request_report(asked, principal=self.principal)
        row = get_report(report_id, principal=self.principal)
        response = Response(REPORT.render(row), status=202)
        response["Location"] = self.request.build_absolute_uri(f"{report_id}/")
        return response


def _rows(asked: AskedReport, found: ReportRows) -> dict[str, Any]:
    rows = list(as_objects(found.columns, found.rows, asked.time_zone))
    return {"columns": list(found.columns), "rows": rows, "count": len(rows)}


class ReportOne(ApiView):
    """`/reports/{id}/`."""

    @contract(Permission.EXPORT, "reports", {200: REPORT})
    def get(self, report_id: int) -> Response:
        """Show a report and how far it is; of its file the rows, the checksum, and when it is removed."""
        return Response(REPORT.render(get_report(report_id, principal=self.principal)))


class ReportDownload(ApiView):
    """`/reports/{id}/download/`."""

    content_negotiation_class = TakeAny

    @contract(Permission.EXPORT, "reports", {200: Raw()})
    def get(self, report_id: int) -> HttpResponseBase:
        """Download the file of a report, until it expires. The audit log says who did."""
        content, name = requests.download_of(report_id, principal=self.principal)
        return attachment(self.request, content, name)


class ReportCancel(ApiView):
    """`/reports/{id}/cancel/`."""

    @contract(Permission.EXPORT, "reports", {200: REPORT}, acts=True)
    def post(self, report_id: int) -> Response:
        """Cancel a report that is being made; 409 when it has ended."""
        requests.cancel_report(report_id, principal=self.principal)
        return Response(REPORT.render(get_report(report_id, principal=self.principal)))


SAVED_REPORT = Shape("SavedReport", SavedReportRow, kinds={"channel": ChannelKind | None})
NEW_SAVED_REPORT = Shape("NewSavedReport", NewSavedReport, kinds={"channel": ChannelKind | None})


class SavedReportFields(SettingsInput):
    """`report`: as for `POST /reports/`. With `days` its period is so many whole days before a run.

    `schedule`: five cron fields, in the report's time zone; null: it runs on request only. `channel`, `to`: who is told
    when a run of the schedule is ready.
    """

    settings = settings_of(SavedReportSettings, but=("name",))
    report = AskedReportInput()


class SavedReportInput(SavedReportFields):
    """A saved report with its name."""

    settings = settings_of(SavedReportSettings)


class SavedReportView(ApiView):
    """Saves the report of a body."""

    def save(self, name: str, expected_version: int | None) -> tuple[int, str | None]:
        """Save the report of the body under a name; return its id, and the secret of a new webhook."""
        fields = {field: value for field, value in self.body.items() if field not in ("name", "report")}
        asked = asked_of(self.body["report"])
        return saved.save_report(name, asked, principal=self.principal, expected_version=expected_version, **fields)


class SavedReportList(SavedReportView):
    """`/saved-reports/`."""

    @contract(Permission.EXPORT, "reports", {200: Paged(SAVED_REPORT)})
    def get(self) -> Response:
        """List one's own saved reports and the shared ones, by name."""
        return self.whole(SAVED_REPORT, list_saved_reports(principal=self.principal))

    @contract(Permission.EXPORT, "reports", {201: NEW_SAVED_REPORT}, body=SavedReportInput, acts=True)
    def post(self) -> Response:
        """Save a report; 409 when the name is taken. The secret of a webhook is shown this once.

        To share takes the permission to decide, a channel the one to configure.
        """
        saved_id, secret = self.save(self.body["name"], NEW)
        row = NewSavedReport(**vars(get_saved_report(saved_id, principal=self.principal)), secret=secret)
        return self.created(NEW_SAVED_REPORT, row, saved_id)


class SavedReportOne(SavedReportView):
    """`/saved-reports/{id}/`."""

    @contract(Permission.EXPORT, "reports", {200: SAVED_REPORT})
    def get(self, saved_report_id: int) -> Response:
        """Show a saved report."""
        return shown(SAVED_REPORT, get_saved_report(saved_report_id, principal=self.principal))

    @contract(Permission.EXPORT, "reports", {200: SAVED_REPORT}, body=SavedReportFields, decides=True)
    def put(self, saved_report_id: int) -> Response:
        """Replace all of a saved report of one's own but its name."""
        row = get_saved_report(saved_report_id, principal=self.principal)
        saved.require_owner(row, self.principal)
        self.save(row.name, self.expected_version)
        return shown(SAVED_REPORT, get_saved_report(saved_report_id, principal=self.principal))

    @contract(Permission.EXPORT, "reports", {204: None})
    def delete(self, saved_report_id: int) -> Response:
        """Remove a saved report of one's own; an administrator removes shared ones too. Its reports stay."""
        saved.remove_saved_report(saved_report_id, principal=self.principal)
        return Response(status=204)


class SavedReportRun(ApiView):
    """`/saved-reports/{id}/run/`."""

    @contract(Permission.EXPORT, "reports", {202: REPORT}, acts=True)
    def post(self, saved_report_id: int) -> Response:
        """Have a saved report made now, for the caller."""
        report_id = saved.run_saved_report(saved_report_id, principal=self.principal)
        response = Response(REPORT.render(get_report(report_id, principal=self.principal)), status=202)
        response["Location"] = self.request.build_absolute_uri(reverse("api-report", args=[report_id]))
        return response


urlpatterns = [
    route("saved-reports/", SavedReportList, name="api-saved-reports"),
    route("saved-reports/<id:saved_report_id>/", SavedReportOne, name="api-saved-report"),
    route("saved-reports/<id:saved_report_id>/run/", SavedReportRun, name="api-saved-report-run"),
    route("reports/", ReportList, name="api-reports"),
    route("reports/<id:report_id>/", ReportOne, name="api-report"),
    route("reports/<id:report_id>/download/", ReportDownload, name="api-report-download"),
    route("reports/<id:report_id>/cancel/", ReportCancel, name="api-report-cancel"),
]
