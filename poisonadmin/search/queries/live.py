"""A message filter as parametrised SQL over `message m`.

What a filter says about addresses and failure groups is looked up first: those tables are small, and with the ids in
hand the planner can choose between walking the newest messages and an index.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.address_ids import address_ids, addresses_holding, visible_ids
from poisonadmin.core.queries.destination_ids import addresses_delivering_to
from poisonadmin.core.queries.rows import fetch_values, one_of
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.counts import CONFIRMING
from poisonadmin.messages.queries.dead_letter_queues import DeadLetterQueue, in_any_queue, queues_of
from poisonadmin.messages.queries.merged_groups import with_members
from poisonadmin.search.domain.filters import MessageFilter, Term
from poisonadmin.search.domain.payload_words import require_plain
from poisonadmin.search.queries.axes import COLUMNS
from poisonadmin.search.queries.error_search import Branches, Condition, messages_holding
from poisonadmin.search.queries.group_words import as_groups
from poisonadmin.search.queries.owners import NOBODY

# No index names `state` (store/models/message.py). What waits lies above the floors of the lanes that have something,
# and what is under way is named by the open claims; both are few beside what is delivered. The CASE keeps the planner,
# whose statistics are older than any claim, from beginning with the state.
IN_STATE = {
    "TBDL": """m.state = 'TBDL' AND m.id IN (
        SELECT waiting.id FROM lane CROSS JOIN LATERAL (
            SELECT w.id FROM message w WHERE w.lane_id = lane.id AND w.state = 'TBDL' AND w.due_at >= lane.next_due
        ) AS waiting WHERE lane.next_due IS NOT NULL)""",
    "DLNG": """CASE WHEN m.state = 'DLNG' THEN TRUE END AND m.id = ANY(ARRAY(
        SELECT unnest(message_ids) FROM claim_shard JOIN claim ON claim.id = claim_id WHERE is_open))""",
    "DLVD": "m.state = 'DLVD' AND NOT m.is_undecided AND NOT m.is_given_up",
    "NDLV": "m.is_undecided",
    "FAIL": "m.is_given_up",
}


_CODES = ("state", "reason")
# Terms about times; the last two count back from now.
TIMES = ("received_at", "failed_at", "age", "failure_age")


@dataclass(frozen=True)
class Where:
    """Conditions on rows of `message m`: in one of `states`, with one of `reasons`, one of `ids` in each column, what
    `errors` says, where these are given; and what `sql` says with `parameters`.

    `other_reasons` are those that `sql` says they have not, `times` what it says of when they came or failed.
    `list_plans.py` chooses what to begin with.
    """

    states: tuple[str, ...] | None
    reasons: tuple[str, ...] | None
    other_reasons: Collection[str]
    ids: Mapping[str, Sequence[int]]
    errors: Branches | None
    times: Sequence[Term]
    sql: str
    parameters: list[Any]

    def parts(self) -> dict[str, str]:
        """Return the conditions that need no parameters, by what they are about."""
        found = {}
        if self.states is not None:
            found["state"] = f"({' OR '.join(IN_STATE[one] for one in self.states) or 'FALSE'})"
        if self.reasons is not None:
            found["reason"] = one_of("m.reason", self.reasons)
        for column, ids in self.ids.items():
            found[column] = one_of(f"m.{column}", ids)
        if self.errors is not None:
            found["error"] = f"({' OR '.join(self.errors.conditions) or 'FALSE'})"
        return found

    @property
    def whole(self) -> str:
        """All of it as one condition."""
        return " AND ".join([*self.parts().values(), self.sql])


# Up to so many messages a free word may name by id before the search walks the messages instead.
FEW = 20_000


def compile_filter(message_filter: MessageFilter, principal: Principal) -> Where:
    """Return the condition for what the filter says and the principal may see.

    Raise InvalidFilter `needs_search` for terms about payloads.
    """
    require_plain([term.field for term in message_filter.terms])
    ids: dict[str, list[int]] = {}
    if (visible := visible_ids(principal)) is not None:
        ids["address_id"] = visible
    codes: dict[str, tuple[str, ...]] = {}
    errors: list[Branches] = []
    conditions: list[str] = []
    parameters: list[Any] = []

    def ask(sql: str, values: Sequence[Any]) -> None:
        conditions.append(f"({sql})")
        parameters.extend(values)

    other_reasons: set[str] = set()
    for term in (as_groups(one, principal) for one in message_filter.terms):
        if term.field == "state" and term.negated:
            codes["state"] = _common(codes.get("state"), [one for one in State if one not in term.values])
        elif term.field in COLUMNS and not term.negated:
            if term.field in _CODES:
                codes[term.field] = _common(codes.get(term.field), [str(value) for value in term.values])
                continue
            found = with_members(term.values) if term.field == "group" else address_ids(term.values)
            if term.field == "address" and (queues := queues_of(term.values)):
                ask(*_on(found, queues))
                found += [queue.address_id for queue in queues]
            column = COLUMNS[term.field]
            ids[column] = sorted(set(found) & set(ids.get(column, found)))
        elif term.field in ("error", "text"):
            condition = messages_holding(term.values, principal) if term.field == "error" else _word(term, principal)
            if isinstance(condition, Branches) and not term.negated:
                errors.append(condition)
            else:
                sql, values = condition.condition if isinstance(condition, Branches) else condition
                ask(f"({sql}) IS NOT TRUE" if term.negated else sql, values)
        elif term.field == "destination":
            sql = "coalesce(m.original_address_id, m.address_id) = ANY(%s)"
            ask(f"NOT {sql}" if term.negated else sql, [addresses_delivering_to(term.values, principal)])
        else:
            other_reasons |= {str(value) for value in term.values if term.field == "reason"}
            sql, values = _CONDITIONS[term.field](term)
            # NOT of an unknown would hide rows whose column is NULL: a message without a reason is not `returned`.
            ask(f"({sql}) IS NOT TRUE" if term.negated else sql, values)
    few = next((one for one in errors if one.are_few), None)
    for one in errors:
        if one is not few:
            ask(*one.condition)
    states = codes.get("state")
    if states is None and (reasons := codes.get("reason")) is not None:
        # Only what has stopped has a reason, but for what was handed back.
        states = (State.NDLV, State.FAIL, *([State.DLVD] if Reason.HANDED_BACK in reasons else []))
    sql = " AND ".join(conditions) or "TRUE"
    times = [term for term in message_filter.terms if term.field in TIMES and not term.negated]
    return Where(states, codes.get("reason"), other_reasons, ids, few, times, sql, parameters)


def _common(known: Sequence[str] | None, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(value) for value in dict.fromkeys(values) if known is None or value in known)


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
    kinds = " OR ".join(CONFIRMING[value] for value in term.values)
    sql = f"""m.state = 'DLVD' AND EXISTS (
        SELECT FROM confirmation c WHERE c.message_id = m.id AND c.attempt_number = m.attempt_number AND ({kinds}))"""
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


def _owner(term: Term) -> Condition:
    accounts = fetch_values("SELECT id FROM auth_user WHERE username = ANY(%s)", [list(term.values)])
    owned = "EXISTS (SELECT FROM message_owner o WHERE o.message_id = m.id AND o.owner_id = ANY(%s))"
    if NOBODY in term.values:
        owned += " OR NOT EXISTS (SELECT FROM message_owner o WHERE o.message_id = m.id)"
    return owned, [accounts]


def _tag(term: Term) -> Condition:
    return "EXISTS (SELECT FROM message_tag t WHERE t.message_id = m.id AND t.tags && %s::varchar[])", [
        list(term.values)
    ]


def _consumer_version(term: Term) -> Condition:
    sql = """m.id IN (
        SELECT t.message_id FROM attempt t
        WHERE t.consumer_version = ANY(%s) AND t.outcome <> 'delivered' AND NOT EXISTS (
            SELECT FROM attempt later WHERE later.message_id = t.message_id
                AND later.attempt_number > t.attempt_number AND later.outcome <> 'delivered'))"""
    return sql, [list(term.values)]


def _word(term: Term, principal: Principal) -> Branches | Condition:
    """Message and conversation ids, and business keys, that begin with the word; addresses and errors that hold it.

    Few messages are named, and groups.
    """
    word = str(term.values[0])
    start = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    named = fetch_values(
        "(SELECT id FROM envelope WHERE message_id LIKE %s LIMIT %s)"
        " UNION (SELECT id FROM envelope WHERE conversation_id LIKE %s LIMIT %s)"
        " UNION (SELECT message_id FROM business_key WHERE value LIKE %s LIMIT %s)",
        [start, FEW + 1, start, FEW + 1, start, FEW + 1],
    )
    error, addresses = messages_holding([word], principal), addresses_holding(word)
    if len(named) <= FEW and error.ids is not None and not addresses:
        return replace(error, ids=sorted({*named, *error.ids}))
    sql: str
    parameters: list[Any]
    if len(named) <= FEW:
        sql, parameters = "m.id = ANY(%s)", [named]
    else:
        sql = (
            "EXISTS (SELECT FROM envelope e WHERE e.id = m.id AND (e.message_id LIKE %s OR e.conversation_id LIKE %s))"
            " OR EXISTS (SELECT FROM business_key k WHERE k.message_id = m.id AND k.value LIKE %s)"
        )
        parameters = [start, start, start]
    if addresses:
        sql += " OR m.address_id = ANY(%s)"
        parameters.append(addresses)
    condition, values = error.condition
    return f"{sql} OR {condition}", [*parameters, *values]


# No EXISTS: the planner would make a join of it, and read all envelopes for the first fifty messages.
_RECEIVED = "(SELECT e.received_at FROM envelope e WHERE e.id = m.id)"
_CONDITIONS: dict[str, Callable[[Term], Condition]] = {
    "address": _address,
    "original_address": _column("m.original_address_id = ANY(%s)", address_ids),
    "group": _column("m.group_id = ANY(%s)", with_members),
    "reason": _column("m.reason = ANY(%s)"),
    "candidate": _candidate,
    "confirmation": _confirmation,
    "conversation_id": _envelope("conversation_id"),
    "message_id": _envelope("message_id"),
    "received_at": _compared(f"{_RECEIVED} {{operator}} %s"),
    "failed_at": _compared("m.failed_at {operator} %s"),
    "age": _compared(f"{_RECEIVED} > now() - %s"),
    "failure_age": _compared("m.failed_at > now() - %s"),
    "attempts": _compared("m.attempt_number {operator} %s"),
    "consumer_version": _consumer_version,
    "header": _header,
    "owner": _owner,
    "tag": _tag,
    "key": _key,
}
