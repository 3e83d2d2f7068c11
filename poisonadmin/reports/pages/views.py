"""The pages of reports: those that were asked for, the form, one with its file, and those that are kept."""

from typing import Any

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.reports.commands import requests, saved
from poisonadmin.reports.domain.asked import AskedReport, from_json
from poisonadmin.reports.pages.forms import FORMATS, KEPT_FIELDS, ReportForm, columns_by_kind, initial_of, words_of
from poisonadmin.reports.queries.reports import get_report, get_saved_report, list_reports, list_saved_reports
from poisonadmin.reports.queries.rows import as_objects, rows_at_once
from poisonadmin.search.domain.filters import narrowing
from poisonadmin.web.api.attachments import attachment
from poisonadmin.web.pages.views import Section, SidebarEntry, page, pager

PREVIEW_ROWS = 20
_OWN = (*KEPT_FIELDS, "like", "saved")


@page(
    Permission.EXPORT,
    filters=(),
    sidebar=SidebarEntry(Section.INSIGHTS, 10, "Reports", "report-analytics", "p", also=("comparisons",)),
    topic="use/reports",
)
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the reports that were asked for, and those that are kept."""
    found = list_reports(principal=principal, cursor=request.GET.get("cursor"), limit=25)
    context = {
        "rows": [(row, words_of(row.asked), FORMATS[row.asked["format"]]) for row in found.results],
        "pager": pager(request, found),
        "saved": [(row, words_of(row.asked)) for row in list_saved_reports(principal=principal)],
        "is_live": any(not row.is_over for row in found.results),
    }
    template = "reports/_reports.html" if getattr(request, "htmx", False) else "reports/reports.html"
    return render(request, template, context)


@page(Permission.EXPORT)
def ask(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Show the form; preview, ask for or keep what it says."""
    if request.method != "POST":
        return _form(request, ReportForm(initial=_initial(request, principal)))
    form = ReportForm(request.POST)
    # What is wrong with how it would be kept is said beside the rows that it has, which the days choose.
    is_shown = request.POST.get("do") == "preview" and form.errors.keys() <= form.settings.keys() - {"days"}
    if not (form.is_valid() or is_shown):
        return _form(request, form, status=422)
    asked = form.asked()
    try:
        if request.POST.get("do") == "make":
            report_id = requests.request_report(asked, principal=principal)
            return HttpResponseRedirect(reverse("reports-one", args=[report_id]))
        if request.POST.get("do") == "save":
            return _saved(request, form, asked, principal)
        found = rows_at_once(asked, principal=principal, limit=PREVIEW_ROWS)
    except PoisonAdminError as error:
        return _form(request, form, status=form.refuse(error))
    rows = [list(row.values()) for row in as_objects(found.columns, found.rows, asked.time_zone)]
    preview = {"columns": found.columns, "rows": rows, "is_whole": found.is_whole}
    return _form(request, form, preview=preview)


def _form(request: HttpRequest, form: ReportForm, *, status: int = 200, **more: Any) -> HttpResponseBase:
    context = {"form": form, "columns_by_kind": columns_by_kind(), **more}
    if getattr(request, "htmx", False):
        return render(request, "reports/_preview.html", context)
    return render(request, "reports/report_form.html", context, status=status)


def _initial(request: HttpRequest, principal: Principal) -> dict[str, Any]:
    """Return what the form begins with: an earlier report, a saved one, or the filter of a list of messages."""
    like, kept = request.GET.get("like", ""), request.GET.get("saved", "")
    if like.isdecimal() and len(like) < 19:
        return initial_of(from_json(get_report(int(like), principal=principal).asked))
    if kept.isdecimal() and len(kept) < 19:
        row = get_saved_report(int(kept), principal=principal)
        names = ("name", "days", "schedule", "is_shared", "channel", "to")
        own = {"was": row.name, "version": row.version} if row.owner in principal.own_names else {}
        return initial_of(from_json(row.asked)) | {name: getattr(row, name) for name in names} | own
    given = {name: texts for name, texts in request.GET.lists() if name not in _OWN}
    fields = {name: request.GET[name] for name in KEPT_FIELDS if name in request.GET}
    return {"filter": narrowing(given), "kind": "failures", **fields}


def _saved(request: HttpRequest, form: ReportForm, asked: AskedReport, principal: Principal) -> HttpResponseBase:
    _, secret = saved.save_report(
        form.cleaned_data["name"], asked, principal=principal, expected_version=form.expected_version(), **form.values()
    )
    notes.success(request, f"The report “{form.cleaned_data['name']}” is saved.")
    if secret is not None:
        notes.success(request, f"Its webhook is signed with this secret, which is not shown again: {secret}")
    return HttpResponseRedirect(reverse("reports"))


@page(Permission.EXPORT, filters=())
def show(request: HttpRequest, principal: Principal, report_id: int) -> HttpResponseBase:
    """Show a report: how far it is, what it is of, and its file."""
    row = get_report(report_id, principal=principal)
    asked = from_json(row.asked)
    context = {
        "report": row,
        "kind": words_of(row.asked),
        "format": FORMATS[row.asked["format"]],
        "asked": asked,
        "filter": [(name, text) for name, texts in asked.filter.items() for text in texts],
        "is_live": not row.is_over,
    }
    template = "reports/_report.html" if getattr(request, "htmx", False) else "reports/report.html"
    return render(request, template, context)


@page(Permission.EXPORT, filters=())
def as_file(request: HttpRequest, principal: Principal, report_id: int) -> HttpResponseBase:
    """Send the file of a report."""
    content, name = requests.download_of(report_id, principal=principal)
    return attachment(request, content, name)


@require_POST
@page(Permission.EXPORT)
def cancel(request: HttpRequest, principal: Principal, report_id: int) -> HttpResponseBase:
    """End a report that is being made."""
    requests.cancel_report(report_id, principal=principal)
    notes.success(request, f"The report #{report_id} is cancelled.")
    return HttpResponseRedirect(reverse("reports"))


@require_POST
@page(Permission.EXPORT)
def run_saved(request: HttpRequest, principal: Principal, saved_report_id: int) -> HttpResponseBase:  # noqa: ARG001
    """Have a saved report made now."""
    report_id = saved.run_saved_report(saved_report_id, principal=principal)
    return HttpResponseRedirect(reverse("reports-one", args=[report_id]))


@require_POST
@page(Permission.EXPORT)
def remove_saved(request: HttpRequest, principal: Principal, saved_report_id: int) -> HttpResponseBase:
    """Remove a saved report."""
    row = get_saved_report(saved_report_id, principal=principal)
    saved.remove_saved_report(saved_report_id, principal=principal)
    notes.success(request, f"The saved report “{row.name}” is removed. Its reports stay.")
    return HttpResponseRedirect(reverse("reports"))


urlpatterns = [
    path("reports/", show_all, name="reports"),
    path("reports/new/", ask, name="reports-new"),
    path("reports/<int:report_id>/", show, name="reports-one"),
    path("reports/<int:report_id>/download/", as_file, name="reports-download"),
    path("reports/<int:report_id>/cancel/", cancel, name="reports-cancel"),
    path("reports/saved/<int:saved_report_id>/run/", run_saved, name="reports-run"),
    path("reports/saved/<int:saved_report_id>/remove/", remove_saved, name="reports-remove"),
]
