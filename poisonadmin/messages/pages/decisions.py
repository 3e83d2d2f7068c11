"""Deciding on ticked messages, or on one: the dialog that asks for a reason, and carrying it out."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.contrib import messages as notes
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRedirect, trigger_client_event

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.messages.commands import decisions
from poisonadmin.messages.commands.decisions import Decided
from poisonadmin.messages.domain.states import Event
from poisonadmin.messages.pages.actions import ACTIONS, Action, perform
from poisonadmin.messages.pages.approval_warnings import warnings
from poisonadmin.messages.queries.blacklist import suspects
from poisonadmin.messages.queries.lists import MessageRow
from poisonadmin.messages.queries.triage import ticked
from poisonadmin.system.queries.overview import undecided_count
from poisonadmin.web.pages.links import back_to
from poisonadmin.web.pages.permissions import page
from poisonadmin.web.pages.words import refusal_words

MAX_TICKED = 500
MAX_REASON_CHARS = 2000
# Who asks for a decision, and the page that it is on.
ORIGINS = {"message": "messages-one", "list": "messages", "blacklist": "blacklist"}


class InvalidDecision(PoisonAdminError):
    """Raised when the form of a decision holds what no page of ours sends."""

    code = "invalid_decision"


@dataclass(frozen=True)
class Form:
    """A decision as it was sent. `expected` is (state, attempt) of a single message, when the page showed it.

    `origin`: the page that asks, which says how its rows look: message, list or blacklist.
    """

    ids: tuple[int, ...]
    reason: str
    delay_seconds: int | None
    expected: tuple[str | None, int | None]
    origin: str
    back: str


@require_POST
@page(Permission.DECIDE)
def ask(request: HttpRequest, principal: Principal, action: str) -> HttpResponseBase:
    """Show what would happen to which messages, and ask for the reason. Nothing is changed."""
    return _dialog(request, principal, _action(action), _form(request))


@require_POST
@page(Permission.DECIDE)
def carry_out(request: HttpRequest, principal: Principal, action: str) -> HttpResponseBase:
    """Decide, say what was done and what was not, and show the rows as they are now."""
    chosen, form = _action(action), _form(request)
    if not form.reason:
        return _dialog(request, principal, chosen, form, "Say why; the reason is kept with the message.", 422)
    if len(form.reason) > MAX_REASON_CHARS:
        return _dialog(request, principal, chosen, form, f"At most {MAX_REASON_CHARS} characters.", 422)
    decided = perform(
        chosen,
        form.ids,
        principal=principal,
        reason=form.reason,
        delay_seconds=form.delay_seconds,
        expected=form.expected,
    )
    if form.origin == "message":
        decisions.only(decided, form.ids[0])
    _say(request, chosen, decided)
    return _answer(request, principal, form, decided)


def _dialog(
    request: HttpRequest, principal: Principal, action: Action, form: Form, error: str = "", status: int = 200
) -> HttpResponse:
    rows = ticked(form.ids, principal=principal)
    fitting = [row for row in rows if action.allows(row)]
    context: dict[str, Any] = {
        "action": action,
        "form": form,
        "rows": rows,
        "fitting": len(fitting),
        "single": rows[0] if len(rows) == 1 and form.origin == "message" else None,
        "split": _split(fitting),
        "skipped": Counter(row.state for row in rows if not action.allows(row)).most_common(),
        "missing": len(set(form.ids)) - len(rows),
        "warnings": warnings(fitting) if action.event is Event.APPROVED else [],
        "max_reason": MAX_REASON_CHARS,
        "error": error,
    }
    template = "messages/_decision.html" if request.htmx else "messages/decision.html"  # type: ignore[attr-defined]
    return render(request, template, context, status=status)


def _split(rows: list[MessageRow]) -> list[tuple[tuple[str, str], int]]:
    """Return how many messages each address and failure has, most first."""
    return Counter((row.address, row.group_title or "No failure yet") for row in rows).most_common()


def _say(request: HttpRequest, action: Action, decided: Decided) -> None:
    count = len(decided.changed)
    if count:
        notes.success(request, f"{count} message{'' if count == 1 else 's'} {action.done}.")
    for why, skipped in Counter(decided.refused.values()).most_common():
        which = ", ".join(f"#{message_id}" for message_id, code in decided.refused.items() if code == why)
        shown = which if skipped <= 10 else f"{skipped} messages"
        notes.warning(request, f"Left as {'it was' if skipped == 1 else 'they were'}: {shown}; {refusal_words(why)}.")


def _answer(request: HttpRequest, principal: Principal, form: Form, decided: Decided) -> HttpResponseBase:
    if not request.htmx:  # type: ignore[attr-defined]
        return HttpResponseRedirect(form.back)
    if form.origin == "message":
        return HttpResponseClientRedirect(form.back)
    is_blacklist = form.origin == "blacklist"
    context = {
        "rows": (suspects if is_blacklist else ticked)(form.ids, principal=principal),
        "row_template": f"messages/_{form.origin if is_blacklist else 'message'}_row.html",
        "changed": set(decided.changed),
        "swap": True,
        "undecided": undecided_count(principal),
    }
    return trigger_client_event(render(request, "messages/_decided.html", context), "decided", after="settle")


def _action(key: str) -> Action:
    if key not in ACTIONS:
        raise Http404(key)
    return ACTIONS[key]


def _form(request: HttpRequest) -> Form:
    ids = tuple(dict.fromkeys(_number(text) for text in request.POST.getlist("id")))
    if not 1 <= len(ids) <= MAX_TICKED:
        raise InvalidDecision(f"Tick 1 to {MAX_TICKED} messages; {len(ids)} were sent.")
    origin = request.POST.get("origin", "")
    if origin not in ORIGINS or (origin == "message" and len(ids) != 1):
        origin = "list"
    state, attempt = request.POST.get("expected_state"), request.POST.get("expected_attempt")
    return Form(
        ids,
        request.POST.get("reason", "").replace("\x00", "").strip(),
        _number(request.POST["delay_seconds"]) if request.POST.get("delay_seconds") else None,
        (state or None, _number(attempt) if attempt else None) if origin == "message" else (None, None),
        origin,
        back_to(request, reverse(ORIGINS[origin], args=ids if origin == "message" else ())),
    )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidDecision(f"{text[:40]!r} is not a number that a page of ours sends.")
    return int(text)
