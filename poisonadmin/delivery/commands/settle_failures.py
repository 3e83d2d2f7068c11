"""Settles attempts that did not simply deliver: decides on each, and writes all decisions of a batch at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.backends.utils import CursorWrapper

from poisonadmin.addresses.commands import AddressRef, ensure_addresses
from poisonadmin.delivery.commands import breakers
from poisonadmin.delivery.commands.breakers import BreakerCounts
from poisonadmin.delivery.commands.child_messages import ConversationError, addresses_left, enqueue_errors, record_moves
from poisonadmin.delivery.commands.retry_decisions import Answered, FailureRuleDecisions, decide_retry, read_answered
from poisonadmin.groups.commands import failure_groups
from poisonadmin.messages.commands import schedule
from poisonadmin.messages.commands.admission import refuse_excluded, waiting_beside
from poisonadmin.messages.commands.oversize import reject_oversized
from poisonadmin.messages.commands.transitions import ChosenRows, StatementParts, move
from poisonadmin.messages.domain.states import Event, Reason, State, check
from poisonadmin.poison_list.commands import list_messages
from poisonadmin.policies.domain.answer_decision import parked_in_circle
from poisonadmin.policies.domain.hot_loops import paced
from poisonadmin.policies.domain.policy import Blame, Policy
from poisonadmin.policies.domain.retry_decision import RetryDecision
from poisonadmin.policies.queries import policy_index
from poisonadmin.rules.queries import failure_rules


@dataclass(frozen=True)
class _Lane:
    address_id: int
    lane_id: int


# The messages are locked by what read them as answered. Asked for DLNG once more, the planner, whose statistics are
# older than any claim, would begin with the state.
_APPLY = move(
    State.DLNG,
    "chosen.event",
    None,
    chosen=ChosenRows(
        """
    SELECT decided.*, message.address_id, message.state, message.reason, message.group_id,
           message.original_address_id
    FROM unnest(%(ids)s::bigint[], %(states)s::text[], %(reasons)s::text[], %(delays)s::bigint[], %(counts)s::int[],
                %(groups)s::bigint[], %(addresses)s::bigint[], %(lanes)s::bigint[], %(ats)s::timestamptz[],
                %(events)s::text[], %(candidates)s::bool[], %(crashes)s::int[], %(notes)s::text[])
         AS decided (id, to_state, to_reason, delay_ms, to_failure_count, to_group_id, to_address_id, to_lane_id,
                     to_failed_at, event, to_candidate, to_crash_count, note)
         JOIN message USING (id)
""",
        is_locked=True,
    ),
    sets={
        "state": "to_state",
        "reason": "to_reason",
        "due_at": "now() + delay_ms * interval '1 ms'",
        "failure_count": "to_failure_count",
        "group_id": "coalesce(to_group_id, message.group_id)",
        "failed_at": "coalesce(to_failed_at, message.failed_at)",
        "address_id": "to_address_id",
        "expires_at": "CASE WHEN to_state = 'TBDL' THEN message.expires_at END",
        "lane_id": "to_lane_id",
        "candidate": "coalesce(to_candidate, message.candidate)",
        "crash_count": "coalesce(to_crash_count, message.crash_count)",
        "original_address_id": """CASE WHEN to_address_id = message.address_id THEN message.original_address_id
                                       ELSE coalesce(message.original_address_id, message.address_id) END""",
    },
    parts=StatementParts(
        shows=("message.lane_id", "message.due_at", "chosen.note"),
        note="note",
        then="SELECT lane_id, min(due_at) FROM changed WHERE state = 'TBDL' GROUP BY lane_id",
    ),
)

_STOP = """
UPDATE address SET status = 'STOPPED', status_by = 'system', status_message_id = %(message)s, status_at = now(),
                   status_note = %(note)s
WHERE id = %(address)s AND status = 'ON' RETURNING id
"""


def settle_failures(cursor: CursorWrapper, claim_id: int, batches: list[int]) -> int:
    """Apply the decision to what failed, crashed or was answered otherwise in these batches; return how many.

    Call inside a transaction that has settled what was delivered in them: a delivery ends counts that go over several
    messages.
    """
    rules = failure_rules()
    answered = read_answered(cursor, claim_id, batches, for_rules=bool(rules.rules))
    if not answered:
        return 0
    policies = policy_index()
    in_force = {one.address: policies.resolve(one.address).policy for one in answered}
    counts = breakers.load(cursor, answered, in_force)
    ruled = FailureRuleDecisions(rules)
    decided = [(one, _decide(one, in_force[one.address], counts, ruled)) for one in answered]
    left = addresses_left(cursor, [one.id for one, decision in decided if decision.move_to])
    pairs = [(one, parked_in_circle(decision, one, left.get(one.id, ()))) for one, decision in decided]
    targets = ensure_addresses(decision.move_to for _, decision in pairs if decision.move_to)
    group_ids = failure_groups.ensure(cursor, [_seen(one) for one, v in pairs if _is_failure(one, v)])
    places = _places(cursor, pairs, targets, in_force)
    waiting = _apply(cursor, pairs, places, group_ids)
    waiting += record_moves(cursor, [(a.id, a.address, v) for a, v in pairs if v.move_to])
    breakers.save(cursor, counts)
    stopped = _stop(cursor, [(a, v) for a, v in pairs if v.stop_address])
    _list(cursor, [(a, v) for a, v in pairs if v.reason is Reason.LISTED])
    waiting += enqueue_errors(cursor, _errors(pairs, in_force))
    reject_oversized(cursor, [a.id for a, v in pairs if v.move_to and v.state is State.TBDL])
    excluding = [a.id for a, v in pairs if v.reason is Reason.LISTED or _ends_conversation(v)]
    again = [a.id for a, v in pairs if v.state is State.TBDL]
    refuse_excluded(cursor, again + waiting_beside(cursor, excluding))
    # Lanes come last, and all at once: the order of locks is messages, groups, addresses, lanes.
    schedule.schedule(cursor, waiting)
    schedule.reopen(cursor, stopped)
    ruled.count(cursor)
    return len(answered)


def _is_failure(one: Answered, decision: RetryDecision) -> bool:
    """Return whether it belongs to a failure group; a roll-back does where its policy counts it."""
    return one.is_failure or decision.failure_count > one.failure_count


def _ends_conversation(decision: RetryDecision) -> bool:
    return decision.event is Event.CONVERSATION_ENDED or decision.reason is Reason.CONVERSATION_ENDED


def _errors(pairs: Sequence[tuple[Answered, RetryDecision]], in_force: dict[str, Policy]) -> list[ConversationError]:
    """Return the errors of which the other sides of conversations are to learn."""
    return [
        ConversationError(to_address, one.id, one.attempt_number, one.conversation_id, error.code, error.description)
        for one, decision in pairs
        if one.conversation_id is not None
        and (error := decision.conversation_error) is not None
        and (to_address := in_force[one.address].conversation_error_address) is not None
    ]


def _decide(one: Answered, policy: Policy, counts: BreakerCounts, ruled: FailureRuleDecisions) -> RetryDecision:
    conversation_failures = counts.of_conversation(one, policy)
    by_policy = decide_retry(one, policy, conversation_failures=conversation_failures)
    decision = ruled.apply(one, policy, by_policy)
    # A rule may take away both the end and the wait that the policy gives, so the pace is looked at after it.
    decision = paced(
        decision,
        policy,
        one.address,
        is_hot=one.is_hot,
        is_in_conversation=conversation_failures is not None,
        is_by_rule=decision is not by_policy,
    )
    if _ends_conversation(decision):
        counts.ended(one, decision.conversation_error)
    return replace(decision, stop_address=True) if counts.switches_off(one, policy) else decision


def _seen(one: Answered) -> failure_groups.Seen:
    at = one.finished_at
    return failure_groups.Seen(
        one.fingerprint,
        one.title,
        one.error_class,
        one.id,
        one.address_id,
        first_at=at,
        last_at=at,
        consumer_version=one.consumer_version,
    )


def _list(cursor: CursorWrapper, listed: Sequence[tuple[Answered, RetryDecision]]) -> None:
    """Put the bookmarks of these messages on the poison list."""
    for is_fatal in (False, True):
        some = [one for one, decision in listed if (decision.event in (Event.CRASHED, Event.NODE_LOST)) == is_fatal]
        why = {one.id: one.why for one in some}
        list_messages(cursor, sorted(why), why=why, fatal=is_fatal, actor="system")


def _places(
    cursor: CursorWrapper,
    pairs: Sequence[tuple[Answered, RetryDecision]],
    targets: dict[str, AddressRef],
    in_force: dict[str, Policy],
) -> list[_Lane]:
    """Return where each message is from now on: a candidate that is to be tried again waits on an isolation lane, and a
    member of an operation that has lanes of its own on one of these, wherever it was moved."""
    plain = [
        _Lane(targets[decision.move_to].id, targets[decision.move_to].lane_id)
        if decision.move_to
        else _Lane(one.address_id, one.plain_lane_id)
        for one, decision in pairs
    ]
    alone = [
        decision.state is State.TBDL
        and (one.candidate if decision.candidate is None else decision.candidate)
        and in_force[one.address].blame is Blame.EXACT
        for one, decision in pairs
    ]
    kinds = [
        (one.lanes_of if decision.state is State.TBDL else None, is_alone)
        for (one, decision), is_alone in zip(pairs, alone, strict=True)
    ]
    both = list(zip(plain, kinds, strict=True))
    lanes = {
        (operation_id, is_alone): schedule.ensure_lanes(
            cursor,
            [place.address_id for place, kind in both if kind == (operation_id, is_alone)],
            operation_id=operation_id,
            is_isolation=is_alone,
        )
        for operation_id, is_alone in set(kinds) - {(None, False)}
    }
    return [_Lane(place.address_id, lanes[kind][place.address_id]) if kind in lanes else place for place, kind in both]


def _apply(
    cursor: CursorWrapper,
    pairs: Sequence[tuple[Answered, RetryDecision]],
    places: Sequence[_Lane],
    group_ids: dict[str, int],
) -> list[tuple[int, datetime]]:
    """Write the decisions; return (lane, due_at) of what waits again."""
    for _, decision in pairs:
        check(State.DLNG, decision.event, decision.state, decision.reason)
    values: dict[str, Any] = {
        "ids": [one.id for one, _ in pairs],
        "states": [str(decision.state) for _, decision in pairs],
        "reasons": [decision.reason and str(decision.reason) for _, decision in pairs],
        "delays": [decision.delay_ms for _, decision in pairs],
        "counts": [decision.failure_count for _, decision in pairs],
        "groups": [group_ids[one.fingerprint] if _is_failure(one, decision) else None for one, decision in pairs],
        "addresses": [place.address_id for place in places],
        "lanes": [place.lane_id for place in places],
        "ats": [one.finished_at if _is_failure(one, decision) else None for one, decision in pairs],
        "events": [str(decision.event) for _, decision in pairs],
        "candidates": [decision.candidate for _, decision in pairs],
        "crashes": [decision.crash_count for _, decision in pairs],
        "notes": [decision.note or (None if one.is_failure else one.error_message) for one, decision in pairs],
        "actor": "system",
    }
    cursor.execute(_APPLY, values)
    waiting: list[tuple[int, datetime]] = cursor.fetchall()
    return waiting


def _stop(cursor: CursorWrapper, stopping: Sequence[tuple[Answered, RetryDecision]]) -> list[int]:
    """Stop the addresses of messages that reached the limit at which they stop; return those that were ON."""
    stopped = []
    for message, decision in sorted(stopping, key=lambda pair: pair[0].address_id):
        if decision.failure_count == message.failure_count:
            note = "roll-backs and crashes in a row reached queue_off_after_rollbacks"
        else:
            note = f"failure {decision.failure_count} of a message reached listener_max_retries"
        cursor.execute(_STOP, {"message": message.id, "address": message.address_id, "note": note})
        stopped += [row[0] for row in cursor.fetchall()]
    return stopped
