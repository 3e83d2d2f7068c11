"""A message filter as parametrised SQL over `message m`.

What a filter says about addresses and failure groups is looked up first: those tables are small, and with the ids in
hand the planner can choose between walking the newest messages and an index.
"""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.address_ids import address_ids, addresses_holding, visible_ids
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.destinations.queries import addresses_delivering_to
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.counts import CONFIRMING
from poisonadmin.messages.queries.dead_letter_queues import DeadLetterQueue, in_any_queue, queues_of
from poisonadmin.messages.queries.error_search import Branches, Condition, messages_holding
from poisonadmin.messages.queries.filters import MessageFilter, Term
from poisonadmin.messages.queries.merged_groups import with_members

# No index names `state` (store/models/message.py). What waits lies above the floors of the lanes that have something,
# and what is under way is named by the open claims; both are few beside what is delivered.
IN_STATE = {
    "TBDL": """m.state = 'TBDL' AND m.id IN (
        SELECT waiting.id FROM lane CROSS JOIN LATERAL (
            SELECT w.id FROM message w WHERE w.lane_id = lane.id AND w.state = 'TBDL' AND w.due_at >= lane.next_due
        ) AS waiting WHERE lane.next_due IS NOT NULL)""",
    "DLNG": """m.state = 'DLNG' AND m.id IN (
        SELECT unnest(message_ids) FROM claim_shard JOIN claim ON claim.id = claim_id WHERE is_open)""",
    "DLVD": "m.state = 'DLVD'",
    "NDLV": "m.is_undecided",
    "FAIL": "m.is_given_up",
}


@dataclass(frozen=True)
class Axis:
    """`name` is a column of `message` (state, or an id of group or address); a row has one of `values` in it."""

    name: str
    values: Sequence[Any]

    @property
    def conditions(self) -> list[str]:
        """The SQL condition for each value."""
        if self.name == "state":
            return [IN_STATE[value] for value in self.values]
        return [f"m.{self.name} = {int(value)}" for value in self.values]


@dataclass(frozen=True)
class Where:
    """What rows of `message m` must be: one of the values on each of `axes`, and what `sql` says with `parameters`."""

    axes: tuple[Axis | Branches, ...]
    sql: str
    parameters: list[Any]

    @property
    def whole(self) -> str:
        """All of it as one condition."""
        axes = [f"({' OR '.join(axis.conditions) or 'FALSE'})" for axis in self.axes]
        return " AND ".join([*axes, self.sql])


# Up to so many messages a free word may name by id before the search walks the messages instead.
FEW = 1000
# Up to so many combinations of state and address or group are looked up each in its own index, and merged.
FEW_BRANCHES = 48


def compile_filter(message_filter: MessageFilter, principal: Principal) -> Where:
    """Return the condition for what the filter says and the principal may see."""
    addresses, groups, originals = visible_ids(principal), None, None
    states: tuple[str, ...] = ()
    errors: list[Branches] = []
    conditions: list[str] = []
    parameters: list[Any] = []
    for term in message_filter.terms:
        if term.field == "address" and not term.negated:
            found, queues = address_ids(term.values), queues_of(term.values)
            if queues:
                sql, values = _on(found, queues)
                conditions.append(f"({sql})")
                parameters.extend(values)
            addresses = _both(addresses, {*found, *(queue.address_id for queue in queues)})
        elif term.field == "original_address" and not term.negated:
            originals = _both(originals, address_ids(term.values))
        elif term.field == "group" and not term.negated:
            groups = _both(groups, with_members(term.values))
        elif term.field == "error" and not term.negated:
            errors.append(messages_holding(term.values))
        elif term.field == "destination":
            sql = "coalesce(m.original_address_id, m.address_id) = ANY(%s)"
            conditions.append(f"NOT {sql}" if term.negated else sql)
            parameters.append(addresses_delivering_to(term.values, principal))
        elif term.field == "state" and not term.negated and not states:
            states = tuple(dict.fromkeys(str(value) for value in term.values))
        else:
            sql, values = _CONDITIONS[term.field](term)
            # NOT of an unknown would hide rows whose column is NULL: a message without a reason is not `returned`.
            conditions.append(f"({sql}) IS NOT TRUE" if term.negated else f"({sql})")
            parameters.extend(values)
    if not states and any(term.field == "reason" and not term.negated for term in message_filter.terms):
        # Only what has stopped has a reason, and each of the two has an index; but for what was handed back.
        named = {value for term in message_filter.terms if term.field == "reason" for value in term.values}
        states = (State.NDLV, State.FAIL, *([State.DLVD] if Reason.HANDED_BACK in named else []))
    axes: list[Axis | Branches] = [Axis("state", states)] if states else []
    # One of these is enough to be few; the others are compared row by row.
    states_only = len(axes)
    for branches in errors:
        if (
            branches.are_few
            and len(branches.conditions) * max(1, len(states)) <= FEW_BRANCHES
            and len(axes) == states_only
        ):
            axes.append(branches)
        else:
            sql, values = branches.condition
            conditions.append(f"({sql})")
            parameters.extend(values)
    for column, ids in (("group_id", groups), ("original_address_id", originals), ("address_id", addresses)):
        if ids is None:
            continue
        if len(ids) * max(1, len(states)) <= FEW_BRANCHES and len(axes) == states_only:
            axes.append(Axis(column, ids))
        else:
            conditions.append(f"m.{column} = ANY(%s)")
            parameters.append(list(ids))
    return Where(tuple(axes), " AND ".join(conditions) or "TRUE", parameters)


def _both(ids: Collection[int] | None, others: Collection[int]) -> list[int]:
    return sorted(others if ids is None else set(ids) & set(others))


def _column(sql: str, read: Callable[[Sequence[Any]], list[Any]] = list) -> Callable[[Term], Condition]:
    return lambda term: (sql, [read(term.values)])


def _address(term: Term) -> Condition:
    return _on(address_ids(term.values), queues_of(term.values))


def _on(ids: Sequence[int], queues: Sequence[DeadLetterQueue]) -> Condition:
    """Return the condition to be on one of the addresses, or in one of the queues under dead-letter addresses."""
    sql, parameters = in_any_queue(queues)
    return f"m.address_id = ANY(%s) OR {sql}", [list(ids), *parameters]


def _candidate(term: Term) -> Condition:
    return ("m.candidate" if term.values[0] else "NOT m.candidate"), []


def _confirmation(term: Term) -> Condition:
    # A row of an earlier attempt says nothing of this one.
    said = " OR ".join(CONFIRMING[value] for value in term.values)
    sql = f"""m.state = 'DLVD' AND EXISTS (
        SELECT FROM confirmation c WHERE c.message_id = m.id AND c.attempt_number = m.attempt_number AND ({said}))"""
    return sql, []


def _envelope(column: str) -> Callable[[Term], Condition]:
    sql = f"m.id IN (SELECT e.id FROM envelope e WHERE e.{column} = ANY(%s))"  # noqa: S608
    return lambda term: (sql, [list(term.values)])


def _compared(sql: str) -> Callable[[Term], Condition]:
    return lambda term: (sql.format(operator=term.operator), [term.values[0]])


def _header(term: Term) -> Condition:
    # `headers` is compact JSON of strings, in which a quotation mark inside a text is escaped: name and value between
    # bare quotation marks can only be a member. Looking for bytes parses nothing that a producer wrote.
    return (
        "EXISTS (SELECT FROM body b WHERE b.id = m.id AND ("
        + " OR ".join("position(%s::bytea in b.headers) > 0" for _ in term.values)
        + "))",
        [member(term.name, value) for value in term.values],
    )


def member(name: str, value: str) -> bytes:
    """Return the bytes of one member of the JSON object that `body.headers` holds."""
    return json.dumps({name: value}, ensure_ascii=False, separators=(",", ":"))[1:-1].encode()


def _key(term: Term) -> Condition:
    return (
        "m.id IN (SELECT k.message_id FROM business_key k WHERE k.value = ANY(%s) AND k.name = %s)",
        [list(term.values), term.name],
    )


def _text(term: Term) -> Condition:
    """Message and conversation ids, and business keys, that begin with the word; addresses and errors that hold it."""
    word = term.values[0]
    start = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    named = fetch_values(
        "(SELECT id FROM envelope WHERE message_id LIKE %s LIMIT %s)"
        " UNION (SELECT id FROM envelope WHERE conversation_id LIKE %s LIMIT %s)"
        " UNION (SELECT message_id FROM business_key WHERE value LIKE %s LIMIT %s)",
        [start, FEW + 1, start, FEW + 1, start, FEW + 1],
    )
    if len(named) <= FEW:
        sql, parameters = "m.id = ANY(%s)", [named]
    else:
        sql = (
            "EXISTS (SELECT FROM envelope e WHERE e.id = m.id AND (e.message_id LIKE %s OR e.conversation_id LIKE %s))"
            " OR EXISTS (SELECT FROM business_key k WHERE k.message_id = m.id AND k.value LIKE %s)"
        )
        parameters = [start, start, start]
    if found := addresses_holding(word):
        sql += " OR m.address_id = ANY(%s)"
        parameters.append(found)
    error, values = messages_holding([word]).condition
    return f"{sql} OR {error}", [*parameters, *values]


_CONDITIONS: dict[str, Callable[[Term], Condition]] = {
    "state": _column("m.state = ANY(%s)"),
    "address": _address,
    "original_address": _column("m.original_address_id = ANY(%s)", address_ids),
    "group": _column("m.group_id = ANY(%s)", with_members),
    "reason": _column("m.reason = ANY(%s)"),
    "candidate": _candidate,
    "confirmation": _confirmation,
    "error": lambda term: messages_holding(term.values).condition,
    "conversation_id": _envelope("conversation_id"),
    "message_id": _envelope("message_id"),
    "received_at": _compared("EXISTS (SELECT FROM envelope e WHERE e.id = m.id AND e.received_at {operator} %s)"),
    "failed_at": _compared("m.failed_at {operator} %s"),
    "age": _compared("EXISTS (SELECT FROM envelope e WHERE e.id = m.id AND e.received_at > now() - %s)"),
    "failure_age": _compared("m.failed_at > now() - %s"),
    "attempts": _compared("m.attempt_number {operator} %s"),
    "header": _header,
    "key": _key,
    "text": _text,
}
