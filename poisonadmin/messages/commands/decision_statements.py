"""What each decision does to the messages that are chosen: one statement an action, made when this is imported."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from poisonadmin.messages.commands.transitions import move
from poisonadmin.messages.domain.states import Event, Reason, State
from poisonadmin.messages.queries import refusals
from poisonadmin.operations.domain.actions import ACTIONS, DELIVERING, OperationAction

_CHOSEN = """
    SELECT message.id, message.address_id, message.state, message.reason, message.group_id,
           message.original_address_id, back.id AS return_id, lane.id AS return_lane_id, address.name AS from_name,
           back.name AS return_name
    FROM message JOIN address ON address.id = message.address_id
         {back}
         JOIN lane ON lane.address_id = back.id AND lane.conversation_id IS NULL
              AND lane.is_isolation = (message.id = ANY(%(alone)s))
              AND lane.operation_id IS NOT DISTINCT FROM
                  CASE WHEN NOT (back.is_ordered OR message.id = ANY(%(alone)s)) THEN %(lanes)s::bigint END
    WHERE message.id = ANY(%(ids)s)
"""
_TARGET = "JOIN address AS back ON back.name = %(target)s"
_HOPS = """hops AS (
    INSERT INTO hop (message_id, from_address, to_address, reason, by)
    SELECT id, from_name, return_name, '{event}', %(actor)s FROM changed WHERE address_id <> from_id
)"""


@dataclass(frozen=True)
class DecisionStatement:
    """`statement` needs ids, alone, cleared, until, operation, lanes, actor and note, and what `refusals.values` says.

    `admits`: what keeps the messages from being delivered is taken away first.
    """

    event: Event
    statement: str
    refusal: str
    joins: str
    delivers: bool
    admits: bool


def _decision(
    key: OperationAction,
    to: State,
    reason: Reason | None = None,
    sets: Mapping[str, str] | None = None,
    *,
    event: Event | None = None,
    back: str = refusals.RETURN_ADDRESS,
) -> DecisionStatement:
    """Return the decision of an action. `event`: what history says where it is not the action's own.

    `back`: the address that it sends messages to, as a join.
    """
    action = ACTIONS[key]
    said = event or action.event
    statement = move(
        action.start,
        said,
        to,
        chosen=_CHOSEN.format(back=back),
        is_locked=True,
        reason=reason,
        sets=sets,
        shows=("message.lane_id", "message.due_at", "chosen.address_id AS from_id", "from_name", "return_name"),
        beside=_HOPS.format(event=said),
        is_decision=True,
        then="SELECT lane_id, min(due_at) FROM changed WHERE state = 'TBDL' GROUP BY lane_id",
    )
    return DecisionStatement(
        said,
        statement,
        refusals.REFUSALS[key],
        refusals.joins(key),
        delivers=key in DELIVERING and to is State.TBDL,
        admits=key in DELIVERING and key is not OperationAction.REDIRECT,
    )


_DELIVERED_AGAIN = {
    "reason": "NULL",
    "due_at": "now()",
    "failure_count": "0",
    "address_id": "return_id",
    "lane_id": "return_lane_id",
    "original_address_id": "NULL",
    "operation_id": "%(operation)s::bigint",
    "candidate": "message.candidate AND NOT message.id = ANY(%(cleared)s)",
    "crash_count": "CASE WHEN message.id = ANY(%(cleared)s) THEN 0 ELSE message.crash_count END",
    "expires_at": """(SELECT envelope.expires_at FROM envelope
                      WHERE envelope.id = message.id AND envelope.expires_at > now())""",
}
_APPROVE = _decision(OperationAction.APPROVE, State.TBDL, sets=_DELIVERED_AGAIN)
_PATCH = _decision(OperationAction.PATCH, State.TBDL, sets=_DELIVERED_AGAIN)
_RETURN = replace(_APPROVE, refusal=refusals.REFUSALS[OperationAction.RETURN])
_RELEASE = replace(_APPROVE, refusal=refusals.REFUSALS[OperationAction.RELEASE])
HAND_BACK = _decision(
    OperationAction.APPROVE,
    State.DLVD,
    Reason.HANDED_BACK,
    event=Event.HANDED_BACK,
    sets={"failure_count": "0", "candidate": "FALSE", "crash_count": "0"},
)
# Where it was first stays known, so that it can be returned. Home again, it is as if it had never been moved.
_REDIRECT = _decision(
    OperationAction.REDIRECT,
    State.TBDL,
    sets=_DELIVERED_AGAIN
    | {"original_address_id": "NULLIF(coalesce(message.original_address_id, message.address_id), return_id)"},
    back=_TARGET,
)
_MARK_FAIL = _decision(OperationAction.FAIL, State.FAIL, Reason.FAILED_BY_ADMIN)
_QUARANTINE = _decision(OperationAction.QUARANTINE, State.NDLV, Reason.QUARANTINED)
_RESTORE = _decision(
    OperationAction.RESTORE,
    State.NDLV,
    sets={
        "reason": """coalesce((SELECT history.reason FROM history
            WHERE history.message_id = message.id AND to_state = 'NDLV' ORDER BY seq DESC LIMIT 1), message.reason)"""
    },
)
_DELIVER_NOW = _decision(OperationAction.DELIVER_NOW, State.TBDL, sets={"due_at": "now()"})
_POSTPONE = _decision(OperationAction.POSTPONE, State.TBDL, sets={"due_at": "GREATEST(%(until)s, now())"})
DECISIONS: dict[OperationAction, DecisionStatement] = {
    OperationAction.APPROVE: _APPROVE,
    OperationAction.RETURN: _RETURN,
    OperationAction.REDIRECT: _REDIRECT,
    OperationAction.PATCH: _PATCH,
    OperationAction.RELEASE: _RELEASE,
    OperationAction.FAIL: _MARK_FAIL,
    OperationAction.RESTORE: _RESTORE,
    OperationAction.QUARANTINE: _QUARANTINE,
    OperationAction.DELIVER_NOW: _DELIVER_NOW,
    OperationAction.POSTPONE: _POSTPONE,
}
