"""Decisions of people on single messages or a handful: approve, mark FAIL, quarantine, restore, deliver now, postpone,
return.

Each locks the messages, refuses those that are out of scope or in another state, and changes the rest in one statement.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NotRequired, TypedDict, Unpack

from django.db import connection, transaction

from poisonadmin.core.commands import audit
from poisonadmin.core.commands.transaction_retry import retried
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.messages.commands import schedule
from poisonadmin.messages.commands.decision_statements import Locked, Suspicions, apply, lock
from poisonadmin.messages.domain.states import Event, State, TransitionNotAllowed, sources
from poisonadmin.poison_list.commands.entries import release_for_messages
from poisonadmin.policies.domain.policy import Blame
from poisonadmin.policies.queries.index import policy_index

NOT_FOUND = "not_found"
NO_DESTINATION = "no_destination"
OVERSIZED = "oversized"
NOT_MOVED = "not_moved"
STALE = "precondition_failed"


class MessageNotFound(PoisonAdminError):
    """Raised when there is no such message in the caller's scope."""

    code = "not_found"
    status = 404


class PreconditionFailed(PoisonAdminError):
    """Raised when the message is no longer what the caller had seen."""

    code = "precondition_failed"
    status = 412


class NoDestination(PoisonAdminError):
    """Raised when the address that an approved message goes to delivers nowhere."""

    code = "no_destination"
    status = 409


class Oversized(PoisonAdminError):
    """Raised when an approved message is larger than the address that it goes to takes."""

    code = "oversized"
    status = 409


class NotMoved(PoisonAdminError):
    """Raised when a message is to return to an address that it never left."""

    code = "not_moved"
    status = 409


class Asked(TypedDict):
    """What a decision is asked with. `expected_*`: what the caller has seen; None or left out: anything."""

    principal: Principal
    reason: str
    expected_state: NotRequired[str | None]
    expected_attempt: NotRequired[int | None]


@dataclass(frozen=True)
class Decided:
    """`refused` maps each message that was left alone to why: a code, or the state it is in."""

    event: Event
    changed: tuple[int, ...]
    refused: dict[int, str]


@dataclass(frozen=True)
class _Decision:
    event: Event
    to_state: State
    check: Callable[[Locked], str | None] = lambda _: None
    until: datetime | None = None


def _can_be_delivered(message: Locked) -> str | None:
    if not message.home_delivers:
        return NO_DESTINATION
    return None if message.home_takes_its_size else OVERSIZED


def _was_moved(message: Locked) -> str | None:
    return _can_be_delivered(message) if message.home != message.address else NOT_MOVED


_APPROVE = _Decision(Event.APPROVED, State.TBDL, _can_be_delivered)
_RETURN = _Decision(Event.APPROVED, State.TBDL, _was_moved)
_MARK_FAIL = _Decision(Event.MARKED_FAIL, State.FAIL)
_QUARANTINE = _Decision(Event.QUARANTINED, State.NDLV)
_RESTORE = _Decision(Event.RESTORED, State.NDLV)
_DELIVER_NOW = _Decision(Event.DELIVERED_NOW, State.TBDL)
_POSTPONE = _Decision(Event.POSTPONED, State.TBDL)


def approve(ids: Sequence[int], **asked: Unpack[Asked]) -> Decided:
    """NDLV -> TBDL, due now, at the address each was moved from where it was. `failure_count` starts again at 0.

    An `expires_at` that has passed is taken away: a person wants the message delivered all the same.
    Errors: `NotAllowed`. Shape: refused with `not_found`, `no_destination`, `oversized`, `precondition_failed`, or
    the state.
    """
    return _decide(_APPROVE, ids, asked)


def return_to_original(ids: Sequence[int], **asked: Unpack[Asked]) -> Decided:
    """As `approve`, for messages that were moved only; others are refused with `not_moved`. Source: SEMANTICS WAS-3."""
    return _decide(_RETURN, ids, asked)


def mark_fail(ids: Sequence[int], **asked: Unpack[Asked]) -> Decided:
    """NDLV -> FAIL `failed_by_admin`. Errors and shape as `approve`."""
    return _decide(_MARK_FAIL, ids, asked)


def quarantine(ids: Sequence[int], **asked: Unpack[Asked]) -> Decided:
    """TBDL -> NDLV `quarantined`. Errors and shape as `approve`."""
    return _decide(_QUARANTINE, ids, asked)


def restore(ids: Sequence[int], **asked: Unpack[Asked]) -> Decided:
    """FAIL -> NDLV with the reason it last had there, or its own where it never was. Errors and shape as `approve`."""
    return _decide(_RESTORE, ids, asked)


def deliver_now(ids: Sequence[int], **asked: Unpack[Asked]) -> Decided:
    """TBDL stays, due now. Errors and shape as `approve`."""
    return _decide(_DELIVER_NOW, ids, asked)


def postpone(ids: Sequence[int], *, until: datetime, **asked: Unpack[Asked]) -> Decided:
    """TBDL stays, due at `until`; a time in the past means now. Errors and shape as `approve`."""
    return _decide(replace(_POSTPONE, until=until), ids, asked)


def only(decided: Decided, message_id: int) -> None:
    """Do nothing when the decision on this one message was carried out; raise why not otherwise.

    Errors: `MessageNotFound`, `NoDestination`, `Oversized`, `NotMoved`, `PreconditionFailed`, `TransitionNotAllowed`.
    """
    why = decided.refused.get(message_id)
    if why is None:
        return
    if why == NOT_FOUND:
        raise MessageNotFound(f"There is no message {message_id}.")
    if why == NO_DESTINATION:
        raise NoDestination("The address that this message would go to delivers nowhere; give it a destination first.")
    if why == OVERSIZED:
        raise Oversized("The payload is larger than its address takes; raise max_payload_bytes in its policy first.")
    if why == NOT_MOVED:
        raise NotMoved("This message was not moved; there is no other address to return it to.")
    if why == STALE:
        raise PreconditionFailed("The message has changed since it was read; nothing was done. Read it again.")
    raise TransitionNotAllowed(State(why), decided.event)


def _decide(decision: _Decision, ids: Sequence[int], asked: Asked) -> Decided:
    asked["principal"].require(Permission.DECIDE)
    return retried(lambda: _decide_once(decision, ids, asked))


def _decide_once(decision: _Decision, ids: Sequence[int], asked: Asked) -> Decided:
    principal, reason = asked["principal"], asked["reason"]
    with transaction.atomic():
        locked = lock(ids)
        refused = {message_id: NOT_FOUND for message_id in ids if message_id not in locked}
        for message_id, message in locked.items():
            if why := _refusal(decision, message, asked):
                refused[message_id] = why
        chosen = [message_id for message_id in locked if message_id not in refused]
        suspicions = Suspicions()
        if decision.event is Event.APPROVED and chosen:
            suspicions = _suspicions([locked[message_id] for message_id in chosen])
            with connection.cursor() as cursor:
                release_for_messages(cursor, chosen, actor=principal.name, note=reason)
        apply(
            chosen,
            decision.event,
            actor=principal.name,
            note=reason,
            until=decision.until,
            suspicions=suspicions,
        )
        for message_id in chosen:
            audit.record(principal.name, f"message.{decision.event}", "message", str(message_id), note=reason)
    return Decided(decision.event, tuple(chosen), refused)


def _suspicions(approved: Sequence[Locked]) -> Suspicions:
    """Return which of the approved stay candidates, to be tried alone, and which are cleared (ruling R3).

    Under `all_in_flight` a candidate runs beside the others, as in SAP.
    """
    policies = policy_index()
    candidates = [(message, policies.resolve(message.home).policy) for message in approved if message.candidate]
    cleared = tuple(message.id for message, policy in candidates if policy.approve_clears_candidate)
    alone = [one for one, policy in candidates if one.id not in cleared and policy.blame is Blame.EXACT]
    with connection.cursor() as cursor:
        schedule.isolation_lanes(cursor, [message.home_id for message in alone])
    return Suspicions(tuple(message.id for message in alone), cleared)


def _refusal(decision: _Decision, message: Locked, asked: Asked) -> str | None:
    if not asked["principal"].sees(message.address):
        return NOT_FOUND
    state, attempt = asked.get("expected_state"), asked.get("expected_attempt")
    if state not in (None, message.state) or attempt not in (None, message.attempt_number):
        return STALE
    if message.state not in sources(decision.event):
        return message.state
    return decision.check(message)
