"""Operations: the list, each with its ledger, and pausing, resuming and cancelling them."""

from datetime import datetime
from typing import Any

from django.contrib import messages as notes
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRefresh

from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.masking import Masked
from poisonadmin.core.queries.masking import in_the_clear
from poisonadmin.decisions.operations.commands import operations
from poisonadmin.decisions.operations.commands.carry_out import principal_of
from poisonadmin.decisions.operations.commands.operations import record_export
from poisonadmin.decisions.operations.commands.undoing import can_undo, restored_by, undo
from poisonadmin.decisions.operations.domain.actions import ACTIONS
from poisonadmin.decisions.operations.domain.awaited_version import BeginWhen
from poisonadmin.decisions.operations.domain.lifecycle import (
    CanaryStep,
    OperationChange,
    OperationState,
    canary_steps,
    changes_of,
)
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.decisions.operations.domain.replay import WAIVABLE
from poisonadmin.decisions.operations.pages.selections import shown_preview
from poisonadmin.decisions.operations.queries.ledger_report import COLUMNS, ledger_rows
from poisonadmin.decisions.operations.queries.operations import (
    OperationDetail,
    get_operation,
    list_operation_members,
    list_operations,
)
from poisonadmin.decisions.operations.queries.preview import preview
from poisonadmin.decisions.sign_offs.commands import AnotherPersonNeeded, require_may_sign
from poisonadmin.decisions.sign_offs.domain import SignOffNeeded
from poisonadmin.messages.domain.outcomes import MemberOutcome
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.web.api.attachments import csv_attachment
from poisonadmin.web.pages.params import param_lines
from poisonadmin.web.pages.views import NO_REASON, Section, SidebarEntry, back_to, page, pager, reason_of
from poisonadmin.web.pages.words import MEMBER_OUTCOMES, SIGN_OFF_NEEDED

STATES: dict[str, str] = {
    OperationState.WAITING_FOR_SIGN_OFF: "Waiting for a sign-off",
    OperationState.WAITING_FOR_VERSION: "Waiting for a version",
    OperationState.RUNNING: "Running",
    OperationState.PAUSED: "Paused",
    OperationState.HALTED: "Halted",
    OperationState.CANCELLING: "Cancelling",
    OperationState.CANCELLED: "Cancelled",
    OperationState.COMPLETED: "Completed",
}
CHANGES: dict[OperationChange, tuple[str, str]] = {
    OperationChange.PAUSE: ("Pause", "Nothing more begins until it is resumed. What is under way ends."),
    OperationChange.RESUME: ("Resume", "It goes on with what is left."),
    OperationChange.CANCEL: (
        "Cancel",
        "What is under way ends. What was not begun waits for a decision again, with its former reason.",
    ),
}


@page(
    filters=(),
    sidebar=SidebarEntry(Section.OPERATIONS, 10, "Operations", "check", "t"),
    topic="use/operations#carrying-it-out",
)
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """List the operations on more than one message, newest first."""
    found = list_operations(principal=principal, cursor=request.GET.get("cursor"), on_sets=True)
    rows = [(row, ACTIONS[row.action], STATES[row.state]) for row in found.results]
    return render(request, "operations/operations.html", {"rows": rows, "pager": pager(request, found)})


@page(filters=("state",))
def show(request: HttpRequest, principal: Principal, operation_id: int) -> HttpResponseBase:
    """Show an operation with its ledger; the live part alone to htmx, while the `state` of its page is right."""
    found = get_operation(operation_id, principal=principal)
    context = {
        "operation": found,
        "action": ACTIONS[found.action],
        "state": STATES[found.state],
        "lines": [
            *((one, words, n) for one, words in MEMBER_OUTCOMES.items() if (n := getattr(found.ledger, one))),
            (None, "All", found.count),
        ],
        "changes": [(what, *CHANGES[what]) for what in changes_of(OperationState(found.state))]
        if found.ended_at is None
        else [],
        "running": found.ended_at is None,
        "pace": _pace(found),
        "steps": _steps(found) if found.canary else [],
        "can_undo": can_undo(found),
        "restored_by": restored_by(found),
        "has_failures": found.ledger.failed_same or found.ledger.failed_new or found.ledger.blacklisted,
        "params": param_lines(found.params),
        "sign_off": SignOffNeeded(**found.sign_off) if found.sign_off else None,
        "awaited": BeginWhen(**found.begin_when) if found.begin_when else None,
        "seen_at": datetime.fromisoformat(found.version_seen["at"]) if found.version_seen else None,
    }
    is_live = request.htmx  # type: ignore[attr-defined]
    if is_live and (found.ended_at is not None or found.state != request.GET.get("state")):
        return HttpResponseClientRefresh()
    if is_live:
        return render(request, "operations/operation_live.html", context)
    if found.state == OperationState.WAITING_FOR_SIGN_OFF and principal.may(Permission.SIGN_OFF):
        context |= _review(request, found, principal)
    return render(request, "operations/operation.html", context)


def _review(request: HttpRequest, found: OperationDetail, principal: Principal) -> dict[str, Any]:
    """Return what a reviewer has to see, or why this one may not sign off."""
    try:
        require_may_sign(found, principal)
    except (AnotherPersonNeeded, Masked, NotAllowed) as error:
        return {"no_sign_off": error.detail}
    # Whoever may sign reads it whole, whatever is masked elsewhere.
    asker = in_the_clear(principal_of(found))
    found = get_operation(found.id, principal=asker)
    selection = get_selection(found.selection_id, principal=principal)
    action = ACTIONS[found.action]
    params = {name: given for name, given in found.params.items() if name in action.params}
    pace = Pace(found.rate_per_second, found.canary)
    waive = found.params.get("waive", WAIVABLE)
    foreseen = preview(selection, action.key, principal=asker, params=params, pace=pace, waive=waive)
    return shown_preview(request, foreseen, principal) | {"params": param_lines(found.params)}


@page(filters=(), topic="use/operations#ledger")
def members(request: HttpRequest, principal: Principal, operation_id: int, outcome: str) -> HttpResponseBase:
    """List the messages behind a line of the ledger as they are now."""
    if outcome not in set(MemberOutcome):
        raise Http404(outcome)
    found = get_operation(operation_id, principal=principal)
    rows = list_operation_members(found, MemberOutcome(outcome), principal=principal, cursor=request.GET.get("cursor"))
    title = f"Operation #{found.id}: {MEMBER_OUTCOMES[MemberOutcome(outcome)]}"
    back = reverse("operations-one", args=[operation_id])
    context = {"title": title, "back": back, "rows": rows.results, "pager": pager(request, rows)}
    return render(request, "operations/members.html", context)


@page(Permission.EXPORT, filters=("mark",))
def as_csv(request: HttpRequest, principal: Principal, operation_id: int) -> HttpResponseBase:
    """Stream the ledger as CSV, and write into the audit who took it out."""
    found = get_operation(operation_id, principal=principal)
    record_export(found, None, principal=principal)
    rows = ledger_rows(found, principal=principal)
    mark = request.GET.get("mark") == "1"
    return csv_attachment(request, COLUMNS, rows, f"operation-{operation_id}.csv", mark=mark)


@require_POST
@page(Permission.DECIDE)
def change(request: HttpRequest, principal: Principal, operation_id: int, what: str) -> HttpResponseBase:
    """Pause, resume or cancel an operation; only the last one asks why."""
    if what not in set(OperationChange):
        raise Http404(what)
    target = back_to(request, reverse("operations-one", args=[operation_id]))
    reason = reason_of(request)
    if what == OperationChange.CANCEL and not reason:
        notes.error(request, NO_REASON)
        return HttpResponseRedirect(target)
    try:
        operations.change(operation_id, OperationChange(what), reason=reason, principal=principal)
    except operations.OperationNotChanged as error:
        notes.error(request, error.detail)
    return HttpResponseRedirect(target)


@require_POST
@page(Permission.DECIDE)
def take_back(request: HttpRequest, principal: Principal, operation_id: int) -> HttpResponseBase:
    """Undo what a decision has done, as far as that can be."""
    target = back_to(request, reverse("operations-one", args=[operation_id]))
    try:
        restored = undo(operation_id, principal=principal)
    except operations.OperationNotChanged as error:
        notes.error(request, error.detail)
        return HttpResponseRedirect(target)
    if restored is None:
        notes.success(request, "It is taken back: what has not begun waits for a decision again.")
    elif restored.awaits is not None:
        notes.warning(request, SIGN_OFF_NEEDED)
        target = reverse("operations-one", args=[restored.awaits])
    else:
        count = len(restored.changed)
        notes.success(request, f"{count} message{' waits' if count == 1 else 's wait'} for a decision again.")
    return HttpResponseRedirect(target)


def _steps(found: OperationDetail) -> list[CanaryStep]:
    """Return the stages of its canary."""
    answered = found.done - found.ledger.cancelled
    was_halted = found.halted_why is not None and found.state in (OperationState.CANCELLING, OperationState.CANCELLED)
    state = OperationState.HALTED if was_halted else found.state
    return canary_steps(state, count=found.count, walked=found.walked, answered=answered)


def _pace(found: OperationDetail) -> dict[str, Any]:
    """Return how many members a second were accounted for, and the seconds that the rest will take at that pace.

    Of one with a canary nobody knows: its small steps and what it waits for say nothing of the rest.
    """
    until = found.ended_at or timezone.now()
    seconds = max((until - found.began_at).total_seconds(), 0.001)
    pace = (found.done - found.ledger.cancelled) / seconds
    left = 0 if found.canary or found.state != OperationState.RUNNING else found.count - found.done
    return {"rate": pace, "left_seconds": left / pace if pace and left else None}


urlpatterns = [
    path("operations/", show_all, name="operations"),
    path("operations/<int:operation_id>/", show, name="operations-one"),
    path("operations/<int:operation_id>/members.csv", as_csv, name="operations-csv"),
    path("operations/<int:operation_id>/members/<slug:outcome>/", members, name="operations-members"),
    path("operations/<int:operation_id>/undo/", take_back, name="operations-undo"),
    path("operations/<int:operation_id>/<slug:what>/", change, name="operations-change"),
]
