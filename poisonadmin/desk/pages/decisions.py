"""Deciding on ticked messages, or on one: the dialog that asks for a reason, and carrying it out."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages as notes
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRedirect, trigger_client_event

from poisonadmin.core.domain.access import OutOfScope, Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.decisions.commands.decisions import Decided
from poisonadmin.decisions.commands.refused_decisions import (
    ConversationEnded,
    Listed,
    NoDestination,
    NotAssigned,
    Oversized,
)
from poisonadmin.decisions.operations.commands.beginning import decide_on
from poisonadmin.decisions.operations.domain.actions import ACTIONS, DELIVERING, Action, OperationAction
from poisonadmin.decisions.operations.domain.params import InvalidOperation
from poisonadmin.decisions.queries.approval_warnings import approval_warnings
from poisonadmin.decisions.sign_offs.queries import limits_of, sign_off_needed
from poisonadmin.desk.pages.crashed import TABLE as CRASHED_TABLE
from poisonadmin.messages.domain.states import Event
from poisonadmin.messages.queries.message_rows import MessageRow, messages_by_id
from poisonadmin.search.queries.blacklist import suspects
from poisonadmin.search.queries.owners import account_names
from poisonadmin.system.queries.overview import undecided_count
from poisonadmin.web.pages.forms import sentence_of
from poisonadmin.web.pages.params import ParamsForm, field_of, reason_field
from poisonadmin.web.pages.views import back_to, dialog, href, page
from poisonadmin.web.pages.words import SIGN_OFF_NEEDED, refusal_words

MAX_TICKED = 500
MAX_DIGITS = 18
# Who asks for a decision, and the page that it is on.
ORIGINS = {"message": "messages-one", "list": "triage", "crashed": "triage"}


def warnings(rows: Sequence[MessageRow]) -> list[str]:
    """Return a sentence for each warning that the approved messages have; empty when none of them ever crashed."""
    return [warning.sentence(n, total=len(rows)) for warning, n in approval_warnings(rows)]


class InvalidDecision(PoisonAdminError):
    """Raised when the form of a decision holds what no page of ours sends."""

    code = "invalid_decision"


class DecisionForm(ParamsForm):
    """A decision as it was sent; raises InvalidDecision for what no page of ours sends.

    `ids`: the messages. `page`: the page that asks, which says how its rows look: message, list or crashed; `target`:
    where that is. `expected`: state and attempt of a single message, when the page showed it.
    """

    origin = back = expected_state = forms.CharField(required=False, widget=forms.HiddenInput)
    expected_attempt = forms.IntegerField(min_value=0, max_value=MAX_ID, required=False, widget=forms.HiddenInput)
    reason = reason_field(required=True, autofocus=True)

    def __init__(self, request: HttpRequest, action: Action, principal: Principal) -> None:
        super().__init__(request.POST, action, partial(account_names, principal))
        for name, errors in self.errors.items():
            if name not in ("reason", *self.asked):
                raise InvalidDecision(f"{name}: {errors[0]}")
        self.ids = _ids(request.POST.getlist("id"))
        typed = self.cleaned_data
        is_known = typed["origin"] in ORIGINS and (typed["origin"] != "message" or len(self.ids) == 1)
        self.page = typed["origin"] if is_known else "list"
        is_single = self.page == "message"
        self.expected = (typed["expected_state"] or None, typed["expected_attempt"]) if is_single else (None, None)
        self.target = back_to(request, reverse(ORIGINS[self.page], args=self.ids if is_single else ()))


def _ids(texts: list[str]) -> tuple[int, ...]:
    for text in texts:
        if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
            raise InvalidDecision(f"{text[:40]!r} is not a number that a page of ours sends.")
    ids = tuple(dict.fromkeys(map(int, texts)))
    if not 1 <= len(ids) <= MAX_TICKED:
        raise InvalidDecision(f"Tick 1 to {MAX_TICKED} messages; {len(ids)} were sent.")
    return ids


@require_POST
@page(Permission.DECIDE, topic="use/dashboard#decisions")
def ask(request: HttpRequest, principal: Principal, action: str) -> HttpResponseBase:
    """Show what would happen to which messages, and ask for the reason. Nothing is changed."""
    chosen = _action(action)
    return _dialog(request, principal, chosen, DecisionForm(request, chosen, principal))


@require_POST
@page(Permission.DECIDE, topic="use/dashboard#decisions")
def carry_out(request: HttpRequest, principal: Principal, action: str) -> HttpResponseBase:
    """Decide, say what was done and what was not, and show the rows as they are now."""
    chosen = _action(action)
    form = DecisionForm(request, chosen, principal)
    if not form.errors and not form.cleaned_data["reason"]:
        form.add_error("reason", "Say why; the reason is kept with the message.")
    if "address" in form.fields and not form.errors and not form.cleaned_data["address"]:
        form.add_error("address", "Say where it is to be delivered.")
    if form.errors:
        return _dialog(request, principal, chosen, form, 422)
    until = None
    if chosen.delays:
        delay_seconds = form.cleaned_data["delay_seconds"] or chosen.delays[0][0]
        until = timezone.now() + timedelta(seconds=delay_seconds)
    try:
        decided = decide_on(
            form.ids,
            chosen.key,
            principal=principal,
            reason=form.cleaned_data["reason"],
            until=until,
            params=form.params(),
            expected_state=form.expected[0],
            expected_attempt=form.expected[1],
            is_one=form.page == "message",
        )
    except (OutOfScope, InvalidOperation, NoDestination, Oversized, Listed, ConversationEnded, NotAssigned) as error:
        if not form.asked:
            raise
        name = field_of(error) if isinstance(error, InvalidOperation) else ""
        form.add_error(name if name in form.asked else form.asked[0], sentence_of(error))
        return _dialog(request, principal, chosen, form, 422)
    _say(request, chosen, decided, form.target)
    return _answer(request, principal, form, decided)


def _dialog(
    request: HttpRequest, principal: Principal, action: Action, form: DecisionForm, status: int = 200
) -> HttpResponse:
    rows = messages_by_id(form.ids, principal=principal)
    fitting = [row for row in rows if action.allows(row)]
    context: dict[str, Any] = {
        "action": action,
        "form": form,
        "rows": rows,
        "fitting": len(fitting),
        "single": rows[0] if len(rows) == 1 and form.page == "message" else None,
        "split": _split(fitting, goes_back=action.event is Event.APPROVED),
        "skipped": Counter(row.state for row in rows if not action.allows(row)).most_common(),
        "missing": len(set(form.ids)) - len(rows),
        "warnings": warnings(fitting) if action.event is Event.APPROVED else [],
        "sign_off": sign_off_needed(
            limits_of(action.key),
            action.key,
            principal=principal,
            count=len(rows),
            ids=[row.id for row in rows],
            target=form.cleaned_data.get("address") or None,
        ),
    }
    title = f"{action.verb} {len(fitting)} message{'' if len(fitting) == 1 else 's'}"
    return dialog(request, "messages/_decision.html", title, context, status)


def _split(rows: list[MessageRow], *, goes_back: bool) -> list[tuple[tuple[str, str, str], int]]:
    """Return how many messages each address, the address that they go back to, and failure have, most first.

    The second is empty where they stay.
    """

    def target(row: MessageRow) -> str:
        return row.original_address or "" if goes_back and row.original_address != row.address else ""

    return Counter((row.address, target(row), row.group_title or "No failure yet") for row in rows).most_common()


def _say(request: HttpRequest, action: Action, decided: Decided, target: str) -> None:
    count = len(decided.changed)
    if decided.awaits is not None:
        notes.warning(request, SIGN_OFF_NEEDED)
    if count:
        which = f"Message #{decided.changed[0]}" if count == 1 else f"{count} messages"
        links = [reverse("messages-one", args=[decided.changed[0]])] if count == 1 else []
        if action.key is OperationAction.FAIL or action.key in DELIVERING:
            links.append(href(reverse("operations-undo", args=[decided.operation]), [("back", target)]))
        notes.success(request, f"{which} {action.done}.", extra_tags=" ".join(links))  # the addresses of its buttons
    for why, skipped in Counter(decided.refused.values()).most_common():
        which = ", ".join(f"#{message_id}" for message_id, code in decided.refused.items() if code == why)
        shown = which if skipped <= 10 else f"{skipped} messages"
        notes.warning(request, f"Left as {'it was' if skipped == 1 else 'they were'}: {shown}; {refusal_words(why)}.")


def _answer(request: HttpRequest, principal: Principal, form: DecisionForm, decided: Decided) -> HttpResponseBase:
    target = form.target if decided.awaits is None else reverse("operations-one", args=[decided.awaits])
    if not request.htmx:  # type: ignore[attr-defined]
        return HttpResponseRedirect(target)
    if form.page == "message" or decided.awaits is not None:
        return HttpResponseClientRedirect(target)
    are_crashed = form.page == "crashed"
    context = {
        "rows": (suspects if are_crashed else messages_by_id)(form.ids, principal=principal),
        "table": CRASHED_TABLE if are_crashed else "messages/_message_table.html",
        "changed": set(decided.changed),
        "undecided": undecided_count(principal),
    }
    return trigger_client_event(render(request, "messages/_decided.html", context), "decided", after="settle")


def _action(key: str) -> Action:
    if key not in ACTIONS or ACTIONS[key].page:
        raise Http404(key)
    return ACTIONS[key]


urlpatterns = [
    path("messages/decide/<slug:action>/", ask, name="messages-ask"),
    path("messages/decide/<slug:action>/now/", carry_out, name="messages-decide"),
]
