"""When a message was tried, when it will be, how each wait comes about, and what else decides."""

from dataclasses import dataclass, replace
from datetime import datetime

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.addresses import matches
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.paging import MAX_LIMIT
from poisonadmin.core.queries.rows import QueryTooExpensive, bounded, fetch, fetch_one, fetch_rows, fetch_values
from poisonadmin.core.queries.sql import Sql
from poisonadmin.decisions.queries.approval_warnings import approval_warning_of
from poisonadmin.desk.queries.detail import attempts, get_message, history
from poisonadmin.desk.queries.schedule_reasons import as_the_last, covering, endless, how_it_waits, rules_sentence
from poisonadmin.desk.queries.schedule_steps import (
    RESETS,
    SHOWN_STEPS,
    NextStep,
    PastStep,
    Start,
    attempt_words,
    due_sentence,
    failures_counted,
    next_steps,
    past_steps,
)
from poisonadmin.messages.domain.states import Event, State
from poisonadmin.messages.queries.detail_rows import HistoryRow, MessageDetail
from poisonadmin.policies.domain import hot_loops
from poisonadmin.policies.domain.policy import Policy
from poisonadmin.policies.domain.retry_decision import counted_events
from poisonadmin.policies.domain.retry_limits import Breaker, attempts_in_all, breakers
from poisonadmin.policies.queries import policy_index
from poisonadmin.rules.domain.failure_rules import FailureRule
from poisonadmin.rules.queries import failure_rules

SHOWN_PREDECESSORS = 20
COUNTED = 1_000
SECONDS_TO_READ = 2
_PLACE = """SELECT a.status, a.status_by, a.status_message_id, a.is_ordered, a.rollbacks_in_row,
 d.id IS NOT NULL AS has_destination, d.is_enabled AS is_destination_enabled, c.failures AS conversation_failures
 FROM message m JOIN envelope e ON e.id = m.id JOIN address a ON a.id = m.address_id
 LEFT JOIN destination d ON d.id = a.destination_id
 LEFT JOIN conversation c ON c.address_id = a.id AND c.conversation_id = e.conversation_id WHERE m.id = %s"""
_COUNTED_BEFORE = """SELECT count(*) FROM history
 WHERE message_id = %(id)s AND seq < %(seq)s AND event = ANY(%(counted)s) AND seq > coalesce((
     SELECT max(seq) FROM history WHERE message_id = %(id)s AND seq < %(seq)s AND event = ANY(%(resets)s)), 0)"""


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
    others = Sql(
        """FROM envelope e JOIN message o ON o.id = e.id JOIN message m ON m.id = {id}
        WHERE e.conversation_id = {conversation} AND o.address_id = m.address_id
          AND o.state IN ('TBDL', 'DLNG', 'NDLV')""",
        id=message_id,
        conversation=conversation_id,
    )
    first = Sql(
        """SELECT o.id, e.message_id, o.state, o.reason, o.attempt_number,
          CASE WHEN o.state = 'TBDL' THEN o.due_at END AS due_at
        {others} AND o.id < m.id ORDER BY o.id LIMIT {shown}""",
        others=others,
        shown=SHOWN_PREDECESSORS,
    )
    sides = (
        Sql("SELECT {others} AND o.id < m.id", others=others),
        Sql("SELECT {others} AND o.id > m.id", others=others),
    )
    with bounded(SECONDS_TO_READ):
        before = fetch(Predecessor, first)
        counts = [
            fetch_values(Sql("SELECT count(*) FROM ({side} LIMIT {most}) AS counted", side=side, most=COUNTED))[0]
            for side in sides
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
    `past` are the latest attempts; `is_past_cut_off`: there are earlier ones. `next` assumes, where rules on failures
    cover the address, that each attempt fails as the last one did. `address`: whose policy explains the past. `notes`:
    what else has a say. `policy_changed_at`: when a policy of that address last changed; earlier waits are explained by
    today's.
    """

    address: str
    sentence: str | None
    due_at: datetime | None
    failure_count: int
    of: int | None
    past: list[PastStep]
    is_past_cut_off: bool
    next: list[NextStep]
    held: HoldReasons
    conversation: ConversationCount | None
    breakers: list[Breaker]
    notes: list[str]
    policy_changed_at: datetime | None


def schedule(message_id: int, *, principal: Principal) -> Schedule:
    """Return the explained schedule; raise NotFound."""
    message = get_message(message_id, principal=principal)
    if message.archived:
        raise NotFound(f"Message {message_id} is archived; it has no schedule.")
    shown = attempts(message_id, principal=principal, limit=SHOWN_STEPS)
    made = shown.results
    changes = history(message_id, principal=principal, limit=MAX_LIMIT).results
    rules = covering(failure_rules().rules, message.address)
    is_alive = message.state in (State.TBDL, State.DLNG)
    policies = policy_index()
    policy = policies.resolve(message.address).policy
    place = _place_of(message)
    # What was moved when it was exhausted has been tried where it was before.
    tried_on = message.address if is_alive else message.original_address or message.address
    tried_by = policies.resolve(tried_on).policy
    changed_at = _changed_at(tried_on)
    failures = failures_counted(changes, tried_by, before=_counted_before(message_id, changes, tried_by))
    in_conversation = None
    if message.conversation_id is not None and policy.conversation_failure_limit:
        in_conversation = place.conversation_failures or 0
    last = next((row for row in changes if row.event not in (Event.CLAIMED, Event.ASSIGNED)), None)
    how = how_it_waits(message, policy, last, made) if is_alive and last else None
    if message.predecessor_id is not None:
        # It is not due before somebody decides (R17).
        message = replace(message, due_at=None)
        how = f"held behind message {message.predecessor_id}, which waits for a decision"
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
        is_hot=last is not None and hot_loops.is_paced(last.note),
        override=as_the_last(rules, policy, message, made),
    )
    in_force = breakers(
        policy,
        failure_count=message.failure_count,
        rollbacks_in_row=place.rollbacks_in_row,
        conversation_failures=in_conversation,
    )
    return Schedule(
        address=tried_on,
        sentence=_sentence(message, of, how, endless(policy, message, last)) if is_alive else None,
        due_at=message.due_at,
        failure_count=message.failure_count,
        of=of,
        past=past_steps(tried_by, message.id, tried_on, made, failures, changes, changed_at),
        is_past_cut_off=shown.next is not None,
        next=next_steps(policy, start) if is_alive else [],
        held=held(message, place),
        conversation=None
        if in_conversation is None or message.conversation_id is None
        else ConversationCount(message.conversation_id, in_conversation, policy.conversation_failure_limit),
        breakers=[*in_force] if is_alive else [],
        notes=_notes(message, rules) if is_alive else [],
        policy_changed_at=changed_at,
    )


def _notes(message: MessageDetail, rules: list[FailureRule]) -> list[str]:
    """Return what else has a say: suspicion, and rules on failures."""
    found = []
    warning = approval_warning_of(message)
    if warning is not None and message.candidate:
        alone = "delivered alone, in a process of its own" if warning.is_alone else "delivered among others"
        crashes = {None: "no crash stops it", 1: f"one more crash {warning.stops()}"}.get(
            warning.crashes, f"crash {warning.crashes} from now {warning.stops()}"
        )
        found.append(f"a candidate: {alone}; {crashes}")
    return found + rules_sentence(rules, message.address)


def _counted_before(message_id: int, changes: list[HistoryRow], policy: Policy) -> int | None:
    """Return the failures counted before these changes, None where they are too many to be counted."""
    if not changes:
        return 0
    counted = [str(event) for event in counted_events(policy)]
    values = {"id": message_id, "seq": changes[-1].seq, "counted": counted, "resets": [str(event) for event in RESETS]}
    try:
        with bounded(SECONDS_TO_READ):
            found: int = fetch_values(_COUNTED_BEFORE, values)[0]
    except QueryTooExpensive:
        return None
    return found


def _sentence(message: MessageDetail, of: int | None, how: str | None, uncounted: str | None) -> str:
    if message.state == State.DLNG:
        return f"{attempt_words(message.failure_count + 1, of, message.failure_count, uncounted)} is under way"
    return due_sentence(message.failure_count + 1, of, message.failure_count, message.due_at, how, uncounted)


def _changed_at(address: str) -> datetime | None:
    rows = fetch_rows("SELECT match, updated_at FROM policy")
    return max((updated_at for match, updated_at in rows if matches(match, address)), default=None)
