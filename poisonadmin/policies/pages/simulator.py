"""What a policy would do, as its form is typed: the ladder of waits with its plot, and every value in force."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_POST

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.queries.paging import MAX_ID
from poisonadmin.policies.domain.presets import PRESETS
from poisonadmin.policies.domain.settings import InvalidSetting
from poisonadmin.policies.pages.form import PolicyForm, empty_form, read_form
from poisonadmin.policies.queries.policies import MAX_PREVIEW, Preview, preview
from poisonadmin.policies.queries.values import values_in_force
from poisonadmin.web.pages.links import require_known
from poisonadmin.web.pages.permissions import page

PREVIEWED = 12
MOST_SHOWN = 100


@dataclass(frozen=True)
class SimulatedStep:
    """One failure: the wait after it, its terms, and the time since the first failure, in milliseconds."""

    failure: int
    wait_ms: int
    formula: str
    since_first_ms: int


@page()
def simulator(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the form in which a policy is typed without saving it."""
    require_known(request)
    form = empty_form()
    return _page(request, form, context_of(form, principal))


@require_POST
@page()
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render what the form as typed comes to: the fragment that htmx asks for, else the simulator's page.

    Nothing is saved.
    """
    form = read_form(request.POST)
    context: dict[str, Any]
    try:
        failures = _number(request, "failures", PREVIEWED, MAX_PREVIEW) or PREVIEWED
        message_id = _number(request, "message_id", None, MAX_ID)
        context = context_of(form, principal, failures, message_id)
    except PoisonAdminError as error:
        context = {"ladder_problem": error}
    if request.htmx:  # type: ignore[attr-defined]
        return render(request, "policies/_retry_schedule.html", context)
    return _page(request, form, context)


def _page(request: HttpRequest, form: PolicyForm, context: dict[str, Any]) -> HttpResponseBase:
    typed = {name: request.POST.get(name, "") for name in ("failures", "message_id")}
    around = {"form": form, "setting_sections": form.sections(), "presets": list(PRESETS), "typed": typed}
    return render(request, "policies/simulator.html", around | context)


def context_of(
    form: PolicyForm, principal: Principal, failures: int = PREVIEWED, message_id: int | None = None
) -> dict[str, Any]:
    """Return what `policies/_retry_schedule.html` shows: the ladder, or the mistake that keeps it from being one."""
    try:
        found = preview(
            form.preset,
            form.settings(),
            failures,
            principal=principal,
            message_id=message_id,
            match=form.match or None,
        )
    except PoisonAdminError as error:
        return {"ladder_problem": error}
    rungs = _rungs(found)
    return {
        "ladder": found,
        "rungs": rungs[:MOST_SHOWN],
        "points": [rung.wait_ms for rung in rungs],
        "is_jittered": message_id is not None,
        "ladder_values": values_in_force(found.in_force),
        "ladder_match": form.match,
        "stops_first": found.stops_at is not None and (found.attempts is None or found.stops_at <= found.attempts),
    }


def _rungs(found: Preview) -> list[SimulatedStep]:
    """Return the failures that are followed by a wait: not the last one, and none after the address has stopped."""
    rungs: list[SimulatedStep] = []
    passed = 0
    ends = [end - 1 for end in (found.attempts, found.stops_at) if end is not None]
    last = min([len(found.delays_ms), *ends])
    for failure in range(last):
        wait = found.delays_ms[failure]
        passed += wait
        rungs.append(SimulatedStep(failure + 1, wait, found.formulas[failure], passed))
    return rungs


def _number(request: HttpRequest, name: str, default: int | None, most: int) -> int | None:
    text = request.POST.get(name, "").strip()
    if not text:
        return default
    if text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= most:
        return int(text)
    raise InvalidSetting(name, f"{text[:40]!r} is not a whole number up to {most}.")
