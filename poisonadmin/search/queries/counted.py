"""Filters that the counters can answer: any combination of what they tell apart, exact whatever the number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.address_ids import address_ids, scope_condition
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.messages.queries.counts import NOW
from poisonadmin.messages.queries.dead_letter_queues import queues_of
from poisonadmin.messages.queries.merged_groups import with_members
from poisonadmin.search.domain.filters import MessageFilter, Term
from poisonadmin.search.queries import group_words as group_terms
from poisonadmin.search.queries.axes import ADDRESSES, COLUMNS
from poisonadmin.search.queries.error_search import Condition


@dataclass(frozen=True)
class CountedFilter:
    """Conditions on rows of the counters, `c`: in `scope`, and all that `fields` says, by the filter's field.

    `scope` is the caller's, with what the filter says of failure groups as such.
    """

    scope: Condition
    fields: Mapping[str, Sequence[Condition]]

    def on(self, field: str) -> Condition:
        """Return what the filter says of one field."""
        return _all(self.fields.get(field, ()))

    @property
    def whole(self) -> Condition:
        """All of it as one condition."""
        return _all([self.scope, *(one for some in self.fields.values() for one in some)])


def counted_filter(message_filter: MessageFilter, principal: Principal) -> CountedFilter | None:
    """Return the filter as a condition on the counters; None where they do not tell what it asks for."""
    fields: dict[str, list[Condition]] = {}
    scope: list[Condition] = [scope_condition(principal, "c.address_id")]
    for term in message_filter.terms:
        if term.field in group_terms.FIELDS:
            scope.append(_condition(group_terms.as_groups(term, principal)))
            continue
        if term.field not in COLUMNS or (term.field == "address" and queues_of(term.values)):
            return None
        fields.setdefault(term.field, []).append(_condition(term))
    return CountedFilter(_all(scope), fields)


def count_by_counters(message_filter: MessageFilter, principal: Principal) -> int | None:
    """Return how many messages match, exactly; None where the counters do not tell."""
    if (counted := counted_filter(message_filter, principal)) is None:
        return None
    condition, values = counted.whole
    return int(fetch_values(f"SELECT coalesce(sum(n), 0)::bigint FROM {NOW} WHERE {condition}", values)[0])  # noqa: S608


def _condition(term: Term) -> Condition:
    values = address_ids(term.values) if term.field in ADDRESSES else list(term.values)
    if term.field == "group":
        values = with_members(values)
    # As in live.py: what has no reason, group or original address has not the one that is named.
    negated = " IS NOT TRUE" if term.negated else ""
    return f"(c.{COLUMNS[term.field]} = ANY(%s)){negated}", [values]


def _all(conditions: Sequence[Condition]) -> Condition:
    values: list[Any] = [value for _, some in conditions for value in some]
    return " AND ".join(["TRUE", *(sql for sql, _ in conditions)]), values
