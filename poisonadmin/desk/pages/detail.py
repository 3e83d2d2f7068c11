"""One message: everything that helps to decide, and the decisions that its state allows."""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from poisonadmin.brokers.domain.broker_kinds import words_of
from poisonadmin.core.commands.audit import note_payload_reads
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.decisions.operations.domain.actions import ACTIONS, DELIVERING, Action
from poisonadmin.decisions.operations.domain.params import may_carry_out
from poisonadmin.decisions.queries.approval_warnings import approval_warning_of
from poisonadmin.decisions.queries.replays import evidence
from poisonadmin.desk.commands.reveal import reveal
from poisonadmin.desk.pages import readable
from poisonadmin.desk.pages.opened_from import PARAMETER, opened_from
from poisonadmin.desk.pages.readable import MAX_SHOWN_BYTES, NoTree
from poisonadmin.desk.queries.detail import (
    attempts,
    get_message,
    get_transport,
    history,
    hops,
    masks_at,
    payload,
    payload_start,
    versions,
)
from poisonadmin.desk.queries.related import Around, around, list_related
from poisonadmin.desk.queries.schedule import schedule
from poisonadmin.groups.queries.groups import group_of_message
from poisonadmin.messages.domain.outcomes import CRASHES, Outcome
from poisonadmin.messages.domain.states import Event, Reason, State
from poisonadmin.messages.domain.traces import trace_id
from poisonadmin.messages.queries.detail_rows import AttemptRow, HistoryRow, MessageDetail
from poisonadmin.messages.queries.message_rows import MessageRow
from poisonadmin.web.api.attachments import attachment
from poisonadmin.web.pages.views import MAX_REASON_CHARS, NO_REASON, page, pager, reason_of, require_known
from poisonadmin.web.pages.words import describe_crash, event_words

_CRASHES = (Event.CRASHED, Event.NODE_LOST)
_TONES: dict[str, str] = {State.DLVD: "good", State.NDLV: "bad", State.FAIL: "bad"}
MOST_LINES = 60
# Shown among the message's headers, as texts; here they are kept in the broker's own types.
_KEPT_TYPED = "headers"
SHOWN_ATTEMPTS = 50
SHOWN_HISTORY = 100
FAILURES = {*CRASHES, Outcome.FAILED, Outcome.IMPORTED, Outcome.ROLLED_BACK, Outcome.CONVERSATION_ENDED}


@dataclass(frozen=True)
class Step:
    """One change, as `words`, and what it led to besides the state, as `meaning`. `tone`: good, bad or none."""

    row: HistoryRow
    words: str
    meaning: str
    tone: str


def _timeline(message: MessageRow, history: Sequence[HistoryRow], attempts: Sequence[AttemptRow]) -> list[Step]:
    """Return the steps, newest first, as the history and the attempts are."""
    tried = {attempt.attempt_number: attempt for attempt in attempts}
    steps = []
    is_suspect = False
    for row in reversed(history):
        attempt = tried.get(row.attempt_number)
        if row.event in _CRASHES:
            steps.append(_crash(row, attempt, _suspicion(row, message, tried) if not is_suspect else ""))
            is_suspect = True
        elif row.event == Event.DELIVERED and is_suspect:
            alone = attempt is not None and attempt.is_alone
            steps.append(Step(row, "Cleared: delivered alone" if alone else "Cleared: delivered", "", "good"))
            is_suspect = False
        else:
            moved = row.event != Event.ASSIGNED
            steps.append(Step(row, event_words(row.event), "", _TONES.get(row.to_state, "") if moved else ""))
    return steps[::-1]


def _suspicion(row: HistoryRow, message: MessageRow, tried: Mapping[int, AttemptRow]) -> str:
    following = tried.get(row.attempt_number + 1)
    if row.to_state != State.TBDL or not (following.is_alone if following else message.candidate):
        return ""
    return "A candidate from now on: delivered alone" if following else "A candidate from now on"


def _crash(row: HistoryRow, attempt: AttemptRow | None, meaning: str) -> Step:
    words = describe_crash(attempt).sentence if attempt and attempt.outcome in CRASHES else event_words(row.event)
    return Step(row, words, meaning, "bad")


def _transport_lines(transport: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what is worth a look; headers are shown elsewhere.

    >>> _transport_lines({"broker": "kafka", "topic": "", "properties": {"leader": 4}, "key": {"base64": "YQ=="}})
    [('broker', 'Kafka'), ('topic', '""'), ('properties.leader', '4'), ('key', "b'a'")]
    """
    named = {**transport, "broker": words_of(str(transport.get("broker")))}
    lines = list(_lines({name: value for name, value in named.items() if name != _KEPT_TYPED}))
    return lines[:MOST_LINES]


def _lines(reported: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in reported.items():
        if value is None:
            continue
        if isinstance(value, Mapping) and set(value) != {"base64"} and not before:
            yield from _lines(value, f"{name}.")
        else:
            yield before + name, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, Mapping) and set(value) == {"base64"}:
        try:
            return repr(base64.b64decode(str(value["base64"]), validate=True))
        except (binascii.Error, ValueError):
            return str(value)
    return str(value) if value != "" else '""'


@page(topic="use/dashboard#what-belongs-together")
def show(request: HttpRequest, principal: Principal, message_id: int) -> HttpResponseBase:
    """Render the message."""
    require_known(request, "view", PARAMETER)
    message = get_message(message_id, principal=principal)
    made = attempts(message_id, principal=principal, limit=SHOWN_ATTEMPTS)
    last_failure = next((attempt for attempt in made.results if attempt.outcome in FAILURES), None)
    changes = history(message_id, principal=principal, limit=SHOWN_HISTORY).results
    context: dict[str, Any] = {
        "message": message,
        "group": group_of_message(message.group_id, principal=principal) if message.group_id else None,
        "list": opened_from(request, message_id, principal),
        "headers": sorted(message.headers.items()),
        "attempts": made.results,
        "more_attempts": made.next is not None,
        "failure": last_failure,
        "frames": readable.folded(last_failure.stack) if last_failure and last_failure.stack else [],
        "history": _timeline(message, changes, made.results),
        "approval_warning": None if message.archived else approval_warning_of(message),
        "crash_outcomes": CRASHES,
        "versions": versions(message_id, principal=principal),
        "hops": hops(message_id, principal=principal).results,
        "schedule": None if message.archived else schedule(message_id, principal=principal),
        "actions": [] if message.archived else _actions(message, principal),
        "is_overdue": message.confirm_by is not None and message.confirm_by < timezone.now(),
        "is_masked": bool(masks_at(message_id, principal)),
        "max_reason": MAX_REASON_CHARS,
        "may_reveal": principal.may(Permission.REVEAL) and principal.may(Permission.READ_PAYLOAD),
        "final": message.state in {"DLVD", "FAIL"},
        "evidence": evidence(message_id) if message.state == State.NDLV else [],
    }
    near = around(message, principal=principal)
    context["related"] = near if near.rows is None or len(near.rows) > 1 else None
    context["trace_links"] = _trace_links(message)
    transport = get_transport(message_id, principal=principal).transport
    context["transport"] = _transport_lines(transport) if transport else []
    if principal.may(Permission.READ_PAYLOAD) and message.payload_removed_at is None:
        note_payload_reads(principal, [message_id])
        context["payload"] = _payload(request, principal, message)
    return render(request, "messages/message.html", context)


def _trace_links(message: MessageDetail) -> list[tuple[str, str]]:
    """Return the links that the installation has templates for, by name, as far as the message has their values."""
    values = {
        "trace_id": trace_id(message.headers),
        "message_id": message.message_id,
        "conversation_id": message.conversation_id,
    }
    links = [(link.name, link.filled(**values)) for link in settings.TRACE_LINKS]
    return [(name, url) for name, url in links if url is not None]


@page(filters=(), topic="use/dashboard#what-belongs-together")
def related(request: HttpRequest, principal: Principal, message_id: int) -> HttpResponseBase:
    """List the messages of the same conversation or trace, oldest first."""
    message = get_message(message_id, principal=principal)
    found = list_related(message_id, principal=principal, cursor=request.GET.get("cursor"))
    shown = {"message": message, "related": Around(found.results, is_all=True), "pager": pager(request, found)}
    return render(request, "messages/related.html", shown)


def _actions(message: MessageDetail, principal: Principal) -> list[Action]:
    """Return what its state and the principal's permissions allow; all of it for who may decide on nothing.

    Without its payload a message may go back to its consumers, and nowhere else.
    """
    is_handed_back = message.reason == Reason.LISTED and not message.has_destination
    is_deliverable = message.payload_removed_at is None or is_handed_back
    return [
        action
        for action in ACTIONS.values()
        if action.allows(message)
        if may_carry_out(action.key, principal) or not principal.may(Permission.DECIDE)
        if is_deliverable or action.key not in DELIVERING
    ]


@page(Permission.READ_PAYLOAD)
def download(request: HttpRequest, principal: Principal, message_id: int) -> HttpResponseBase:
    """Answer with the payload's bytes, as the next delivery carries them."""
    found = payload(message_id, principal=principal)
    note_payload_reads(principal, [message_id])
    return attachment(request, found, f"message-{message_id}.bin")


@require_POST
@page(Permission.REVEAL, topic="use/masking#reveal")
def show_revealed(request: HttpRequest, principal: Principal, message_id: int) -> HttpResponseBase:
    """Render the message in the clear, once; the reason is kept in the audit log."""
    reason = reason_of(request)
    if not reason:
        notes.warning(request, NO_REASON)
        return HttpResponseRedirect(reverse("messages-one", args=[message_id]))
    found = reveal(message_id, reason, principal=principal)
    context = {
        "revealed": found,
        "headers": sorted(found.headers.items()),
        "keys": sorted(found.business_keys.items()),
    }
    return render(request, "messages/revealed.html", context)


def _payload(request: HttpRequest, principal: Principal, message: MessageDetail) -> dict[str, Any]:
    start = payload_start(message.id, principal=principal, most_bytes=MAX_SHOWN_BYTES)
    cut = message.payload_bytes > len(start)
    nodes, why_no_tree = [], ""
    if cut:
        why_no_tree = "larger than 256 kB"
    else:
        try:
            nodes = readable.tree(start)
        except NoTree as error:
            why_no_tree = str(error)
    raw = readable.text(start)
    wanted = request.GET.get("view", "")
    possible = [*(["tree"] if nodes else []), *(["raw"] if raw is not None else []), "hex"]
    return {
        "view": wanted if wanted in possible else possible[0],
        "possible": possible,
        "nodes": nodes,
        "why_no_tree": why_no_tree,
        "raw": raw,
        "hex": readable.hexadecimal(start),
        "hex_cut": message.payload_bytes > readable.MAX_HEX_BYTES,
        "cut": cut,
    }


urlpatterns = [
    path("messages/<int:message_id>/", show, name="messages-one"),
    path("messages/<int:message_id>/payload/", download, name="messages-payload"),
    path("messages/<int:message_id>/related/", related, name="messages-related"),
    path("messages/<int:message_id>/reveal/", show_revealed, name="messages-reveal"),
]
