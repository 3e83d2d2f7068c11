"""Selections and operations: what would happen, beginning it, and following it."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

from django.contrib import messages as notes
from django.forms import BoundField
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRefresh

from poisonadmin.core.domain import strict_json
from poisonadmin.core.domain.access import NotAllowed, OutOfScope, Permission, Principal
from poisonadmin.messages.queries import refusals
from poisonadmin.messages.queries.filters import narrowing, parse_filter
from poisonadmin.messages.queries.lists import count_messages
from poisonadmin.operations.commands import beginning, operations
from poisonadmin.operations.commands.carry_out import principal_of
from poisonadmin.operations.commands.selections import freeze
from poisonadmin.operations.domain.actions import ACTIONS, DELIVERING, Action, OperationAction
from poisonadmin.operations.domain.ledger import MemberOutcome
from poisonadmin.operations.domain.lifecycle import OperationChange, OperationState, changes_of
from poisonadmin.operations.domain.params import InvalidOperation
from poisonadmin.operations.queries.operations import (
    OperationDetail,
    get_operation,
    list_operation_members,
    list_operations,
)
from poisonadmin.operations.queries.preview import TAKEN, LeftAlone, OperationPreview, preview
from poisonadmin.operations.queries.selections import SelectionRow, arrived_since, get_selection, list_members
from poisonadmin.sign_offs.commands.sign_off import AnotherPersonNeeded, require_may_sign
from poisonadmin.sign_offs.domain.sign_off import SignOffNeeded
from poisonadmin.web.pages.diff import drawn_diff
from poisonadmin.web.pages.forms import PageForm, TextField, decimal_number, sentence_of, ticks, whole_number
from poisonadmin.web.pages.params import (
    FIELDS_OF,
    PARAM_FIELDS,
    PARAM_WORDS,
    address_field,
    field_of,
    headers_remove_field,
    headers_set_field,
    json_patch_field,
    params_of,
)
from poisonadmin.web.pages.views import NO_REASON, back_to, href, page, pager, reason_of

COUNTED = 10_000
OUTCOMES: dict[MemberOutcome, str] = {
    MemberOutcome.DELIVERED: "delivered",
    MemberOutcome.CONFIRMED: "delivered, and confirmed by the consumer",
    MemberOutcome.CHANGED: "changed",
    MemberOutcome.FAILED_SAME: "failed again with the same failure",
    MemberOutcome.FAILED_NEW: "failed with another failure",
    MemberOutcome.BLACKLISTED: "crashed the consumer and are blacklisted",
    MemberOutcome.SKIPPED: "left alone",
    MemberOutcome.CANCELLED: "cancelled before delivery",
    MemberOutcome.WAITING: "failed, and wait for the next attempt",
    MemberOutcome.UNANSWERED: "not answered yet",
}
DONE: dict[str, str] = {
    OperationState.WAITING_FOR_SIGN_OFF: "Waiting for a sign-off",
    OperationState.RUNNING: "Running",
    OperationState.PAUSED: "Paused",
    OperationState.HALTED: "Halted",
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


@dataclass(frozen=True)
class Line:
    """A line of the ledger."""

    outcome: MemberOutcome
    words: str
    count: int


class OperationForm(PageForm):
    """How an action is to be carried out on a selection."""

    address = address_field()
    json_patch = json_patch_field()
    headers_set = headers_set_field()
    headers_remove = headers_remove_field()
    rate_per_second = decimal_number(
        "Most deliveries a second", note="On all workers together. Empty: as fast as the destinations take them."
    )
    canary = ticks("Try 1, then 10, then 100 messages first, and halt when they fail again")
    delay_seconds = whole_number("Postpone by", choices=[])
    break_glass = ticks(
        "Begin without a sign-off",
        "For emergencies. It is marked on the operation for ever, and shown to everybody who signs off.",
    )
    reason = TextField(
        "Reason",
        most=beginning.MAX_REASON_CHARS,
        needed=True,
        rows=3,
        hint="Why? It is kept in the history and the audit log.",
    )

    def __init__(self, data: Any, action: Action, *, may_break_glass: bool) -> None:
        super().__init__(data)
        if not may_break_glass:
            del self.fields["break_glass"]
        self.asked = [field for name in action.params for field in FIELDS_OF[name]]
        for name in set(PARAM_FIELDS) - set(self.asked):
            del self.fields[name]
        if action.key not in DELIVERING:
            del self.fields["rate_per_second"], self.fields["canary"]
        if action.delays:
            self.fields["delay_seconds"].widget.choices = action.delays
        else:
            del self.fields["delay_seconds"]

    def wanted(self) -> dict[str, Any]:
        """Return the arguments of the command."""
        typed = self.cleaned_data
        delay = typed.get("delay_seconds")
        return {
            "reason": typed["reason"],
            "rate_per_second": typed.get("rate_per_second"),
            "has_canary": typed.get("canary", False),
            "break_glass": typed.get("break_glass", False),
            "until": None if delay is None else timezone.now() + timedelta(seconds=delay),
            "params": self.params(),
        }

    def params(self) -> dict[str, Any]:
        """Return what the action is told besides which messages."""
        return params_of(self.cleaned_data, self.asked)


@page()
def matching(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the button that selects everything that a list's filter finds, with how many that are."""
    count = count_messages(parse_filter(narrowing(dict(request.GET.lists()))), principal=principal, cap=COUNTED)
    return render(request, "operations/_matching.html", {"count": count, "query": request.GET.urlencode()})


@require_POST
@page(Permission.DECIDE)
def select(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Freeze what the filter of a list finds now, and show what could be done with it.

    Of sets that were ticked, `parameter` names what they share, and each `value` is one of them.
    """
    given = parse_qs(request.POST.get("query", "").lstrip("?"), max_num_fields=200)
    if ticked := request.POST.getlist("value"):
        given[request.POST.get("parameter", "")] = ticked
    selection_id = freeze(narrowing(given), principal=principal)
    return HttpResponseRedirect(reverse("operations-selection", args=[selection_id]))


@page()
def selection(request: HttpRequest, principal: Principal, selection_id: int) -> HttpResponseBase:
    """Show what an action would do with a selection, and begin it when the form is sent."""
    found = get_selection(selection_id, principal=principal)
    action = _action(request.GET.get("action") or _likely(found))
    may_break_glass = principal.may(Permission.BREAK_GLASS)
    form = OperationForm(request.POST if request.method == "POST" else None, action, may_break_glass=may_break_glass)
    foreseen = _preview(found, action, form, principal)
    if request.method == "POST":
        principal.require(Permission.DECIDE)
        if form.asked and (foreseen is None or "begin" not in request.POST):
            form.errors.pop("reason", None)  # it is asked for once it is known what would happen
        elif form.is_valid():
            try:
                operation_id = beginning.begin(selection_id, action.key, principal=principal, **form.wanted())
            except InvalidOperation as error:
                name = field_of(error)
                form.add_error(name if name in form.fields else None, sentence_of(error))
            else:
                return HttpResponseRedirect(reverse("operations-one", args=[operation_id]))
    context = {
        "selection": found,
        "since": arrived_since(found, principal=principal),
        "messages_link": href(reverse("triage"), _filter_of(found)),
        "actions": list(ACTIONS.values()),
        "action": action,
        "form": form,
        "params": [form[name] for name in form.asked],
        "fields": _fields(form, foreseen),
        **(_foreseen(foreseen, principal) if foreseen else {}),
    }
    return render(request, "operations/selection.html", context, status=422 if form.errors else 200)


def _fields(form: OperationForm, foreseen: OperationPreview | None) -> list[BoundField]:
    """Return the fields that are asked for once it is known what would happen."""
    has_limit = foreseen is not None and foreseen.needs_sign_off
    hidden = {*form.asked, *(() if has_limit else ("break_glass",))}
    return [field for field in form.visible_fields() if field.name not in hidden]


def _preview(found: SelectionRow, action: Action, form: OperationForm, principal: Principal) -> OperationPreview | None:
    """Return what the action would do; None where it is not known yet with what parameters."""
    if form.asked and (not form.is_bound or any(name in form.errors for name in form.asked)):
        return None
    try:
        params = form.params() if form.asked else None
        return preview(found, action.key, principal=principal, params=params)
    except (InvalidOperation, OutOfScope) as error:
        name = field_of(error)
        form.add_error(name if name in form.fields else None, sentence_of(error))
        return None


@page(filters=())
def selected(request: HttpRequest, principal: Principal, selection_id: int) -> HttpResponseBase:
    """List the members of a selection as they are now."""
    found = get_selection(selection_id, principal=principal)
    members = list_members(found, principal=principal, cursor=request.GET.get("cursor"))
    title = f"Selection #{found.id}"
    back = reverse("operations-selection", args=[selection_id])
    context = {"title": title, "back": back, "rows": members.results, "pager": pager(request, members)}
    return render(request, "operations/members.html", context)


@page(filters=())
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """List the operations on more than one message, newest first."""
    found = list_operations(principal=principal, cursor=request.GET.get("cursor"), on_sets=True)
    rows = [(row, ACTIONS[row.action], DONE[row.state]) for row in found.results]
    return render(request, "operations/operations.html", {"rows": rows, "pager": pager(request, found)})


@page(filters=("state",))
def show(request: HttpRequest, principal: Principal, operation_id: int) -> HttpResponseBase:
    """Show an operation with its ledger; the live part alone to htmx, while the `state` of its page is right."""
    found = get_operation(operation_id, principal=principal)
    context = {
        "operation": found,
        "action": ACTIONS[found.action],
        "state": DONE[found.state],
        "lines": [Line(one, OUTCOMES[one], n) for one in OUTCOMES if (n := getattr(found.ledger, one))],
        "changes": [(what, *CHANGES[what]) for what in changes_of(OperationState(found.state))]
        if found.ended_at is None
        else [],
        "running": found.ended_at is None,
        "pace": _pace(found),
        "params": [(PARAM_WORDS[name], _words(given)) for name, given in found.params.items() if name in PARAM_WORDS],
        "sign_off": SignOffNeeded(**found.sign_off) if found.sign_off else None,
    }
    is_live = request.htmx  # type: ignore[attr-defined]
    if is_live and (found.ended_at is not None or found.state != request.GET.get("state")):
        return HttpResponseClientRefresh()
    if is_live:
        return render(request, "operations/operation_live.html", context)
    if found.state == OperationState.WAITING_FOR_SIGN_OFF and principal.may(Permission.SIGN_OFF):
        context |= _review(found, principal)
    return render(request, "operations/operation.html", context)


def _review(found: OperationDetail, principal: Principal) -> dict[str, Any]:
    """Return what a reviewer has to see, or why this one may not sign off."""
    try:
        require_may_sign(found, principal)
    except (AnotherPersonNeeded, NotAllowed) as error:
        return {"no_sign_off": error.detail}
    selection = get_selection(found.selection_id, principal=principal)
    action = ACTIONS[found.action]
    params = {name: given for name, given in found.params.items() if name in action.params}
    return _foreseen(preview(selection, action.key, principal=principal_of(found), params=params), principal)


@page(filters=())
def members(request: HttpRequest, principal: Principal, operation_id: int, outcome: str) -> HttpResponseBase:
    """List the messages behind a line of the ledger as they are now."""
    if outcome not in set(MemberOutcome):
        raise Http404(outcome)
    found = get_operation(operation_id, principal=principal)
    rows = list_operation_members(found, MemberOutcome(outcome), principal=principal, cursor=request.GET.get("cursor"))
    title = f"Operation #{found.id}: {OUTCOMES[MemberOutcome(outcome)]}"
    back = reverse("operations-one", args=[operation_id])
    context = {"title": title, "back": back, "rows": rows.results, "pager": pager(request, rows)}
    return render(request, "operations/members.html", context)


@require_POST
@page(Permission.DECIDE)
def change(request: HttpRequest, principal: Principal, operation_id: int, what: str) -> HttpResponseBase:
    """Pause, resume or cancel an operation."""
    if what not in set(OperationChange):
        raise Http404(what)
    target = back_to(request, reverse("operations-one", args=[operation_id]))
    reason = reason_of(request)
    if not reason:
        notes.error(request, NO_REASON)
        return HttpResponseRedirect(target)
    try:
        operations.change(operation_id, OperationChange(what), reason=reason, principal=principal)
    except operations.OperationNotChanged as error:
        notes.error(request, error.detail)
    return HttpResponseRedirect(target)


def _action(key: str) -> Action:
    if key not in ACTIONS:
        raise Http404(key)
    return ACTIONS[key]


def _likely(found: SelectionRow) -> str:
    """Return the action that is offered first: one that the messages' state allows, where the filter names one."""
    asked = (found.filter or {}).get("state", [])
    by_state = {"FAIL": OperationAction.RESTORE, "TBDL": OperationAction.DELIVER_NOW}
    return by_state.get(asked[0].upper() if len(asked) == 1 else "", OperationAction.APPROVE)


def _filter_of(found: SelectionRow) -> list[tuple[str, str]]:
    return [(name, text) for name, texts in (found.filter or {}).items() for text in texts]


def _foreseen(foreseen: OperationPreview, principal: Principal) -> dict[str, Any]:
    return {
        "preview": foreseen,
        "left_alone": [(one, *_mend(one, principal)) for one in foreseen.refused],
        "samples": [(one, drawn_diff(one.diff)) for one in foreseen.change.samples] if foreseen.change else [],
        "warnings": [one.warning.sentence(one.count, total=foreseen.accepted) for one in foreseen.crashed],
    }


def _mend(refused: LeftAlone, principal: Principal) -> tuple[str, str | None]:
    """Return what would mend a refusal, and the page where the principal may do that."""
    may_configure = principal.may(Permission.CONFIGURE)
    if refused.code == refusals.NO_DESTINATION:
        new = href(reverse("policies-new"), [("match", refused.detail or "")])
        return f"Give {refused.detail} a destination", new if may_configure else None
    if refused.code == refusals.OVERSIZED:
        return f"Raise max_payload_bytes of {refused.detail}", reverse("policies") if may_configure else None
    if refused.code == refusals.LISTED:
        return f"Release it on {refused.detail} first", reverse("poison_list")
    if refused.code == TAKEN:
        return f"Operation #{refused.detail}", reverse("operations-one", args=[int(refused.detail or 0)])
    return "", None


def _words(given: Any) -> str:
    return given if isinstance(given, str) else strict_json.dumps(given).decode()


def _pace(found: OperationDetail) -> dict[str, Any]:
    """Return how many members a second were accounted for, and the seconds that the rest will take at that pace."""
    until = found.ended_at or timezone.now()
    seconds = max((until - found.began_at).total_seconds(), 0.001)
    pace = found.done / seconds
    left = found.count - found.done
    return {"rate": pace, "left_seconds": left / pace if pace and left and found.ended_at is None else None}


urlpatterns = [
    path("operations/", show_all, name="operations"),
    path("operations/matching/", matching, name="operations-matching"),
    path("operations/select/", select, name="operations-select"),
    path("operations/selections/<int:selection_id>/", selection, name="operations-selection"),
    path("operations/selections/<int:selection_id>/messages/", selected, name="operations-selected"),
    path("operations/<int:operation_id>/", show, name="operations-one"),
    path("operations/<int:operation_id>/members/<slug:outcome>/", members, name="operations-members"),
    path("operations/<int:operation_id>/<slug:what>/", change, name="operations-change"),
]
