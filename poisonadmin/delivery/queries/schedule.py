"""When a message was tried, when it will be, how each wait comes about, and what else decides."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.addresses import matches
from poisonadmin.core.queries.paging import MAX_LIMIT
from poisonadmin.core.queries.rows import fetch
from poisonadmin.delivery.domain.retry_limits import Breaker, attempts_in_all, breakers
from poisonadmin.delivery.domain.retry_schedule import explain
from poisonadmin.delivery.queries.held import HoldReasons, held, place_of
from poisonadmin.delivery.queries.schedule_steps import (
    SHOWN_STEPS,
    NextStep,
    PastStep,
    Start,
    due_sentence,
    failures_counted,
    next_steps,
    past_steps,
)
from poisonadmin.messages.domain.states import Event, State
from poisonadmin.messages.queries.approval_warnings import approval_warning_of
from poisonadmin.messages.queries.detail import AttemptRow, HistoryRow, MessageDetail, attempts, get_message, history
from poisonadmin.policies.domain.policy import Policy
from poisonadmin.policies.queries.index import policy_index
from poisonadmin.store.models.rule import Rule, RuleStage

# A wait that was written down at the settle and the formula's differ by less than this when they are the same.
_SAME = timedelta(milliseconds=2)
_WHY = {
    Event.ENQUEUED: "taken in, so due at once",
    Event.CRASHED: "due at once after a crash, which leaves failure_count alone",
    Event.NODE_LOST: "due at once after its node was lost, which leaves failure_count alone",
    Event.RELEASED: "put back before it was begun, so due at once",
    Event.OUTCOME_LOST: "put back because its result was lost, so due at once",
    Event.MOVED: "moved here, so due at once",
    Event.REDIRECTED: "redirected here, so due at once",
    Event.APPROVED: "approved, so due at once, and failures are counted anew",
    Event.DELIVERED_NOW: "made due",
    Event.POSTPONED: "postponed",
}
_BY_A_PERSON = (Event.APPROVED, Event.DELIVERED_NOW, Event.POSTPONED)


@dataclass(frozen=True)
class ConversationCount:
    """Failures of the message's conversation on this address since the last that was delivered; `limit` ends it."""

    conversation_id: str
    failures: int
    limit: int


@dataclass(frozen=True)
class Schedule:
    """`next` follows the policy in force now; it is empty for a message that waits for a decision or is final.

    `sentence` says what is due, when and why; `of` is the failure after which it is tried no more, None: never.
    `notes`: what else has a say. `policy_changed_at`: when a policy of its address last changed; earlier waits are
    explained by today's.
    """

    sentence: str | None
    due_at: datetime | None
    failure_count: int
    of: int | None
    past: list[PastStep]
    next: list[NextStep]
    held: HoldReasons
    conversation: ConversationCount | None
    breakers: list[Breaker]
    notes: list[str]
    policy_changed_at: datetime | None


def schedule(message_id: int, *, principal: Principal) -> Schedule:
    """Return the explained schedule; raise NotFound."""
    message = get_message(message_id, principal=principal)
    made = attempts(message_id, principal=principal, limit=SHOWN_STEPS).results
    changes = history(message_id, principal=principal, limit=MAX_LIMIT)
    policy = policy_index().resolve(message.address).policy
    place = place_of(message)
    changed_at = _changed_at(message.address)
    failures = failures_counted(changes.results, is_whole=changes.next is None)
    is_alive = message.state in (State.TBDL, State.DLNG)
    in_conversation = None
    if message.conversation_id is not None and policy.conversation_failure_limit:
        in_conversation = place.conversation_failures or 0
    how = _how(message, policy, changes.results, made) if is_alive else None
    of = attempts_in_all(policy, message.address)
    start = Start(
        message_id=message.id,
        address=message.address,
        attempt_number=message.attempt_number + (1 if message.state == State.TBDL else 0),
        failure_count=message.failure_count,
        conversation_failures=in_conversation,
        at=message.due_at,
        how=how,
        of=of,
    )
    return Schedule(
        sentence=_sentence(message, of, how) if is_alive else None,
        due_at=message.due_at,
        failure_count=message.failure_count,
        of=of,
        past=past_steps(policy, message.id, made, failures, changed_at),
        next=next_steps(policy, start) if is_alive else [],
        held=held(message, place),
        conversation=None
        if in_conversation is None or message.conversation_id is None
        else ConversationCount(message.conversation_id, in_conversation, policy.conversation_failure_limit),
        breakers=[] if not is_alive else _breakers(policy, message, place.rollbacks_in_row, in_conversation),
        notes=_notes(message) if is_alive else [],
        policy_changed_at=changed_at,
    )


def _breakers(policy: Policy, message: MessageDetail, rollbacks: int, in_conversation: int | None) -> list[Breaker]:
    return list(
        breakers(
            policy,
            failure_count=message.failure_count,
            rollbacks_in_row=rollbacks,
            conversation_failures=in_conversation,
        )
    )


def _notes(message: MessageDetail) -> list[str]:
    """Return what else has a say: suspicion, and rules on failures."""
    found = []
    warning = approval_warning_of(message)
    if warning is not None and message.candidate:
        alone = "delivered alone, in a process of its own" if warning.is_alone else "delivered among others"
        stops = "puts it on the poison list" if warning.is_listed else "blacklists it"
        crashes = {None: "no crash stops it", 1: f"one more crash {stops}"}.get(
            warning.crashes, f"crash {warning.crashes} from now {stops}"
        )
        found.append(f"a candidate: {alone}; {crashes}")
    rules = Rule.objects.filter(stage=RuleStage.AFTER, is_enabled=True).count()
    if rules:
        found.append(f"{rules} rules on failures are switched on; one that matches decides instead of the policy")
    return found


def _sentence(message: MessageDetail, of: int | None, how: str | None) -> str:
    if message.state == State.DLNG:
        limit = f" of {of}" if of is not None else ", without a limit"
        return f"attempt {message.failure_count + 1}{limit} (failure_count {message.failure_count}) is under way"
    return due_sentence(message.failure_count + 1, of, message.failure_count, message.due_at, how)


def _how(message: MessageDetail, policy: Policy, changes: list[HistoryRow], made: list[AttemptRow]) -> str | None:
    """Return the terms of the wait that the message is in, or why there is none."""
    last = next((row for row in changes if row.event != Event.CLAIMED), None)
    if last is None:
        return None
    if last.event not in (Event.FAILED, Event.ROLLED_BACK):
        by = f" by {last.actor}" if last.event in _BY_A_PERSON else ""
        return f"{_WHY.get(Event(last.event), last.event)}{by}"
    counts_as = 1 if last.event == Event.ROLLED_BACK else message.failure_count
    terms = explain(policy, counts_as, message.id, last.attempt_number)
    prefix = "after a roll-back, as after the first failure: " if last.event == Event.ROLLED_BACK else ""
    if message.due_at is None:
        return f"{prefix}{terms.formula()}"
    waits = message.due_at - message.state_at
    if abs(waits - timedelta(milliseconds=terms.delay)) <= _SAME:
        return f"{prefix}{terms.formula()}"
    waits_ms = round(waits / timedelta(milliseconds=1))
    return f"{prefix}{terms.formula()}; {_why_other(waits_ms, policy, last, made)}"


def _why_other(waits_ms: int, policy: Policy, last: HistoryRow, made: list[AttemptRow]) -> str:
    """Return why the wait is not the formula's."""
    attempt = next((one for one in made if one.attempt_number == last.attempt_number), None)
    if attempt is not None and attempt.retry_after_ms is not None and waits_ms <= attempt.retry_after_ms:
        return f"the destination asked for {attempt.retry_after_ms} ms, so {waits_ms} ms"
    if waits_ms == policy.blocked_retry_timeout:
        return f"blocked_retry_timeout {policy.blocked_retry_timeout}, so {waits_ms} ms"
    return f"by what was in force then, {waits_ms} ms"


@dataclass(frozen=True)
class _Changed:
    match: str
    updated_at: datetime


def _changed_at(address: str) -> datetime | None:
    rows = fetch(_Changed, "SELECT match, updated_at FROM policy")
    return max((row.updated_at for row in rows if matches(row.match, address)), default=None)
