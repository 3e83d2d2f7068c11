"""A message filter as SQL over `message m`.

What a filter says about addresses and failure groups is looked up first: those tables are small, and with the ids in
hand the planner can choose between walking the newest messages and an index.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.masking import clear_of_masks
from poisonadmin.core.queries.rows import one_of
from poisonadmin.core.queries.scope import visible_ids
from poisonadmin.core.queries.sql import Sql, all_of, any_of
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.dead_letter_queues import in_any_queue, queues_of
from poisonadmin.messages.queries.due import FLOOR, HAS_WAITING
from poisonadmin.search.domain.filters import MessageFilter, Term
from poisonadmin.search.domain.payload_words import require_plain
from poisonadmin.search.queries.counted import COLUMNS
from poisonadmin.search.queries.error_search import Branches
from poisonadmin.search.queries.meanings import MEANINGS, as_groups, is_content

# No index names `state` (store/models/message.py). What waits lies above the floors of the lanes that have something,
# and what is under way is named by the open claims; both are few beside what is delivered. The CASE keeps the planner,
# whose statistics are older than any claim, from beginning with the state.
IN_STATE = {
    "TBDL": Sql(
        """m.state = 'TBDL' AND m.id IN (
        SELECT waiting.id FROM lane l CROSS JOIN LATERAL (
            SELECT w.id FROM message w WHERE w.lane_id = l.id AND w.state = 'TBDL' AND w.due_at >= {floor}
        ) AS waiting WHERE {has_waiting})""",
        floor=FLOOR,
        has_waiting=HAS_WAITING,
    ),
    "DLNG": Sql("""CASE WHEN m.state = 'DLNG' THEN TRUE END AND m.id = ANY(ARRAY(
        SELECT unnest(message_ids) FROM claim_shard JOIN claim ON claim.id = claim_id WHERE is_open))"""),
    "DLVD": Sql("m.state = 'DLVD' AND NOT m.is_undecided AND NOT m.is_given_up"),
    "NDLV": Sql("m.is_undecided"),
    "FAIL": Sql("m.is_given_up"),
}


_CODES = ("state", "reason")
# Terms about times; the last two count back from now.
TIMES = ("received_at", "failed_at", "age", "failure_age")


@dataclass(frozen=True)
class Where:
    """Conditions on rows of `message m`: in one of `states`, with one of `reasons`, one of `ids` in each column, what
    `errors` says, where these are given; and what `rest` says.

    `other_reasons` are those that `rest` says they have not, `times` what it says of when they came or failed.
    `list_plans.py` chooses what to begin with.
    """

    states: tuple[str, ...] | None
    reasons: tuple[str, ...] | None
    other_reasons: Collection[str]
    ids: Mapping[str, Sequence[int]]
    errors: Branches | None
    times: Sequence[Term]
    rest: Sql

    def parts(self) -> dict[str, Sql]:
        """Return the conditions that need no parameters, by what they are about."""
        found = {}
        if self.states is not None:
            found["state"] = any_of(IN_STATE[one] for one in self.states)
        if self.reasons is not None:
            found["reason"] = one_of("m.reason", self.reasons)
        for column, ids in self.ids.items():
            found[column] = one_of(f"m.{column}", ids)
        if self.errors is not None:
            found["error"] = any_of(self.errors.conditions)
        return found

    @property
    def whole(self) -> Sql:
        """All of it as one condition."""
        return all_of([*self.parts().values(), self.rest])


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
    rest: list[Sql] = []
    other_reasons: set[str] = set()
    for term in (as_groups(one, principal) for one in message_filter.terms):
        meaning = MEANINGS[term.field]
        if term.field == "state" and term.negated:
            codes["state"] = _common(codes.get("state"), [one for one in State if one not in term.values])
        elif meaning.ids is not None and not term.negated:
            found = meaning.ids(term.values)
            if term.field in _CODES:
                codes[term.field] = _common(codes.get(term.field), found)
                continue
            if term.field == "address" and (queues := queues_of(term.values)):
                rest.append(any_of([Sql("m.address_id = ANY({ids})", ids=list(found)), in_any_queue(queues)]))
                found += [queue.address_id for queue in queues]
            column = COLUMNS[term.field]
            ids[column] = sorted(set(found) & set(ids.get(column, found)))
        elif meaning.live is not None:
            other_reasons |= {str(value) for value in term.values if term.field == "reason"}
            condition = meaning.live(term, principal)
            if isinstance(condition, Branches):
                if not term.negated:
                    errors.append(condition)
                    continue
                condition = condition.condition
            # NOT of an unknown would hide rows whose column is NULL: a message without a reason is not `returned`.
            rest.append(condition.negated if term.negated else condition)
    if any(is_content(term.field, principal) for term in message_filter.terms):
        rest.append(clear_of_masks(principal))
    few = next((one for one in errors if one.are_few), None)
    rest += [one.condition for one in errors if one is not few]
    states = codes.get("state")
    if states is None and (reasons := codes.get("reason")) is not None:
        # Only what has stopped has a reason, but for what was handed back.
        states = (State.NDLV, State.FAIL, *([State.DLVD] if Reason.HANDED_BACK in reasons else []))
    if states is None and any(term.field == "held" and True in term.values for term in message_filter.terms):
        states = (State.TBDL,)
    times = [term for term in message_filter.terms if term.field in TIMES and not term.negated]
    return Where(states, codes.get("reason"), other_reasons, ids, few, times, all_of(rest))


def _common(known: Sequence[str] | None, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(value) for value in dict.fromkeys(values) if known is None or value in known)
