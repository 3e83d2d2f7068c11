"""Broker checks from a page: of a form before it is saved, of a source after. A worker makes them."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from poisonadmin.brokers.domain.brokers import InvalidSource
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.sources.commands import broker_checks
from poisonadmin.sources.domain.broker_checks import BrokerCheckPurpose
from poisonadmin.sources.pages.forms import BrokerCheckForm
from poisonadmin.sources.queries.broker_checks import BrokerCheckRow, get_broker_check
from poisonadmin.sources.queries.sources import get_source
from poisonadmin.web.pages.views import page, require_known


@require_POST
@page(Permission.CONFIGURE, is_for_all=True)
def of_form(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Have a worker check the broker as the form describes it."""
    source = request.POST.get("source", "")
    source_id = int(source) if source.isascii() and source.isdigit() and 0 < len(source) < 19 else None
    try:
        row = None if source_id is None else get_source(source_id, principal=principal)
        form = BrokerCheckForm(request.POST, row)
        for name, errors in form.errors.items():
            raise InvalidSource(name, str(errors[0]))
        check_id = broker_checks.request_broker_check(
            form.cleaned_data["kind"],
            form.config(),
            _purpose(request.POST.get("check", "")),
            principal=principal,
            secrets=form.secret_values(),
            source_id=source_id,
        )
    except PoisonAdminError as error:
        return _refused(request, error)
    return _requested(request, principal, check_id)


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
    return _shown(request, check, "sources/_broker_check.html" if is_fragment else "sources/broker_check.html")


def _requested(request: HttpRequest, principal: Principal, check_id: int) -> HttpResponseBase:
    if not getattr(request, "htmx", False):
        return HttpResponseRedirect(reverse("sources-answer", args=[check_id]))
    return _shown(request, get_broker_check(check_id, principal=principal), "sources/_broker_check.html")


def _shown(request: HttpRequest, check: BrokerCheckRow, template: str) -> HttpResponse:
    return render(request, template, {"check": check, "broker": BROKERS[check.kind]})


def _refused(request: HttpRequest, error: PoisonAdminError) -> HttpResponseBase:
    status = 422 if error.status == 400 else error.status
    template = "sources/_broker_check_refused.html" if getattr(request, "htmx", False) else "sources/broker_check.html"
    return render(request, template, {"error": error.detail}, status=status)


def _purpose(text: str) -> BrokerCheckPurpose:
    try:
        return BrokerCheckPurpose(text)
    except ValueError:
        raise InvalidSource("check", f"must be one of {', '.join(BrokerCheckPurpose)}") from None


urlpatterns = [
    path("sources/broker/check/", of_form, name="sources-try"),
    path("sources/checks/<int:check_id>/", answer, name="sources-answer"),
    path("sources/<int:source_id>/check/", of_source, name="sources-check"),
]
