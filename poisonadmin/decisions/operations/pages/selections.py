"""Selections: freezing one, what an action would do with it, and beginning the operation."""

from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from django.forms import BoundField
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from poisonadmin.core.commands.audit import note_payload_reads
from poisonadmin.core.domain.access import OutOfScope, Permission, Principal
from poisonadmin.core.domain.errors import InvalidField, PoisonAdminError
from poisonadmin.decisions.operations.commands import beginning
from poisonadmin.decisions.operations.domain.actions import ACTIONS, DELIVERING, Action, OperationAction
from poisonadmin.decisions.operations.domain.awaited_version import BeginWhen, begin_when_of
from poisonadmin.decisions.operations.domain.pace import UNLIMITED, Pace
from poisonadmin.decisions.operations.domain.params import InvalidOperation
from poisonadmin.decisions.operations.domain.replay import WAIVABLE
from poisonadmin.decisions.operations.queries.preview import (
    TAKEN,
    LeftAlone,
    OperationPreview,
    Target,
    WaitsFor,
    preview,
)
from poisonadmin.decisions.queries import refusals
from poisonadmin.deployments.domain.consumers import MAX_CONSUMER_CHARS
from poisonadmin.deployments.domain.versions import MAX_VERSION_CHARS
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.domain.filters import narrowing, parse_filter
from poisonadmin.search.queries.lists import count_messages
from poisonadmin.search.queries.owners import account_names
from poisonadmin.search.queries.selections import SelectionRow, arrived_since, get_selection, list_members
from poisonadmin.web.pages.forms import TextField, decimal_number, sentence_of, ticks
from poisonadmin.web.pages.params import ParamsForm, field_of, reason_field
from poisonadmin.web.pages.views import href, page, pager


def shown_preview(request: HttpRequest, foreseen: OperationPreview, principal: Principal) -> dict[str, Any]:
    """Return what `operations/_preview.html` shows; a page that mends something leads back to this one."""
    samples = foreseen.change.samples if foreseen.change else []
    note_payload_reads(principal, [one.message_id for one in samples])
    return {
        "preview": foreseen,
        "targets": [(one, *_mend_wait(one)) for one in foreseen.targets],
        "left_alone": [(one, *_mend(one, principal, request.get_full_path())) for one in foreseen.refused],
        "samples": samples,
        "warnings": [one.warning.sentence(one.count, total=foreseen.accepted) for one in foreseen.crashed],
    }


def _mend_wait(target: Target) -> tuple[str, str, str | None]:
    """Return why a target's messages would wait, what mends that, and the page for it, as far as the reader sees it."""
    if target.waits is None:
        return "", "", None
    if target.waits == WaitsFor.DESTINATION_DISABLED:
        page = href(reverse("destinations-one"), [("name", target.destination)]) if target.destination else None
        return "its destination is switched off", "Switch the destination on", page
    words = "the address is paused" if target.waits == WaitsFor.ADDRESS_PAUSED else "the address is stopped"
    return words, "Resume the address", href(reverse("addresses-one"), [("name", target.address)])


def _mend(refused: LeftAlone, principal: Principal, back: str) -> tuple[str, str | None]:
    """Return what would mend a refusal, and the page where the principal may do that, which leads `back`."""
    may_configure = principal.may(Permission.CONFIGURE)
    if refused.code == refusals.NO_DESTINATION:
        new = href(reverse("policies-new"), [("match", refused.detail or ""), ("back", back)])
        return f"Choose what {refused.detail} delivers to", new if may_configure else None
    if refused.code == refusals.OVERSIZED:
        return f"Raise max_payload_bytes of {refused.detail}", reverse("policies") if may_configure else None
    if refused.code == refusals.LISTED:
        return f"Release it on {refused.detail} first", reverse("poison_list")
    if refused.code == TAKEN:
        return f"Operation #{refused.detail}", reverse("operations-one", args=[int(refused.detail or 0)])
    if refused.code in WAIVABLE:
        return "Tick its box below, where it shall be delivered all the same", None
    return "", None


COUNTED = 10_000


# The boxes that waive a refusal.
_WAIVES = {f"waive_{code}": code for code in WAIVABLE}


class OperationForm(ParamsForm):
    """The form for an action on a selection."""

    rate_per_second = decimal_number(
        "Most deliveries a second", note="On all workers together. Empty: as fast as the destinations take them."
    )
    canary = ticks("Try 1, then 10, then 100 messages first, and halt when they fail again")
    waive_newer_delivered = ticks(
        "Deliver also what a newer message has overtaken", "One with the same business key was delivered there."
    )
    waive_may_have_been_processed = ticks(
        "Deliver also what may have been processed already",
        "A time-out or a lost connection after it was sent, a lost result, or a confirmation says so.",
    )
    begin_consumer = TextField(
        "Begin when this consumer",
        most=MAX_CONSUMER_CHARS,
        hint="billing or orders.#",
        note="Its destination, or the addresses that it consumes. Empty: at once.",
    )
    begin_version = TextField(
        "has this version or a later one",
        most=MAX_VERSION_CHARS,
        hint="2.5.0",
        note="The canary begins by itself once that is seen alive.",
    )
    break_glass = ticks(
        "Begin without a sign-off",
        "For emergencies. It is marked on the operation for ever, and shown to everybody who signs off.",
    )
    reason = reason_field(needed=True)

    def __init__(self, data: Any, action: Action, principal: Principal) -> None:
        super().__init__(data, action, partial(account_names, principal))
        self.action = action.key
        if not principal.may(Permission.BREAK_GLASS):
            del self.fields["break_glass"]
        if action.key not in DELIVERING:
            for name in ("rate_per_second", "canary", "begin_consumer", "begin_version", *_WAIVES):
                del self.fields[name]

    def waive(self) -> list[str]:
        """Return the refusals that do not count."""
        typed = self.cleaned_data if self.is_bound and self.errors is not None else {}
        return [code for name, code in _WAIVES.items() if typed.get(name)]

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error."""
        if not isinstance(error, InvalidField | OutOfScope):
            return ""
        _, _, waited = error.field.partition("begin_when.")
        return f"begin_{waited}" if waited else field_of(error)

    def check(self) -> None:
        """Raise what is wrong with the version that it waits for."""
        self._begin_when()

    def _begin_when(self) -> BeginWhen | None:
        typed = self.cleaned_data
        given = {name: typed.get(f"begin_{name}") for name in ("consumer", "version")}
        return begin_when_of(given) if any(given.values()) else None

    def wanted(self) -> dict[str, Any]:
        """Return the arguments of the command."""
        typed = self.cleaned_data
        delay = typed.get("delay_seconds")
        return {
            "reason": typed["reason"],
            "terms": beginning.OperationTerms(
                Pace(typed.get("rate_per_second"), typed.get("canary", False)),
                typed.get("break_glass", False),
                begin_when=self._begin_when(),
                waive=self.waive(),
            ),
            "until": None if delay is None else timezone.now() + timedelta(seconds=delay),
            "params": self.params(),
        }

    def pace(self) -> Pace:
        """Return the rate and the canary that were asked for; none where there can be no such."""
        typed = self.cleaned_data if self.is_bound and self.errors is not None else {}
        pace = Pace(typed.get("rate_per_second"), typed.get("canary", False))
        try:
            pace.check(self.action)
        except InvalidOperation:
            return UNLIMITED
        return pace


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


@page(topic="use/operations#preview")
def selection(request: HttpRequest, principal: Principal, selection_id: int) -> HttpResponseBase:
    """Show what an action would do with a selection, and begin it when the form is sent."""
    found, action, form, foreseen = _asked(request, principal, selection_id)
    if request.method == "POST":
        principal.require(Permission.DECIDE)
        if "preview" in request.POST or (form.asked and (foreseen is None or "begin" not in request.POST)):
            form.errors.pop("reason", None)  # it is asked for once it is known what would happen
        elif form.is_valid():
            try:
                operation_id = beginning.begin(selection_id, action.key, principal=principal, **form.wanted())
            except (InvalidOperation, OutOfScope) as error:
                form.show(error)
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
        "has_waives": any(field.name in _WAIVES for field in _fields(form, foreseen)),
        **(shown_preview(request, foreseen, principal) if foreseen else {}),
    }
    return render(request, "operations/selection.html", context, status=422 if form.errors else 200)


@require_POST
@page()
def duration(request: HttpRequest, principal: Principal, selection_id: int) -> HttpResponseBase:
    """Render how long the action would take, as the form is filled in. Nothing is changed."""
    _, _, _, foreseen = _asked(request, principal, selection_id)
    return render(request, "operations/_duration.html", {"preview": foreseen})


def _asked(
    request: HttpRequest, principal: Principal, selection_id: int
) -> tuple[SelectionRow, Action, OperationForm, OperationPreview | None]:
    """Return what is asked of which selection, and what that would do, as far as it is known."""
    found = get_selection(selection_id, principal=principal)
    action = _action(request.GET.get("action") or _likely(found))
    form = OperationForm(request.POST if request.method == "POST" else None, action, principal)
    return found, action, form, _preview(found, action, form, principal)


def _fields(form: OperationForm, foreseen: OperationPreview | None) -> list[BoundField]:
    """Return the fields that are asked for once it is known what would happen."""
    has_limit = foreseen is not None and foreseen.needs_sign_off
    hidden = {*form.asked, *(() if has_limit else ("break_glass",))}
    refused = {one.code for one in foreseen.refused} if foreseen else set()
    hidden |= {name for name, code in _WAIVES.items() if code not in refused and code not in form.waive()}
    return [field for field in form.visible_fields() if field.name not in hidden]


def _preview(found: SelectionRow, action: Action, form: OperationForm, principal: Principal) -> OperationPreview | None:
    """Return what the action would do; None where it is not known yet with what parameters."""
    if form.asked and (not form.is_bound or any(name in form.errors for name in form.asked)):
        return None
    try:
        params = form.params() if form.asked else None
        return preview(found, action.key, principal=principal, params=params, pace=form.pace(), waive=form.waive())
    except (InvalidOperation, OutOfScope) as error:
        name = field_of(error)
        form.add_error(name if name in form.fields else None, sentence_of(error))
        return None


@page(filters=(), topic="use/operations#selection")
def selected(request: HttpRequest, principal: Principal, selection_id: int) -> HttpResponseBase:
    """List the members of a selection as they are now."""
    found = get_selection(selection_id, principal=principal)
    members = list_members(found, principal=principal, cursor=request.GET.get("cursor"))
    title = f"Selection #{found.id}"
    back = reverse("operations-selection", args=[selection_id])
    context = {"title": title, "back": back, "rows": members.results, "pager": pager(request, members)}
    return render(request, "operations/members.html", context)


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


urlpatterns = [
    path("operations/matching/", matching, name="operations-matching"),
    path("operations/select/", select, name="operations-select"),
    path("operations/selections/<int:selection_id>/", selection, name="operations-selection"),
    path("operations/selections/<int:selection_id>/messages/", selected, name="operations-selected"),
    path("operations/selections/<int:selection_id>/duration/", duration, name="operations-duration"),
]
