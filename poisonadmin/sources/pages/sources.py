"""Sources: what is drained and how it does, what was set aside, and the forms for administrators."""

from typing import Any

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.brokers.domain.broker_kinds import BROKERS, SOURCE_DEFAULTS
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.sources.commands import setup
from poisonadmin.sources.commands.directories import request_ingest
from poisonadmin.sources.pages.forms import CHECKS, BrokerSourceForm, DirectoryForm
from poisonadmin.sources.queries.sources import (
    SourceRow,
    get_source,
    list_files,
    list_rejected,
    list_sources,
    rejected_raw,
)
from poisonadmin.web.api.attachments import attachment
from poisonadmin.web.pages.forms import saved_or_shown
from poisonadmin.web.pages.views import (
    MAX_REASON_CHARS,
    NO_REASON,
    Section,
    SidebarEntry,
    page,
    pager,
    reason_of,
    require_known,
)

SourceForm = BrokerSourceForm | DirectoryForm


@page(sidebar=SidebarEntry(Section.SETUP, 30, "Sources", "inbox", "s"))
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the list of sources, and what the batch API set aside."""
    require_known(request)
    found = list_sources(principal=principal, cursor=request.GET.get("cursor"))
    batch = list_rejected(None, principal=principal, limit=1) if principal.may(Permission.READ_PAYLOAD) else None
    context = {
        "rows": found.results,
        "pager": pager(request, found),
        "batch_rejects": bool(batch and batch.results),
        "limited": not principal.sees_everything,
    }
    return render(request, "sources/sources.html", context)


@page()
def show(request: HttpRequest, principal: Principal, source_id: int) -> HttpResponseBase:
    """Render one source: a directory with its files, a broker with its settings."""
    require_known(request)
    return _show(request, principal, source_id)


@page(Permission.READ_PAYLOAD)
def rejected(request: HttpRequest, principal: Principal, source_id: int | None = None) -> HttpResponseBase:
    """Render the lines that were set aside, of a source or of the batch API."""
    require_known(request)
    found = list_rejected(source_id, principal=principal, cursor=request.GET.get("cursor"))
    context = {
        "source": None if source_id is None else get_source(source_id, principal=principal),
        "rows": found.results,
        "pager": pager(request, found),
    }
    return render(request, "sources/rejected.html", context)


@page(Permission.READ_PAYLOAD)
def rejected_line(request: HttpRequest, principal: Principal, rejected_id: int) -> HttpResponseBase:
    """Answer with all the bytes of one line, as a file."""
    return attachment(request, rejected_raw(rejected_id, principal=principal), f"line-{rejected_id}.bin")


@page(Permission.CONFIGURE, is_for_all=True)
def create(request: HttpRequest, principal: Principal, of: type[SourceForm]) -> HttpResponseBase:
    """Show the form of a new source, and save it when it is sent."""
    return _edit(request, principal, of(request.POST if request.method == "POST" else None), None)


@page(Permission.CONFIGURE, is_for_all=True)
def edit(request: HttpRequest, principal: Principal, source_id: int) -> HttpResponseBase:
    """Show the form of a source as it is, and save it when it is sent."""
    row = get_source(source_id, principal=principal)
    of = BrokerSourceForm if row.is_broker else DirectoryForm
    return _edit(request, principal, of(request.POST if request.method == "POST" else None, row), row)


@require_POST
@page(Permission.PAUSE)
def switch(request: HttpRequest, principal: Principal, source_id: int, change: str) -> HttpResponseBase:
    """Switch the source on or off, with a reason."""
    reason = reason_of(request)
    if not reason:
        return _show(request, principal, source_id, NO_REASON, 422)
    setup.set_source_enabled(source_id, enabled=change == "enable", principal=principal, reason=reason)
    notes.success(request, f"The source is {'on' if change == 'enable' else 'off'}.")
    return HttpResponseRedirect(reverse("sources-one", args=[source_id]))


@require_POST
@page(Permission.INGEST)
def check_now(request: HttpRequest, principal: Principal, source_id: int) -> HttpResponseBase:
    """Have the next tick take in what is there, whatever went wrong before."""
    request_ingest(source_id, principal)
    notes.success(request, "It is checked within a few seconds.")
    return HttpResponseRedirect(reverse("sources-one", args=[source_id]))


@require_POST
@page(Permission.CONFIGURE)
def delete(request: HttpRequest, principal: Principal, source_id: int) -> HttpResponseBase:
    """Forget the source."""
    name = get_source(source_id, principal=principal).name
    try:
        setup.delete_source(source_id, principal=principal)
    except setup.SourceBusy as error:
        return _show(request, principal, source_id, error.detail, error.status)
    notes.success(request, f"The source {name} is gone; its messages stay.")
    return HttpResponseRedirect(reverse("sources"))


def _show(
    request: HttpRequest, principal: Principal, source_id: int, error: str = "", status: int = 200
) -> HttpResponse:
    found = get_source(source_id, principal=principal)
    context: dict[str, Any] = {"source": found, "error": error, "max_reason": MAX_REASON_CHARS}
    if found.is_broker:
        context |= {"settings": _settings(found), "broker": BROKERS[found.kind], "checks": CHECKS}
        return render(request, "sources/source_broker.html", context, status=status)
    files = list_files(source_id, principal=principal, cursor=request.GET.get("cursor"))
    context |= {"rows": files.results, "pager": pager(request, files)}
    return render(request, "sources/source.html", context, status=status)


def _edit(request: HttpRequest, principal: Principal, form: SourceForm, row: SourceRow | None) -> HttpResponse:
    def save() -> str:
        saved = setup.save_source(**form.arguments(), principal=principal, expected_version=form.expected_version())
        notes.success(request, f"The source {saved.name} is saved; it is drained from now on.")
        return reverse("sources-one", args=[saved.id])

    return saved_or_shown(request, form, save, "sources/source_form.html", lambda: {"source": row})


def _settings(found: SourceRow) -> dict[str, Any]:
    in_force = {**SOURCE_DEFAULTS[found.kind], **found.config}
    return {name: value for name, value in in_force.items() if name not in ("url", BROKERS[found.kind].drained)}


urlpatterns = [
    path("sources/", show_all, name="sources"),
    path("sources/broker/", create, {"of": BrokerSourceForm}, name="sources-new"),
    path("sources/directory/", create, {"of": DirectoryForm}, name="sources-directory"),
    path("sources/<int:source_id>/", show, name="sources-one"),
    path("sources/<int:source_id>/edit/", edit, name="sources-edit"),
    path("sources/<int:source_id>/now/", check_now, name="sources-now"),
    path("sources/<int:source_id>/enable/", switch, {"change": "enable"}, name="sources-enable"),
    path("sources/<int:source_id>/disable/", switch, {"change": "disable"}, name="sources-disable"),
    path("sources/<int:source_id>/delete/", delete, name="sources-delete"),
    path("sources/<int:source_id>/rejected/", rejected, name="sources-rejected"),
    path("sources/batch/rejected/", rejected, name="sources-batch"),
    path("sources/rejected/<int:rejected_id>/", rejected_line, name="sources-line"),
]
