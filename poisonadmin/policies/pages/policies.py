"""Policies: as written, what they come to on an address, and the form for administrators."""

from typing import Any

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.destinations.queries import list_destinations
from poisonadmin.policies.commands import save
from poisonadmin.policies.domain.presets import PRESETS
from poisonadmin.policies.pages.form import PolicyForm, empty_form, form_of, read_form
from poisonadmin.policies.pages.simulator import context_of
from poisonadmin.policies.queries.history import policy_history
from poisonadmin.policies.queries.policies import get_policy, list_policies, resolve_address
from poisonadmin.policies.queries.values import values_in_force
from poisonadmin.web.pages.links import require_known, tidied
from poisonadmin.web.pages.permissions import page


@page()
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the policies by pattern, and what is in force on the address that is asked for."""
    if tidy := tidied(request):
        return tidy
    require_known(request, "address")
    address = request.GET.get("address", "")
    context: dict[str, Any] = {"rows": list_policies(principal=principal), "address": address}
    if address:
        try:
            resolved = resolve_address(address, principal=principal)
            context |= {"resolved": resolved, "values": values_in_force(resolved)}
        except PoisonAdminError as error:
            context["problem"] = error
    return render(request, "policies/policies.html", context)


@page(Permission.CONFIGURE)
def edit(request: HttpRequest, principal: Principal, policy_id: int | None = None) -> HttpResponseBase:
    """Render the form of a policy, and save it when it is sent."""
    if request.method == "POST":
        return _save(request, principal, policy_id)
    form = empty_form() if policy_id is None else form_of(get_policy(policy_id, principal=principal))
    return _render(request, principal, form, policy_id)


@require_POST
@page(Permission.CONFIGURE)
def delete(request: HttpRequest, principal: Principal, policy_id: int) -> HttpResponseBase:
    """Remove the policy."""
    policy = get_policy(policy_id, principal=principal)
    save.delete_policy(policy_id, principal=principal)
    notes.success(request, f"The policy {policy.match} is gone; less specific ones are in force where it matched.")
    return HttpResponseRedirect(reverse("policies"))


def _save(request: HttpRequest, principal: Principal, policy_id: int | None) -> HttpResponseBase:
    form = read_form(request.POST)
    if policy_id is not None and form.match != get_policy(policy_id, principal=principal).match:
        # Saved under another pattern the old one would stay: a person who renames means to move it.
        return _render(
            request, principal, form, policy_id, "The pattern of a policy is its name; make a new one instead.", 422
        )
    try:
        values = form.settings()
        if "preview" in request.POST:
            return _render(request, principal, form, policy_id)
        save.save_policy(
            form.match,
            preset=form.preset,
            settings=values,
            destination=form.destination,
            principal=principal,
            expected_version=form.version,
        )
    except PoisonAdminError as error:
        return _render(request, principal, form, policy_id, error.detail, error.status if error.status != 400 else 422)
    notes.success(request, f"The policy {form.match} is saved, and in force from the next failure on.")
    return HttpResponseRedirect(reverse("policies"))


def _render(
    request: HttpRequest,
    principal: Principal,
    form: PolicyForm,
    policy_id: int | None,
    error: str = "",
    status: int = 200,
) -> HttpResponse:
    context: dict[str, Any] = {
        "form": form,
        "policy_id": policy_id,
        "setting_sections": form.sections(),
        "presets": list(PRESETS),
        "destinations": [row.name for row in list_destinations(principal=principal, limit=500).results],
        "error": error,
        "versions": [] if policy_id is None else policy_history(policy_id, principal=principal),
    }
    context |= context_of(form, principal)
    return render(request, "policies/policy.html", context, status=status)
