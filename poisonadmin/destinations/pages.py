"""Destinations: where addresses deliver, and the forms for administrators."""

from collections.abc import Mapping
from typing import Any

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.brokers.domain.broker_kinds import BROKERS, DESTINATION_DEFAULTS, destination_settings
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.addresses import ANY_WORDS, MAX_ADDRESS_CHARS, validate_pattern
from poisonadmin.core.domain.settings import settings_of
from poisonadmin.destinations.commands import (
    InUse,
    checked_destination,
    delete_destination,
    save_destination,
    set_destination_enabled,
)
from poisonadmin.destinations.domain import handler_config, http_config
from poisonadmin.destinations.domain.destination import DestinationSettings
from poisonadmin.destinations.domain.http_config import CONNECTION_LOST, InvalidDestination, may_keep_secrets
from poisonadmin.destinations.queries import DestinationRow, addresses_of, get_destination, list_destinations
from poisonadmin.store.models.destination import DestinationKind
from poisonadmin.web.pages.forms import (
    SecretLines,
    TextField,
    headers_by_line,
    lines_of,
    lines_of_headers,
    saved_or_shown,
    ticks,
)
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

_HTTP = http_config.DEFAULTS


def _check(**arguments: Any) -> None:
    checked_destination(DestinationSettings(**arguments))


class OwnedForm(ConfiguredForm):
    """The fields of every destination."""

    object_type = "destination"
    check_arguments = staticmethod(_check)
    settings = settings_of(DestinationSettings, but=("owner",))
    owner = TextField(
        "Owner",
        read=validate_pattern,
        most=MAX_ADDRESS_CHARS,
        initial=ANY_WORDS,
        note="A pattern of addresses, such as orders.#. Users whose scope contains all of them may use and change the"
        " destination, and its consumers move messages to no other address.",
    )


class HttpForm(OwnedForm):
    """An HTTP destination. Its secret headers stay as they are where none are typed."""

    heading = "Add HTTP destination"
    lead = "Each message is sent as a request. It is delivered when the status of the answer is 2xx."
    layout = (
        ("Request", "name owner url method verify_tls"),
        ("Headers", "headers secrets forget_secrets copy_headers"),
        ("Limits", "timeout_ms concurrency max_rate_per_second"),
        ("Crashes", "crash_on"),
    )
    only_kind = DestinationKind.HTTP
    configured = http_config.HTTP
    headers = TextField(
        "Headers of each request, one a line",
        read=headers_by_line,
        write=lines_of_headers,
        rows=3,
        hint="X-Tenant: shop",
        note="Readers may see them.",
    )
    secrets = TextField(
        "Secret headers, one a line",
        read=headers_by_line,
        rows=3,
        hint="Authorization: Bearer …",
        note="They replace the stored ones, and are never shown again.",
        widget=SecretLines,
    )
    forget_secrets = ticks("Forget the stored secret headers")
    copy_headers = lines_of(
        "Headers of the message to copy, one a line",
        note="Names, or beginnings such as x-*. Empty: none.",
        initial=_HTTP["copy_headers"],
    )
    crash_on = ticks(
        "A lost connection counts as a crash of the consumer",
        note="Lost after the request and before its answer. The message is then delivered alone, and blacklisted when"
        " it happens again.",
    )

    def __init__(self, data: Mapping[str, Any] | None = None, row: DestinationRow | None = None) -> None:
        super().__init__(data, row)
        if row is not None and row.secret_names:
            self.fields["secrets"].widget.attrs["placeholder"] = f"unchanged: {', '.join(row.secret_names)}"
        else:
            del self.fields["forget_secrets"]

    def initial_of(self, row: DestinationRow) -> dict[str, Any]:
        """Return what the fields hold before anybody types."""
        return super().initial_of(row) | {"crash_on": row.config.get("crash_on") == CONNECTION_LOST}

    def check(self) -> None:
        """Raise what the command would refuse; secrets that would go elsewhere are asked for where they are typed."""
        if self.keeps_secrets() and "url" in self.cleaned_data and not may_keep_secrets(self.row.config, self.config()):
            self.add_error("url", "The stored secret headers are not sent to another place.")
            self.add_error("secrets", "Type them again, or tick “Forget the stored secret headers”.")
        super().check()

    def config(self) -> dict[str, Any]:
        """Return the configuration as typed, for the command to check. What is as the default says is left out."""
        typed = {"copy_headers": [], "url": None, **self.filled_in()}
        typed["crash_on"] = CONNECTION_LOST if typed["crash_on"] else None
        return {name: typed[name] for name in ("url", *_HTTP) if name in typed and typed[name] != _HTTP.get(name)}

    def secret_values(self) -> dict[str, str] | None:
        """Return the secret headers, None where the stored ones are to be kept."""
        return self.cleaned_data.get("secrets") or ({} if self.cleaned_data.get("forget_secrets") else None)


class HandlerForm(OwnedForm):
    """A handler."""

    heading = "Add handler"
    lead = "A Python function is called with each message, in a sandbox with limits of its own."
    layout = (("Handler", "name owner callable"),)
    rest = "Limits"
    only_kind = DestinationKind.HANDLER
    configured = handler_config.HANDLER


class BrokerDestinationForm(BrokerForm, OwnedForm):
    """A broker."""

    heading = "Add broker destination"
    lead = (
        "A message is delivered when the broker has confirmed it. Without a redirect it returns to the queue where it"
        " failed, else to the queue named as its address."
    )
    layout = (("Connection", f"owner {BrokerForm.connection}"), ("Redirect", "queue topic exchange routing_key"))
    rest = "Limits"
    kinds_of = destination_settings()


DestinationForm = HttpForm | HandlerForm | BrokerDestinationForm
_DEFAULTS: dict[str, Any] = {
    DestinationKind.HTTP: http_config.DEFAULTS,
    DestinationKind.HANDLER: handler_config.DEFAULTS,
    **DESTINATION_DEFAULTS,
}


@page(
    sidebar=SidebarEntry(Section.FLOWS, 40, "Destinations", "send", "d"), topic="use/dashboard#sources-and-destinations"
)
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the list of destinations by name."""
    require_known(request)
    found = list_destinations(principal=principal, cursor=request.GET.get("cursor"))
    return render(request, "destinations/destinations.html", {"rows": found.results, "pager": pager(request, found)})


@page()
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render one destination; of its secrets only the names."""
    require_known(request, "name")
    return _show(request, principal, request.GET.get("name", ""))


@require_POST
@page(Permission.PAUSE)
def switch(request: HttpRequest, principal: Principal, enabled: bool) -> HttpResponseBase:
    """Switch the destination on or off, with a reason."""
    name = get_destination(request.POST.get("name", ""), principal=principal).name
    reason = reason_of(request)
    if not reason:
        return _show(request, principal, name, NO_REASON, 422)
    set_destination_enabled(name, enabled=enabled, principal=principal, reason=reason)
    notes.success(request, f"The destination {name} is {'on' if enabled else 'off'}.")
    return HttpResponseRedirect(href(reverse("destinations-one"), [("name", name)]))


@require_POST
@page(Permission.CONFIGURE)
def delete(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Remove the destination, unless a policy names it."""
    name = get_destination(request.POST.get("name", ""), principal=principal).name
    try:
        delete_destination(name, principal=principal)
    except InUse as error:
        return _show(request, principal, name, error.detail, error.status)
    notes.success(request, f"The destination {name} is gone.")
    return HttpResponseRedirect(reverse("destinations"))


def _show(request: HttpRequest, principal: Principal, name: str, error: str = "", status: int = 200) -> HttpResponse:
    found = get_destination(name, principal=principal)
    defaults = _DEFAULTS[found.kind]
    settings = {name: found.config.get(name, default) for name, default in defaults.items() if name != "headers"}
    settings = {name: ", ".join(one) or "none" if isinstance(one, list) else one for name, one in settings.items()}
    context = {
        "destination": found,
        "may_change": principal.may(Permission.CONFIGURE)
        and (principal.sees_everything or found.kind != DestinationKind.HANDLER),
        "is_broker": found.kind in BROKERS,
        "form_route": _route(found.kind),
        "settings": settings,
        "headers": sorted(dict(found.config.get("headers", {})).items()),
        "addresses": addresses_of(found.id, principal=principal),
        "error": error,
        "max_reason": MAX_REASON_CHARS,
    }
    return render(request, "destinations/destination.html", context, status=status)


@page(Permission.CONFIGURE)
def edit(request: HttpRequest, principal: Principal, of: type[DestinationForm]) -> HttpResponseBase:
    """Show the form of the destination that is named, or of a new one, and save it when it is sent.

    A handler's code runs beside everybody's, so who is limited to some addresses gets no form of one.
    """
    if of is HandlerForm:
        principal.require_cover(ANY_WORDS)
    require_known(request, "name")
    given = request.GET.get("name")
    row = None if given is None else get_destination(given, principal=principal)
    if row is not None and ROUTES[of] != _route(row.kind):
        raise InvalidDestination("kind", f"this destination has another form: {reverse(_route(row.kind))}")
    form = of(request.POST if request.method == "POST" else None, row)

    def save() -> str:
        if row is None:
            principal.require_cover(form.cleaned_data["owner"] or ANY_WORDS)
        name = save_destination(**form.arguments(), principal=principal, expected_version=form.expected_version()).name
        notes.success(request, f"The destination {name} is saved; a policy that names it delivers there.")
        return href(reverse("destinations-one"), [("name", name)])

    return saved_or_shown(request, form, save, "destinations/destination_form.html", lambda: {"destination": row})


def _route(kind: str) -> str:
    of: type[DestinationForm] = BrokerDestinationForm
    if kind not in BROKERS:
        of = HttpForm if kind == DestinationKind.HTTP else HandlerForm
    return ROUTES[of]


ROUTES: dict[type[DestinationForm], str] = {
    HttpForm: "destinations-http",
    HandlerForm: "destinations-handler",
    BrokerDestinationForm: "destinations-broker",
}


urlpatterns = [
    path("destinations/", show_all, name="destinations"),
    path("destinations/one/", show, name="destinations-one"),
    path("destinations/enable/", switch, {"enabled": True}, name="destinations-enable"),
    path("destinations/disable/", switch, {"enabled": False}, name="destinations-disable"),
    path("destinations/delete/", delete, name="destinations-delete"),
    path("destinations/http/", edit, {"of": HttpForm}, name="destinations-http"),
    path("destinations/handler/", edit, {"of": HandlerForm}, name="destinations-handler"),
    path("destinations/broker/", edit, {"of": BrokerDestinationForm}, name="destinations-broker"),
]
