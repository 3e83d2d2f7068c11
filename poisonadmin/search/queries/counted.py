"""Filters that the counters can answer: any combination of what they tell apart, exact whatever the number; and the
names of what they tell apart.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.masking import masks_of
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.core.queries.scope import scope_condition
from poisonadmin.core.queries.sql import Sql, all_of, name
from poisonadmin.messages.queries.counts import NOW
from poisonadmin.messages.queries.dead_letter_queues import queues_of
from poisonadmin.search.domain.filters import MessageFilter, Term
from poisonadmin.search.domain.words import WORDS
from poisonadmin.search.queries.meanings import MEANINGS, as_groups, is_about_groups

# What a filter calls it, and what the counters and `message` call it.
COLUMNS = {word.name: word.column for word in WORDS if word.column}
ADDRESSES = ("address", "original_address")


@dataclass(frozen=True)
class AxisValue:
    """`value` is what a filter takes (`?state=NDLV`, `?group=7`), `label` what to call it."""

    value: str
    label: str


def axis_values(keys: Mapping[str, Collection[str]], principal: Principal) -> dict[tuple[str, str], AxisValue]:
    """Return what the values of the columns are called, by field and value; groups and addresses are looked up."""

    def ids(*fields: str) -> list[int]:
        return sorted({int(key) for field in fields for key in keys.get(field, ())})

    rows = fetch_rows(
        "SELECT 'group', id::text, title FROM failure_group WHERE id = ANY(%s)"
        " UNION ALL SELECT 'address', id::text, name FROM address WHERE id = ANY(%s)",
        [ids("group"), ids(*ADDRESSES)],
    )
    masks = masks_of(principal)
    labels = {(table, key): masks.title(int(key), label) if table == "group" else label for table, key, label in rows}
    found = {}
    for field, some in keys.items():
        for key in some:
            label = labels.get(("address" if field in ADDRESSES else field, key), key)
            found[field, key] = AxisValue(label if field in ADDRESSES else key, label)
    return found


@dataclass(frozen=True)
class CountedFilter:
    """Conditions on rows of the counters, `c`: in `scope`, and all that `fields` says, by the filter's field.

    `scope` is the caller's, with what the filter says of failure groups as such.
    """

    scope: Sql
    fields: Mapping[str, Sequence[Sql]]

    def on(self, field: str) -> Sql:
        """Return what the filter says of one field."""
        return all_of(self.fields.get(field, ()))

    @property
    def whole(self) -> Sql:
        """All of it as one condition."""
        return all_of([self.scope, *(one for some in self.fields.values() for one in some)])


def counted_filter(message_filter: MessageFilter, principal: Principal) -> CountedFilter | None:
    """Return the filter as a condition on the counters; None where they do not tell what it asks for."""
    fields: dict[str, list[Sql]] = {}
    scope = [scope_condition(principal, "c.address_id")]
    for term in message_filter.terms:
        if is_about_groups(term.field):
            scope.append(_condition(as_groups(term, principal)))
            continue
        if term.field not in COLUMNS or (term.field == "address" and queues_of(term.values)):
            return None
        fields.setdefault(term.field, []).append(_condition(term))
    return CountedFilter(all_of(scope), fields)


def count_by_counters(message_filter: MessageFilter, principal: Principal) -> int | None:
    """Return how many messages match, exactly; None where the counters do not tell."""
    if (counted := counted_filter(message_filter, principal)) is None:
        return None
    total = Sql("SELECT coalesce(sum(n), 0)::bigint FROM {now} WHERE {counted}", now=NOW, counted=counted.whole)
    return int(fetch_values(total)[0])


def _condition(term: Term) -> Sql:
    ids = MEANINGS[term.field].ids
    assert ids is not None
    found = Sql("{column} = ANY({ids})", column=name(f"c.{COLUMNS[term.field]}"), ids=ids(term.values))
    # As in live.py: what has no reason, group or original address has not the one that is named.
    return found.negated if term.negated else found
