"""Decisions of people on single messages or a handful: approve, mark FAIL, quarantine, restore, deliver now, postpone,
return, redirect, assign.

Of a set, what needs no more is changed in one statement first. The rest is locked: what is out of scope, would go out
of scope or is in another state is refused, and what is left is changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, NotRequired, TypedDict, Unpack

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands import audit
from poisonadmin.core.commands.locks import TransactionRetry, retried
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.scope import visible_ids
from poisonadmin.decisions.commands import payload_versions
from poisonadmin.decisions.commands.decision_statements import DECISIONS, HAND_BACK, DecisionStatement
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.queries import refusals
from poisonadmin.decisions.queries.payload_changes import NotChanged, PayloadChange
from poisonadmin.messages.commands import schedule
from poisonadmin.messages.commands.admission import admit_again, kept_out
from poisonadmin.messages.domain.states import Event
from poisonadmin.policies.domain.policy import Blame
from poisonadmin.policies.queries import policy_index

STALE = "precondition_failed"
# Fewer are decided on in a transaction that cannot be run again: they are locked in the order of their ids, so that two
# such decisions never wait for each other.
LEAST_QUICK = 101


@dataclass(frozen=True)
class OperationRef:
    """The operation that decides. `has_lanes`: what it puts up for delivery waits on lanes of its own.

    `is_audited`: its decision is in the audit log as a whole, and not once a message.
    """

    id: int
    has_lanes: bool = False
    is_audited: bool = False


class Asked(TypedDict):
    """The request of a decision. `params`: what the action needs to know (decisions/operations/domain/params.py).

    `expected_*`: what the caller has seen; None or left out: anything.
    """

    principal: Principal
    reason: str
    params: NotRequired[Mapping[str, Any]]
    operation: NotRequired[OperationRef | None]
    expected_state: NotRequired[str | None]
    expected_attempt: NotRequired[int | None]


@dataclass(frozen=True)
class Decided:
    """`refused` maps each message that was left alone to why: a code, or the state it is in.

    `operations`: the latest operation of those that were refused, where they had one; `returns`: their return address;
    `details`: more of why a change does not apply.
    `handed_back`: those of `changed` that their consumers have back. `awaits`: the operation that would change the rest
    once another person has signed it off; None where nothing waits. `operation`: the one that decided.
    """

    event: Event
    changed: tuple[int, ...]
    refused: dict[int, str]
    operations: dict[int, int]
    returns: dict[int, str]
    handed_back: tuple[int, ...] = ()
    details: Mapping[int, str | None] = field(default_factory=dict)
    awaits: int | None = None
    operation: int | None = None


class _Locked(NamedTuple):
    """A message that nobody else changes until the transaction ends; `return_address` is where it would go.

    `refusal`: why the decision leaves it alone (decisions/queries/refusals.py). `operation_id`: the latest operation
    that had it delivered.
    """

    id: int
    state: str
    attempt_number: int
    return_address: str
    return_id: int | None
    candidate: bool
    is_handed_back: bool
    operation_id: int | None
    refusal: str | None


class _ChangedLane(NamedTuple):
    """A lane with messages that were changed; `due_at`: when the first of them is due, None where none is."""

    id: int
    due_at: datetime | None
    ids: list[int]


# Another statement reads them: what the lock waited for may have moved the message, and a join in the locking statement
# would then lose the row.
_LOCK = "SELECT FROM message WHERE id = ANY(%(ids)s) ORDER BY id FOR UPDATE"


def decide(
    action: OperationAction, ids: Sequence[int], *, until: datetime | None = None, **asked: Unpack[Asked]
) -> Decided:
    """Carry an action out on the messages that it fits. `until`: for POSTPONE; a time in the past means now.

    An approval makes them due now at the address each was moved from, where it was. Their failures count from 0 again,
    their bookmarks are released and their conversations reopened (R6, R7). One that is `listed` on an address
    that delivers nowhere is handed back to its consumers: DLVD `handed_back`. An `expires_at` that has passed is taken
    away: a person wants the message delivered all the same. RETURN is an approval of what was moved (WAS-3).
    RELEASE is an approval of what is on the poison list. PATCH changes what they hold first, for an operation.
    REDIRECT sends a message to the address in `params` instead, which has to take it as it is.
    ASSIGN gives it the owner, tags and note in `params`, and leaves it where it is.
    A restored message has the reason that it last had in NDLV, or its own where it never was there.
    Errors: `NotAllowed`, `OutOfScope` (of the address in `params`). Shape: refused with `not_found`, `no_destination`,
    `oversized`, `payload_removed`, `not_moved`, `not_listed`, `listed`, `conversation_ended`, `no_owner`,
    `too_many_tags`, `unchanged`, `precondition_failed`, a code of queries/payload_changes.py, or the state.
    """
    asked["principal"].require(Permission.DECIDE)
    return retried(lambda: _decide_once(action, ids, asked, until))


def _decide_once(action: OperationAction, ids: Sequence[int], asked: Asked, until: datetime | None) -> Decided:
    principal, reason = asked["principal"], asked["reason"]
    decision = DECISIONS[action]
    with transaction.atomic(), connection.cursor() as cursor:
        known = {"until": until, "visible": visible_ids(principal)}
        known |= refusals.values(action, asked.get("params", {}), principal)
        known["overtaken"] = refusals.overtaken(action, refusals.OF_IDS, known | {"ids": list(ids)})
        lanes = _change_plain(cursor, decision, ids, known, asked)
        done = {message_id for lane in lanes for message_id in lane.ids}
        rest = [message_id for message_id in ids if message_id not in done]
        locked = _lock(cursor, decision, rest, known)
        refused = {message_id: refusals.NOT_FOUND for message_id in rest if message_id not in locked}
        for message_id, message in locked.items():
            if why := _refusal(message, asked):
                refused[message_id] = why
        chosen = [message_id for message_id in locked if message_id not in refused]
        details = _change(cursor, action, chosen, asked)
        refused |= {message_id: error.code for message_id, error in details.items()}
        chosen = [message_id for message_id in chosen if message_id not in details]
        handed_back: list[int] = []
        if decision.admits and chosen:
            operation = asked.get("operation")
            admit_again(
                cursor, chosen, actor=principal.name, note=reason, operation_id=operation.id if operation else None
            )
            handed_back = [message_id for message_id in chosen if locked[message_id].is_handed_back]
        back = frozenset(handed_back)
        moved = [message_id for message_id in chosen if message_id not in back]
        for one, some in ((HAND_BACK, handed_back), (decision, moved)):
            if some:
                lanes += _carry_out(cursor, one, [locked[message_id] for message_id in some], known, asked)
        schedule.schedule(cursor, [(lane.id, lane.due_at) for lane in lanes if lane.due_at is not None])
    left = {message_id: message for message_id, message in locked.items() if message_id in refused}
    return Decided(
        decision.event,
        (*sorted(done), *chosen),
        refused,
        {message_id: message.operation_id for message_id, message in left.items() if message.operation_id},
        {message_id: message.return_address for message_id, message in left.items()},
        tuple(handed_back),
        {message_id: error.detail for message_id, error in details.items()},
    )


def _change_plain(
    cursor: CursorWrapper, decision: DecisionStatement, ids: Sequence[int], known: Mapping[str, Any], asked: Asked
) -> list[_ChangedLane]:
    """Change those of a set that need no more than the statement; return the lanes that they are on.

    Nobody has locked them: whoever changes one of them meanwhile keeps it, and it is left for the second look.
    """
    operation = asked.get("operation")
    if operation is None or not decision.is_quick or len(ids) < LEAST_QUICK:
        return []
    if decision.admits:
        out = kept_out(cursor, ids)
        ids = [message_id for message_id in ids if message_id not in out]
    if decision.delivers and operation.has_lanes:
        cursor.execute(decision.targets, {"ids": list(ids), **known})
        targets = [row[0] for row in cursor.fetchall()]
        schedule.ensure_lanes(cursor, targets, operation_id=operation.id, is_isolation=False)
    return _execute(cursor, decision, ids, known, asked, {})


def _change(cursor: CursorWrapper, action: OperationAction, ids: Sequence[int], asked: Asked) -> dict[int, NotChanged]:
    """Change what the messages hold, where the action does; return those that the change does not apply to."""
    if action is not OperationAction.PATCH:
        return {}
    operation = asked.get("operation")
    assert operation is not None
    wanted = PayloadChange(asked.get("params", {}))
    return payload_versions.change(cursor, ids, wanted, actor=asked["principal"].name, operation_id=operation.id)


def _carry_out(
    cursor: CursorWrapper,
    decision: DecisionStatement,
    messages: Sequence[_Locked],
    known: Mapping[str, Any],
    asked: Asked,
) -> list[_ChangedLane]:
    """Change locked messages that nothing refuses; return the lanes that they are on."""
    principal, reason, operation = asked["principal"], asked["reason"], asked.get("operation")
    suspicions: dict[str, list[int]] = {}
    if decision.delivers:
        # Whoever redirects has made sure that there is such an address.
        targets = {message.id: message.return_id for message in messages if message.return_id is not None}
        assert len(targets) == len(messages)
        suspicions = _suspicions(messages)
        own = operation.id if operation is not None and operation.has_lanes else None
        alone = [targets.pop(message_id) for message_id in suspicions["alone"]]
        schedule.ensure_lanes(cursor, alone, operation_id=own, is_isolation=True)
        if own is not None:
            schedule.ensure_lanes(cursor, targets.values(), operation_id=own, is_isolation=False)
    lanes = _execute(cursor, decision, [message.id for message in messages], known, asked, suspicions)
    if sum(len(lane.ids) for lane in lanes) < len(messages):
        raise TransactionRetry("What an address takes has changed since it was read.")
    for message in messages if operation is None or not operation.is_audited else ():
        audit.record(principal.name, f"message.{decision.event}", "message", str(message.id), note=reason)
    return lanes


def _execute(
    cursor: CursorWrapper,
    decision: DecisionStatement,
    ids: Sequence[int],
    known: Mapping[str, Any],
    asked: Asked,
    suspicions: Mapping[str, Sequence[int]],
) -> list[_ChangedLane]:
    operation = asked.get("operation")
    values = {
        **known,
        **{name: list(suspicions.get(name, ())) for name in ("candidates", "alone", "cleared")},
        "ids": list(ids),
        "operation": operation.id if operation else None,
        "lanes": operation.id if operation and operation.has_lanes else None,
        "actor": asked["principal"].name,
        "note": asked["reason"],
    }
    cursor.execute(decision.statement, values)
    return [_ChangedLane(*row) for row in cursor.fetchall()]


def _lock(
    cursor: CursorWrapper, decision: DecisionStatement, ids: Sequence[int], values: Mapping[str, Any]
) -> dict[int, _Locked]:
    """Lock the messages in the order of their ids and return those that exist."""
    if not ids:
        return {}
    cursor.execute(_LOCK, {"ids": list(ids)})
    cursor.execute(decision.read, {"ids": list(ids), **values})
    return {row[0]: _Locked(*row) for row in cursor.fetchall()}


def _suspicions(approved: Sequence[_Locked]) -> dict[str, list[int]]:
    """Return the candidates, and which of them are tried alone again or are cleared, as their policies say (R3).

    Under `all_in_flight` a candidate runs beside the others, as in SAP.
    """
    policies = policy_index()
    candidates = [(one, policies.resolve(one.return_address).policy) for one in approved if one.candidate]
    cleared = [one.id for one, policy in candidates if policy.approve_clears_candidate]
    alone = [one.id for one, policy in candidates if one.id not in cleared and policy.blame is Blame.EXACT]
    return {"candidates": [one.id for one, _ in candidates], "alone": alone, "cleared": cleared}


def _refusal(message: _Locked, asked: Asked) -> str | None:
    if message.refusal == refusals.NOT_FOUND:
        return message.refusal
    state, attempt = asked.get("expected_state"), asked.get("expected_attempt")
    if state not in (None, message.state) or attempt not in (None, message.attempt_number):
        return STALE
    return message.refusal
