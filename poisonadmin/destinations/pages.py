"""Destinations: where addresses deliver, and the form of a broker for administrators."""

from typing import Any

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.destinations.commands import save_destination
from poisonadmin.destinations.domain import handler_config as handler
from poisonadmin.destinations.domain import http_config as http
from poisonadmin.destinations.domain.http_config import InvalidDestination
from poisonadmin.destinations.queries import DestinationRow, destination_exists, get_destination, list_destinations
from poisonadmin.messages.queries.triage import addresses_of
from poisonadmin.sources.domain.brokers import BROKER_KINDS, DESTINATION_DEFAULTS
from poisonadmin.store.models.destination import DestinationKind
from poisonadmin.web.pages import broker_form
from poisonadmin.web.pages.broker_form import KIND_WORDS, BrokerForm
from poisonadmin.web.pages.links import href, pager, require_known
from poisonadmin.web.pages.permissions import page

_DEFAULTS: dict[str, Any] = {
    DestinationKind.HTTP: http.DEFAULTS,
    DestinationKind.HANDLER: handler.DEFAULTS,
    **DESTINATION_DEFAULTS,
}


@page()
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the list of destinations by name."""
    require_known(request)
    found = list_destinations(principal=principal, cursor=request.GET.get("cursor"))
    return render(request, "destinations/destinations.html", {"rows": found.results, "pager": pager(request, found)})


@page()
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render one destination; of its secrets only the names."""
    require_known(request, "name")
    found = get_destination(request.GET.get("name", ""), principal=principal)
    defaults = _DEFAULTS[found.kind]
    settings = {name: found.config.get(name, default) for name, default in defaults.items() if name != "headers"}
    context = {
        "destination": found,
        "is_broker": found.kind in BROKER_KINDS,
        "settings": settings,
        "headers": sorted(dict(found.config.get("headers", {})).items()),
        "addresses": addresses_of(found.id, principal=principal),
    }
    return render(request, "destinations/destination.html", context)


@page(Permission.CONFIGURE)
def edit(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the form of a broker destination, of the one that is named or a new one, and save it when it is sent."""
    require_known(request, "name")
    name = request.GET.get("name")
    row = None if name is None else get_destination(name, principal=principal)
    if row is not None and row.kind not in BROKER_KINDS:
        raise InvalidDestination("kind", "only brokers have a form; PUT /api/v1/destinations/{name}/ changes it")
    if request.method == "POST":
        return _save(request, principal, broker_form.read(broker_form.destination_form(), request.POST), row)
    form = broker_form.destination_form()
    if row is not None:
        form = broker_form.filled(form, name=row.name, kind=row.kind, version=row.version, config=row.config)
    return _render(request, form, row)


def _save(request: HttpRequest, principal: Principal, form: BrokerForm, row: DestinationRow | None) -> HttpResponseBase:
    name = form.name if row is None else row.name
    try:
        if row is None and (not name or not name.isprintable() or "/" in name or len(name) > 100):
            raise InvalidDestination("name", "must be printable, without a slash, at most 100 characters")
        if row is None and destination_exists(name):
            raise InvalidDestination("name", "there is a destination of this name already")
        save_destination(
            name,
            kind=form.kind if row is None else row.kind,
            config=form.config(),
            secrets=form.secrets(),
            max_rate_per_second=None if row is None else row.max_rate_per_second,
            principal=principal,
            expected_version=form.version,
        )
    except PoisonAdminError as error:
        status = 422 if error.status == 400 else error.status
        return _render(request, form, row, error.detail, status, broker_form.wrong_field(error))
    notes.success(request, f"The destination {name} is saved; a policy that names it delivers there.")
    return HttpResponseRedirect(href(reverse("destinations-one"), [("name", name)]))


def _render(
    request: HttpRequest,
    form: BrokerForm,
    row: DestinationRow | None,
    error: str = "",
    status: int = 200,
    wrong: str = "",
) -> HttpResponse:
    context = {"form": form, "destination": row, "kinds": KIND_WORDS.items(), "error": error, "wrong": wrong}
    return render(request, "destinations/destination_form.html", context, status=status)


urlpatterns = [
    path("destinations/", show_all, name="destinations"),
    path("destinations/one/", show, name="destinations-one"),
    path("destinations/broker/", edit, name="destinations-broker"),
]
