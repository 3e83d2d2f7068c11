"""What a policy would do, as its form is typed: the schedule of its retries with its plot, and every value in force."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_POST

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.policies.pages.form import PREVIEWED, PolicyForm, SimulatorForm
from poisonadmin.policies.queries.policies import Preview, find_policy, preview
from poisonadmin.policies.queries.values import values_in_force
from poisonadmin.web.pages.forms import sentence_of
from poisonadmin.web.pages.views import page, require_known

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


@page()
def simulator(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the form in which a policy is typed without saving it."""
    require_known(request)
    form = SimulatorForm()
    return render(request, "policies/simulator.html", context_of(form, principal) | {"form": form})


@require_POST
@page()
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
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
