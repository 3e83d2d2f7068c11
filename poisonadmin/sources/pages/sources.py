"""Sources: their forms, what is drained and how it does, broker checks, and what was set aside."""

from typing import Any

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.brokers.domain.broker_kinds import BROKERS, SOURCE_DEFAULTS, source_settings
from poisonadmin.brokers.domain.brokers import InvalidSource
from poisonadmin.core.commands.audit import note_payload_reads
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.sources.commands import broker_checks, setup
from poisonadmin.sources.commands.directories import request_ingest
from poisonadmin.sources.commands.setup import MAX_PATH_CHARS, checked_source
from poisonadmin.sources.domain.broker_checks import BrokerCheckPurpose
from poisonadmin.sources.queries import (
    REJECTED_LINE,
    BrokerCheckRow,
    SourceRow,
    get_broker_check,
    get_source,
    list_files,
    list_rejected,
    list_sources,
    rejected_raw,
)
from poisonadmin.store.models.intake import SourceKind
from poisonadmin.web.api.attachments import attachment
from poisonadmin.web.pages.forms import TextField, lines_of, saved_or_shown
from poisonadmin.web.pages.setting_fields import BrokerForm, ConfiguredForm
from poisonadmin.web.pages.views import (
    MAX_REASON_CHARS,
    NO_REASON,
    Section,
    SidebarEntry,
    href,
    page,
    pager,
    reason_of,
    require_known,
)

# What a worker can be asked of a broker, by the value of its button.
CHECKS = (
    ("connection", "Test the connection"),
    ("preview", "Preview"),
    ("groups", "Observe"),
    ("queues", "Find queues"),
)


class BrokerSourceForm(BrokerForm):
    """Queues of dead letters at a broker. All kinds share the field of what is drained."""

    lead = (
        "Dead letters are taken in here, at the address where they failed, and acknowledged at the broker once they are"
        " stored."
    )
    layout = (("Connection", BrokerForm.connection), ("What is drained", "queues address"))
    rest = "Settings"
    object_type = "source"
    check_arguments = staticmethod(checked_source)
    kinds_of = source_settings()
    queues = lines_of(
        "Queues or topics with dead letters, one a line",
        needed=True,
        hint="orders.dlq",
        note="A message is acknowledged at the broker once it is stored in PoisonAdmin.",
    )

    def initial_of(self, row: SourceRow) -> dict[str, Any]:
        """Return what the fields hold before anybody types."""
        return super().initial_of(row) | {"queues": row.drained}

    def config(self) -> dict[str, Any]:
        """Return the configuration as typed, for the command to check."""
        return super().config() | {BROKERS[self.cleaned_data["kind"]].drained: self.cleaned_data.get("queues") or []}

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error."""
        name = super().field_of(error)
        return "queues" if name in {kind.drained for kind in BROKERS.values()} else name


class DirectoryForm(ConfiguredForm):
    """A directory whose files are taken in."""

    object_type = "source"
    only_kind = SourceKind.DIRECTORY
    check_arguments = staticmethod(checked_source)
    lead = "Files are taken in once they have not changed for two seconds. They are never changed, moved or deleted."
    name = TextField("Name", most=100, needed=True)
    path = TextField(
        "Directory",
        most=MAX_PATH_CHARS,
        needed=True,
        hint="/srv/dead-letters",
        note="An absolute path on the machine of the batch worker, and of every Spark executor,"
        " below a directory of POISONADMIN_SOURCE_ROOTS.",
    )

    def config(self) -> dict[str, Any]:
        """Return the configuration as typed, for the command to check."""
        return {"path": self.cleaned_data.get("path")}


@page(sidebar=SidebarEntry(Section.FLOWS, 30, "Sources", "inbox", "s"), topic="operate/brokers#sources")
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


@page(Permission.READ_PAYLOAD, topic="operate/files")
def rejected(request: HttpRequest, principal: Principal, source_id: int | None = None) -> HttpResponseBase:
    """Render the lines that were set aside, of a source or of the batch API."""
    require_known(request)
    found = list_rejected(source_id, principal=principal, cursor=request.GET.get("cursor"))
    note_payload_reads(principal, [one.id for one in found.results], REJECTED_LINE)
    context = {
        "source": None if source_id is None else get_source(source_id, principal=principal),
        "rows": found.results,
        "pager": pager(request, found),
    }
    return render(request, "sources/rejected.html", context)


@page(Permission.READ_PAYLOAD, topic="operate/files")
def rejected_line(request: HttpRequest, principal: Principal, rejected_id: int) -> HttpResponseBase:
    """Answer with all the bytes of one line, as a file."""
    found = rejected_raw(rejected_id, principal=principal)
    note_payload_reads(principal, [rejected_id], REJECTED_LINE)
    return attachment(request, found, f"line-{rejected_id}.bin")


@page(Permission.CONFIGURE, is_for_all=True)
def create(request: HttpRequest, principal: Principal, of: str) -> HttpResponseBase:  # noqa: ARG001
    """Lead to the guided way, which makes sources."""
    return HttpResponseRedirect(href(reverse("connect"), [("of", of)]))


@page(Permission.CONFIGURE, is_for_all=True)
def edit(request: HttpRequest, principal: Principal, source_id: int) -> HttpResponseBase:
    """Show the form of a source as it is, and save it when it is sent."""
    row = get_source(source_id, principal=principal)
    of = BrokerSourceForm if row.is_broker else DirectoryForm
    form = of(request.POST if request.method == "POST" else None, row)

    def save() -> str:
        saved = setup.save_source(**form.arguments(), principal=principal, expected_version=form.expected_version())
        notes.success(request, f"The source {saved.name} is saved; it is drained from now on.")
        return reverse("sources-one", args=[saved.id])

    return saved_or_shown(request, form, save, "sources/source_form.html", lambda: {"source": row})


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
        broker = BROKERS[found.kind]
        checks = [one for one in CHECKS if one[0] != BrokerCheckPurpose.GROUPS or broker.can_be_observed]
        context |= {"settings": _settings(found), "broker": broker, "checks": checks}
        return render(request, "sources/source_broker.html", context, status=status)
    files = list_files(source_id, principal=principal, cursor=request.GET.get("cursor"))
    context |= {"rows": files.results, "pager": pager(request, files)}
    return render(request, "sources/source.html", context, status=status)


def _settings(found: SourceRow) -> dict[str, Any]:
    in_force = {**SOURCE_DEFAULTS[found.kind], **found.config}
    return {name: value for name, value in in_force.items() if name not in ("url", BROKERS[found.kind].drained)}


@require_POST
@page(Permission.INGEST)
def of_source(request: HttpRequest, principal: Principal, source_id: int) -> HttpResponseBase:
    """Have a worker check the source's broker."""
    purpose = _purpose(request.POST.get("check", "connection"))
    return _requested(request, principal, broker_checks.request_source_check(source_id, purpose, principal=principal))


@page()
def answer(request: HttpRequest, principal: Principal, check_id: int) -> HttpResponseBase:
    """Render the result of a broker check; nothing new for a page that waits for it."""
    require_known(request)
    check = get_broker_check(check_id, principal=principal)
    is_fragment = getattr(request, "htmx", False)
    if is_fragment and check.is_waiting:
        return HttpResponse(status=204)
    return _shown_check(request, check, "sources/_broker_check.html" if is_fragment else "sources/broker_check.html")


def _requested(request: HttpRequest, principal: Principal, check_id: int) -> HttpResponseBase:
    if not getattr(request, "htmx", False):
        return HttpResponseRedirect(reverse("sources-answer", args=[check_id]))
    return _shown_check(request, get_broker_check(check_id, principal=principal), "sources/_broker_check.html")


def _shown_check(request: HttpRequest, check: BrokerCheckRow, template: str) -> HttpResponse:
    return render(request, template, {"check": check, "broker": BROKERS[check.kind]})


def _purpose(text: str) -> BrokerCheckPurpose:
    try:
        return BrokerCheckPurpose(text)
    except ValueError:
        raise InvalidSource("check", f"must be one of {', '.join(BrokerCheckPurpose)}") from None


urlpatterns = [
    path("sources/", show_all, name="sources"),
    path("sources/broker/", create, {"of": "broker"}, name="sources-new"),
    path("sources/directory/", create, {"of": "files"}, name="sources-directory"),
    path("sources/<int:source_id>/", show, name="sources-one"),
    path("sources/<int:source_id>/edit/", edit, name="sources-edit"),
    path("sources/<int:source_id>/now/", check_now, name="sources-now"),
    path("sources/<int:source_id>/enable/", switch, {"change": "enable"}, name="sources-enable"),
    path("sources/<int:source_id>/disable/", switch, {"change": "disable"}, name="sources-disable"),
    path("sources/<int:source_id>/delete/", delete, name="sources-delete"),
    path("sources/<int:source_id>/rejected/", rejected, name="sources-rejected"),
    path("sources/batch/rejected/", rejected, name="sources-batch"),
    path("sources/rejected/<int:rejected_id>/", rejected_line, name="sources-line"),
    path("sources/checks/<int:check_id>/", answer, name="sources-answer"),
    path("sources/<int:source_id>/check/", of_source, name="sources-check"),
]
