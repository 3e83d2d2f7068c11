"""Policies: as written, what is in force on an address, and the form for administrators."""

from typing import Any

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.addresses import InvalidAddress
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.destinations.queries import list_destinations
from poisonadmin.policies.commands import delete_policy, save_policy
from poisonadmin.policies.pages.form import PolicyForm
from poisonadmin.policies.pages.simulator import context_of
from poisonadmin.policies.queries.policies import get_policy, list_policies, policy_history, resolve_address
from poisonadmin.policies.queries.values import values_in_force
from poisonadmin.web.pages.forms import saved_or_shown
from poisonadmin.web.pages.views import href, page, require_known, tidied


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
    """Show the form of a policy, and save it when it is sent."""
    policy = None if policy_id is None else get_policy(policy_id, principal=principal)
    names = [row.name for row in list_destinations(principal=principal, limit=500).results]
    suggested = {"match": request.GET.get("match", "")}
    address = request.GET.get("address")
    back = href(reverse("addresses-one"), [("name", address)]) if address else reverse("policies")
    form = PolicyForm(request.POST if request.method == "POST" else None, policy, names, initial=suggested)

    def save() -> str:
        typed = form.spec()
        if policy is not None and typed.pattern != policy.match:
            # Saved under another pattern the old one would stay: a person who renames means to move it.
            raise InvalidAddress("The pattern of a policy is its name; make a new one instead.")
        save_policy(
            typed.pattern,
            preset=typed.preset,
            settings=typed.settings,
            destination=typed.destination,
            principal=principal,
            expected_version=form.expected_version(),
        )
        notes.success(request, f"The policy {typed.pattern} is saved, and in force from now on.")
        return back

    def context() -> dict[str, Any]:
        versions = [] if policy_id is None else policy_history(policy_id, principal=principal)
        shown = {"policy": policy, "versions": versions, "back": back}
        return shown | context_of(form, principal, is_new=policy is None)

    if "preview" in request.POST and form.is_valid():
        return render(request, "policies/policy.html", context() | {"form": form})
    return saved_or_shown(request, form, save, "policies/policy.html", context)


@require_POST
@page(Permission.CONFIGURE)
def delete(request: HttpRequest, principal: Principal, policy_id: int) -> HttpResponseBase:
    """Remove the policy."""
    policy = get_policy(policy_id, principal=principal)
    delete_policy(policy_id, principal=principal)
    notes.success(request, f"The policy {policy.match} is gone; less specific ones are in force where it matched.")
    return HttpResponseRedirect(reverse("policies"))
