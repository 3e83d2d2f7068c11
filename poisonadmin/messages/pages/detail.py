"""One message: everything that helps to decide, and the decisions that its state allows."""

from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.delivery.domain.outcome import CRASHES, Outcome
from poisonadmin.delivery.queries.schedule import schedule
from poisonadmin.messages.pages import payload_tree, stack_view
from poisonadmin.messages.pages.actions import offered
from poisonadmin.messages.pages.payload_tree import MAX_SHOWN_BYTES, NoTree
from poisonadmin.messages.pages.timeline import timeline
from poisonadmin.messages.pages.transport import transport_lines
from poisonadmin.messages.queries.approval_warnings import approval_warning_of
from poisonadmin.messages.queries.detail import (
    MessageDetail,
    attempts,
    get_message,
    get_transport,
    history,
    hops,
    payload,
    payload_start,
)
from poisonadmin.web.pages import streams
from poisonadmin.web.pages.links import require_known
from poisonadmin.web.pages.permissions import page

SHOWN_ATTEMPTS = 50
SHOWN_HISTORY = 100
FAILURES = {*CRASHES, Outcome.FAILED, Outcome.IMPORTED, Outcome.ROLLED_BACK, Outcome.CONVERSATION_ENDED}


@page()
def show(request: HttpRequest, principal: Principal, message_id: int) -> HttpResponseBase:
    """Render the message."""
    require_known(request, "view")
    message = get_message(message_id, principal=principal)
    made = attempts(message_id, principal=principal, limit=SHOWN_ATTEMPTS)
    last_failure = next((attempt for attempt in made.results if attempt.outcome in FAILURES), None)
    changes = history(message_id, principal=principal, limit=SHOWN_HISTORY).results
    context: dict[str, Any] = {
        "message": message,
        "headers": sorted(message.headers.items()),
        "attempts": made.results,
        "more_attempts": made.next is not None,
        "failure": last_failure,
        "frames": stack_view.folded(last_failure.stack) if last_failure and last_failure.stack else [],
        "history": timeline(message, changes, made.results),
        "approval_warning": approval_warning_of(message),
        "crash_outcomes": CRASHES,
        "hops": hops(message_id, principal=principal).results,
        "schedule": schedule(message_id, principal=principal),
        "actions": offered(message) if principal.may(Permission.DECIDE) else [],
        "is_overdue": message.confirm_by is not None and message.confirm_by < timezone.now(),
        "final": message.state in {"DLVD", "FAIL"},
    }
    transport = get_transport(message_id, principal=principal).transport
    context["transport"] = transport_lines(transport) if transport else []
    if principal.may(Permission.READ_PAYLOAD):
        context["payload"] = _payload(request, principal, message)
    return render(request, "messages/message.html", context)


@page(Permission.READ_PAYLOAD)
def download(request: HttpRequest, principal: Principal, message_id: int) -> HttpResponseBase:
    """Answer with the payload's bytes as they came in."""
    return streams.download(request, payload(message_id, principal=principal), f"message-{message_id}.bin")


def _payload(request: HttpRequest, principal: Principal, message: MessageDetail) -> dict[str, Any]:
    start = payload_start(message.id, principal=principal, most_bytes=MAX_SHOWN_BYTES)
    cut = message.payload_bytes > len(start)
    nodes, why_no_tree = [], ""
    if cut:
        why_no_tree = "larger than 256 kB"
    else:
        try:
            nodes = payload_tree.tree(start)
        except NoTree as error:
            why_no_tree = str(error)
    raw = payload_tree.text(start)
    wanted = request.GET.get("view", "")
    possible = [*(["tree"] if nodes else []), *(["raw"] if raw is not None else []), "hex"]
    return {
        "view": wanted if wanted in possible else possible[0],
        "possible": possible,
        "nodes": nodes,
        "why_no_tree": why_no_tree,
        "raw": raw,
        "hex": payload_tree.hexadecimal(start),
        "hex_cut": message.payload_bytes > payload_tree.MAX_HEX_BYTES,
        "cut": cut,
    }
