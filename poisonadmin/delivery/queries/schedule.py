"""When a message was tried, when it will be, how each wait comes about, and what else decides."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.addresses import matches
from poisonadmin.core.queries.paging import MAX_LIMIT
from poisonadmin.core.queries.rows import QueryTooExpensive, bounded, fetch, fetch_one, fetch_rows, fetch_values
from poisonadmin.delivery.domain import hot_loops
from poisonadmin.delivery.domain.retry_decision import counted_events
from poisonadmin.delivery.domain.retry_limits import Breaker, attempts_in_all, breakers
from poisonadmin.delivery.domain.retry_schedule import explain
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

SHOWN_PREDECESSORS = 20
COUNTED = 1_000
SECONDS_TO_READ = 2
_PLACE = """SELECT a.status, a.status_by, a.status_message_id, a.is_ordered, a.rollbacks_in_row,
 d.id IS NOT NULL AS has_destination, d.is_enabled AS is_destination_enabled, c.failures AS conversation_failures
 FROM message m JOIN envelope e ON e.id = m.id JOIN address a ON a.id = m.address_id
 LEFT JOIN destination d ON d.id = a.destination_id
 LEFT JOIN conversation c ON c.address_id = a.id AND c.conversation_id = e.conversation_id WHERE m.id = %s"""
_OTHERS = """FROM envelope e JOIN message o ON o.id = e.id JOIN message m ON m.id = %s
 WHERE e.conversation_id = %s AND o.address_id = m.address_id AND o.state IN ('TBDL', 'DLNG', 'NDLV')"""
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
    Event.APPROVED: "approved{by}, so due at once; its failures are counted from zero",
    Event.DELIVERED_NOW: "made due{by}",
    Event.POSTPONED: "postponed{by}",
}
_BY_A_PERSON = (Event.APPROVED, Event.DELIVERED_NOW, Event.POSTPONED)


@dataclass(frozen=True)
class Predecessor:
    """A message of the same conversation that must be delivered, or given up, before this one."""

    id: int
    message_id: str
    state: str
    reason: str | None
    attempt_number: int
    due_at: datetime | None


@dataclass(frozen=True)
class HoldReasons:
    """`reasons`: sentences, empty when nothing holds it. `predecessors` are the first of `predecessor_count`, in order.

    `successor_count`: so many messages wait behind this one. Counts go no further than 1,000.
    """

    reasons: list[str]
    predecessors: list[Predecessor]
    predecessor_count: int
    successor_count: int


@dataclass(frozen=True)
class _AddressState:
    status: str
    status_by: str | None
    status_message_id: int | None
    is_ordered: bool
    rollbacks_in_row: int
    has_destination: bool
    is_destination_enabled: bool | None
    conversation_failures: int | None


def _place_of(message: MessageDetail) -> _AddressState:
    """Return what its address and its conversation say of the message."""
    found = fetch_one(_AddressState, _PLACE, [message.id])
    assert found is not None
    return found


def held(message: MessageDetail, place: _AddressState) -> HoldReasons:
    """Return what holds the message, and what it holds."""
    if message.state not in (State.TBDL, State.DLNG, State.NDLV):
        return HoldReasons([], [], 0, 0)
    reasons = _reasons(message, place) if message.state == State.TBDL else []
    before: list[Predecessor] = []
    counts = [0, 0]
    if place.is_ordered and message.conversation_id is not None:
        try:
            before, counts = _line(message.id, message.conversation_id)
        except QueryTooExpensive:
            reasons.append("its conversation is too long to be looked through here")
    if before and message.state == State.TBDL:
        first = before[0]
        waits = f"{first.state} {first.reason}" if first.reason else first.state
        reasons.append(f"held behind message {first.id} of its conversation, which is {waits}")
        stopped = next((one for one in before[1:] if one.state == State.NDLV), None)
        if stopped is not None and first.state != State.NDLV:
            reasons.append(f"and behind message {stopped.id}, which waits for a decision: NDLV {stopped.reason}")
    return HoldReasons(reasons, before, *counts)


def _line(message_id: int, conversation_id: str) -> tuple[list[Predecessor], list[int]]:
    with bounded(SECONDS_TO_READ):
        before = fetch(
            Predecessor,
            f"SELECT o.id, e.message_id, o.state, o.reason, o.attempt_number,"
            f" CASE WHEN o.state = 'TBDL' THEN o.due_at END AS due_at {_OTHERS} AND o.id < m.id ORDER BY o.id LIMIT"
            f" {SHOWN_PREDECESSORS}",
            [message_id, conversation_id],
        )
        counts = [
            fetch_values(
                f"SELECT count(*) FROM (SELECT {_OTHERS} AND o.id {comparison} m.id LIMIT {COUNTED}) AS counted",  # noqa: S608
                [message_id, conversation_id],
            )[0]
            for comparison in ("<", ">")
        ]
    return before, counts


def _reasons(message: MessageDetail, place: _AddressState) -> list[str]:
    found = []
    if place.status != "ON":
        why = f" because of message {place.status_message_id}" if place.status_message_id else ""
        found.append(f"{message.address} is {place.status}, by {place.status_by or 'system'}{why}")
    if not place.has_destination:
        found.append(f"{message.address} delivers nowhere")
    elif not place.is_destination_enabled:
        found.append(f"the destination of {message.address} is switched off")
    return found


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
    `address`: whose policy explains the past. `notes`: what else has a say. `policy_changed_at`: when a policy of that
    address last changed; earlier waits are explained by today's.
    """

    address: str
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
    is_alive = message.state in (State.TBDL, State.DLNG)
    policies = policy_index()
    policy = policies.resolve(message.address).policy
    place = _place_of(message)
    # What was moved when it was exhausted has been tried where it was before.
    tried_on = message.address if is_alive else message.original_address or message.address
    tried_by = policies.resolve(tried_on).policy
    changed_at = _changed_at(tried_on)
    failures = failures_counted(changes.results, tried_by, is_whole=changes.next is None)
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
        is_hot=bool(changes.results) and hot_loops.is_paced(changes.results[0].note),
    )
    in_force = breakers(
        policy,
        failure_count=message.failure_count,
        rollbacks_in_row=place.rollbacks_in_row,
        conversation_failures=in_conversation,
    )
    return Schedule(
        address=tried_on,
        sentence=_sentence(message, of, how) if is_alive else None,
        due_at=message.due_at,
        failure_count=message.failure_count,
        of=of,
        past=past_steps(tried_by, message.id, tried_on, made, failures, changed_at),
        next=next_steps(policy, start) if is_alive else [],
        held=held(message, place),
        conversation=None
        if in_conversation is None or message.conversation_id is None
        else ConversationCount(message.conversation_id, in_conversation, policy.conversation_failure_limit),
        breakers=[*in_force] if is_alive else [],
        notes=_notes(message) if is_alive else [],
        policy_changed_at=changed_at,
    )


def _notes(message: MessageDetail) -> list[str]:
    """Return what else has a say: suspicion, and rules on failures."""
    found = []
    warning = approval_warning_of(message)
    if warning is not None and message.candidate:
        alone = "delivered alone, in a process of its own" if warning.is_alone else "delivered among others"
        crashes = {None: "no crash stops it", 1: f"one more crash {warning.stops()}"}.get(
            warning.crashes, f"crash {warning.crashes} from now {warning.stops()}"
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
    if last.event not in counted_events(policy) | {Event.ROLLED_BACK}:
        by = f" by {last.actor}" if last.event in _BY_A_PERSON else ""
        return _WHY.get(Event(last.event), last.event).format(by=by)
    is_uncounted = last.event not in counted_events(policy)
    terms = explain(policy, 1 if is_uncounted else message.failure_count, message.id, last.attempt_number)
    prefix = "after a roll-back, as after the first failure: " if is_uncounted else ""
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
    if hot_loops.is_paced(last.note):
        return hot_loops.NOTE
    if waits_ms == policy.blocked_retry_timeout:
        return f"blocked_retry_timeout {policy.blocked_retry_timeout}, so {waits_ms} ms"
    return f"by what was in force then, {waits_ms} ms"


def _changed_at(address: str) -> datetime | None:
    rows = fetch_rows("SELECT match, updated_at FROM policy")
    return max((updated_at for match, updated_at in rows if matches(match, address)), default=None)
