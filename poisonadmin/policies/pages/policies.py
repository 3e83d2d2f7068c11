"""Policies: as written, the values in force on an address, the form for administrators, and the simulator.

The simulator shows the retry schedule of a form as it is typed, with its plot and every value in force.
"""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.addresses import InvalidAddress
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.destinations.queries import list_destinations
from poisonadmin.policies.commands import delete_policy, save_policy
from poisonadmin.policies.domain.resolution import values_in_force
from poisonadmin.policies.pages.form import PREVIEWED, PolicyForm, SimulatorForm
from poisonadmin.policies.queries import (
    Preview,
    find_policy,
    get_policy,
    list_policies,
    policy_history,
    preview,
    resolve_address,
)
from poisonadmin.web.pages.forms import saved_or_shown, sentence_of
from poisonadmin.web.pages.views import Section, SidebarEntry, back_to, page, require_known, tidied


@page(sidebar=SidebarEntry(Section.FLOWS, 20, "Policies", "adjustments", "c"), topic="use/policies")
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
    back = back_to(request, reverse("policies"))
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


MOST_SHOWN = 100


@dataclass(frozen=True)
class SimulatedStep:
    """One failure: the wait after it, its terms, and the time since the first failure, in milliseconds.

    `ending`: the last row, which names how retries end: `stops`, `decides` or, without a limit, `never`.
    """

    failure: int | None
    wait_ms: int | None = None
    formula: str = ""
    since_first_ms: int | None = None
    ending: str = ""


@page(topic="use/policies#the-wait")
def simulator(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the form in which a policy is typed without saving it."""
    require_known(request)
    form = SimulatorForm()
    return render(request, "policies/simulator.html", context_of(form, principal) | {"form": form})


@require_POST
@page(topic="use/policies#the-wait")
def show_preview(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render what the form as typed does: the fragment that htmx asks for, else the simulator's page.

    Nothing is saved.
    """
    form = SimulatorForm(request.POST)
    is_fragment = request.htmx  # type: ignore[attr-defined]
    template = "policies/_retry_schedule.html" if is_fragment else "policies/simulator.html"
    context = context_of(form, principal, is_new=request.GET.get("new") == "true")
    return render(request, template, context | {"form": form})


def context_of(form: PolicyForm, principal: Principal, *, is_new: bool = False) -> dict[str, Any]:
    """Return what `policies/_retry_schedule.html` shows: the schedule, or the mistakes that keep it from being one.

    `is_new`: the form is to create a policy, which it cannot where the pattern has one.
    """
    form.is_valid()
    values, typed = form.values(), form.spec()
    taken = find_policy(typed.pattern) if is_new and typed.pattern and principal.covers(typed.pattern) else None
    if form.errors:
        return {"schedule_problems": [(field.label, field.errors[0]) for field in form.wrong()], "taken": taken}
    try:
        message_id = values.get("message_id")
        found = preview(
            typed.preset,
            typed.settings,
            values.get("failures") or PREVIEWED,
            principal=principal,
            message_id=message_id,
            match=typed.pattern or None,
        )
    except PoisonAdminError as error:
        return {"schedule_problems": [("", sentence_of(error))], "taken": taken}
    steps = _steps(found)
    return {
        "taken": taken,
        "schedule": found,
        "steps": [*steps[:MOST_SHOWN], _ending(found)],
        "waits": [step.wait_ms for step in steps],
        "is_jittered": message_id is not None,
        "simulated_values": values_in_force(found.in_force),
        "simulated_match": typed.pattern,
    }


def _steps(found: Preview) -> list[SimulatedStep]:
    """Return the failures that are followed by a wait: not the last one, and none after the address has stopped."""
    steps: list[SimulatedStep] = []
    passed = 0
    ends = [end - 1 for end in (found.attempts, found.stops_at) if end is not None]
    last = min([len(found.delays_ms), *ends])
    for failure in range(last):
        wait = found.delays_ms[failure]
        passed += wait
        steps.append(SimulatedStep(failure + 1, wait, found.formulas[failure], passed))
    return steps


def _ending(found: Preview) -> SimulatedStep:
    if found.stops_at is not None and (found.attempts is None or found.stops_at <= found.attempts):
        return SimulatedStep(found.stops_at, ending="stops")
    return SimulatedStep(found.attempts or None, ending="decides" if found.attempts else "never")


urlpatterns = [
    path("policies/", show_all, name="policies"),
    path("policies/new/", edit, name="policies-new"),
    path("policies/<int:policy_id>/", edit, name="policies-one"),
    path("policies/<int:policy_id>/delete/", delete, name="policies-delete"),
    path("policies/simulator/", simulator, name="policies-simulator"),
    path("policies/preview/", show_preview, name="policies-preview"),
]
