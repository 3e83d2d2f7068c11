"""Destinations: where addresses deliver, and the forms for administrators."""

from typing import Any

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.brokers.domain.broker_kinds import BROKERS, DESTINATION_DEFAULTS
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.addresses import ANY_WORDS
from poisonadmin.destinations.commands import InUse, delete_destination, save_destination, set_destination_enabled
from poisonadmin.destinations.domain import handler_config as handler
from poisonadmin.destinations.domain import http_config as http
from poisonadmin.destinations.domain.http_config import InvalidDestination
from poisonadmin.destinations.pages.forms import BrokerDestinationForm, HandlerForm, HttpForm
from poisonadmin.destinations.queries import addresses_of, get_destination, list_destinations
from poisonadmin.store.models.destination import DestinationKind
from poisonadmin.web.pages.forms import saved_or_shown
from poisonadmin.web.pages.views import MAX_REASON_CHARS, NO_REASON, href, page, pager, reason_of, require_known

DestinationForm = HttpForm | HandlerForm | BrokerDestinationForm
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
