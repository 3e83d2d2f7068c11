"""The statements of decisions: one an action, made when this is imported."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from poisonadmin.core.queries.sql import EMPTY, named_sql, raw
from poisonadmin.decisions.operations.domain.actions import ACTIONS, DELIVERING, OperationAction
from poisonadmin.decisions.queries import refusals
from poisonadmin.groups.commands.annotations import annotation_statement
from poisonadmin.messages.commands.transitions import ChosenRows, StatementParts, move, stay
from poisonadmin.messages.domain.states import Event, Reason, State

# What somebody else changes meanwhile is left out. The planner takes the refusal for rare: without the OFFSET it would
# walk all lanes once a message.
_CHOSEN = partial(
    named_sql,
    """
    SELECT * FROM (
        SELECT message.id, message.xmin AS version, message.address_id, message.state, message.reason, message.group_id,
               message.original_address_id{more}, {refusal} AS refusal
        FROM message {joins}
        WHERE message.id = ANY(%(ids)s) AND message.state = '{start}'{asks}
        OFFSET 0
    ) AS judged WHERE refusal IS NULL
""",
)
_TARGETS = partial(
    named_sql,
    """
SELECT DISTINCT back.id FROM message {join} WHERE message.id = ANY(%(ids)s) AND message.state = '{start}'
""",
)
_READ = partial(
    named_sql,
    """
SELECT message.id, state, attempt_number, back.name, back.id, candidate, {is_handed_back}, message.operation_id,
       {refusal}
FROM message {joins} WHERE message.id = ANY(%(ids)s) ORDER BY message.id
""",
)
_TARGET = raw(""", back.id AS return_id, lane.id AS return_lane_id, envelope.expires_at AS expiry,
               NULLIF(message.failure_count, 0) AS reset_failures,
               CASE WHEN message.id = ANY(%(cleared)s) THEN message.crash_count END AS reset_crashes,
               message.original_address_id AS reset_origin""")
_RESETS = ("reset_failures", "reset_crashes", "reset_origin")
_LANE = raw("""
         JOIN lane ON lane.address_id = back.id AND lane.conversation_id IS NULL
              AND lane.is_isolation = (message.id = ANY(%(alone)s))
              AND lane.operation_id IS NOT DISTINCT FROM %(lanes)s::bigint
""")
_HOPS = partial(
    named_sql,
    """hops AS (
    INSERT INTO hop (message_id, from_address, to_address, reason, by)
    SELECT changed.id, was.name, back.name, '{event}', %(actor)s
    FROM changed JOIN address AS was ON was.id = was_address_id JOIN address AS back ON back.id = changed.address_id
    WHERE changed.address_id <> was_address_id
)""",
)


@dataclass(frozen=True)
class DecisionStatement:
    """`statement` changes those of the messages `ids` that it fits; it returns lane, earliest due time and ids of them.

    It needs ids, until, operation, actor and note, visible and what `refusals.values` says, and where it `delivers`
    candidates, alone, cleared and lanes.
    `targets`: a query for the addresses that messages in the state would be sent to, where it delivers. `read`: what a
    decision has to know of locked messages, and why it leaves them alone.
    `admits`: what keeps the messages from being delivered is taken away first. `is_quick`: most messages need no more
    than the statement.
    """

    event: Event
    statement: str
    targets: str
    read: str
    delivers: bool
    admits: bool
    is_quick: bool


def _read(key: OperationAction) -> str:
    parts = {"joins": refusals.joins(key), "refusal": refusals.REFUSALS[key]}
    return str(_READ(is_handed_back=refusals.IS_HANDED_BACK, **parts))


def _decision(
    key: OperationAction,
    to: State,
    reason: Reason | None = None,
    sets: Mapping[str, str] | None = None,
    *,
    event: Event | None = None,
) -> DecisionStatement:
    """Return the decision of an action. `event`: what history says where it is not the action's own."""
    action = ACTIONS[key]
    assert action.start is not None
    recorded_event = event or action.event
    delivers = key in DELIVERING and to is State.TBDL
    asks = raw(" AND (NOT message.candidate OR message.id = ANY(%(candidates)s))") if delivers else EMPTY
    if key in DELIVERING and key is not OperationAction.REDIRECT:
        asks += raw("AND NOT" if delivers else " AND") + refusals.IS_HANDED_BACK
    start = raw(action.start)
    chosen = _CHOSEN(
        more=_TARGET if delivers else EMPTY,
        joins=(refusals.joins_of_delivery(key) if key in DELIVERING else EMPTY) + (_LANE if delivers else EMPTY),
        start=start,
        refusal=refusals.REFUSALS[key],
        asks=asks,
    )
    statement = move(
        action.start,
        recorded_event,
        to,
        chosen=ChosenRows(str(chosen), is_as_read=True),
        reason=reason,
        sets=sets,
        parts=StatementParts(
            shows=("message.lane_id", "message.due_at", *(_RESETS if delivers else ())),
            beside=str(_HOPS(event=raw(recorded_event))) if delivers else "",
            is_decision=True,
            resets=_RESETS if delivers else (),
            then="SELECT lane_id, min(due_at), array_agg(id) FROM changed GROUP BY lane_id",
        ),
    )
    return DecisionStatement(
        recorded_event,
        statement,
        str(_TARGETS(join=refusals.target_join(key), start=start)),
        _read(key),
        delivers=delivers,
        admits=key in DELIVERING and key is not OperationAction.REDIRECT,
        is_quick=key is not OperationAction.PATCH,
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
    "expires_at": "CASE WHEN expiry > now() THEN expiry END",
}
_APPROVE = _decision(OperationAction.APPROVE, State.TBDL, sets=_DELIVERED_AGAIN)
_PATCH = _decision(OperationAction.PATCH, State.TBDL, sets=_DELIVERED_AGAIN)
_RETURN = _decision(OperationAction.RETURN, State.TBDL, sets=_DELIVERED_AGAIN)
# Once it is off the list, it is approved.
_RELEASE = replace(_APPROVE, read=_read(OperationAction.RELEASE), is_quick=False)
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
_ASSIGN = stay(
    Event.ASSIGNED,
    ACTIONS[OperationAction.ASSIGN].starts,
    chosen="SELECT id, state, reason, attempt_number FROM message WHERE id = ANY(%(ids)s)",
    parts=StatementParts(
        beside=f"annotated AS ({annotation_statement('message_id', 'changed')})",
        then="SELECT NULL::bigint, NULL::timestamptz, array_agg(id) FROM changed HAVING count(*) > 0",
    ),
)
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
    OperationAction.ASSIGN: DecisionStatement(
        Event.ASSIGNED,
        _ASSIGN,
        "",
        _read(OperationAction.ASSIGN),
        delivers=False,
        admits=False,
        is_quick=False,
    ),
}
