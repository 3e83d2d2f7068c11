"""Bounds of the ids to look through for messages of a time. Messages come in the order of time, almost.

A walk to the oldest messages would read all newer ones first. So it begins at the id where that time is about reached,
which a binary search finds. The few that came out of order are looked up apart, by an index of block ranges that costs
next to nothing: ids and times are both narrow in a block range, unless something in it is out of order.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.core.queries.sql import Sql, name, raw
from poisonadmin.search.domain.filters import Term

_OF = {
    "received_at": ("envelope", "received_at"),
    "age": ("envelope", "received_at"),
    "failed_at": ("message", "failed_at"),
    "failure_age": ("message", "failed_at"),
}
# The first id from which on the time has come, as far as ids are in order: 40 probes of the primary key at most.
_SEARCH = partial(
    Sql,
    """
WITH RECURSIVE search AS (
    SELECT 0::bigint AS low, (SELECT max(id) + 1 FROM message) AS high, 0 AS step
    UNION ALL
    SELECT CASE WHEN probe.at < {at} THEN middle + 1 ELSE low END,
           CASE WHEN probe.at < {at} THEN high ELSE middle END, step + 1
    FROM search CROSS JOIN LATERAL (SELECT (low + high) / 2 AS middle) AS half
         LEFT JOIN LATERAL (SELECT {column} AS at FROM {table} WHERE id >= middle AND id < high AND {column} IS NOT NULL
                            ORDER BY id LIMIT 1) AS probe ON TRUE
    WHERE low < high AND step < 64
)
SELECT low FROM search ORDER BY step DESC LIMIT 1
""",
)


# More than these are not few: the times are not in the order of the ids.
MOST_ELSEWHERE = 20_000


@dataclass(frozen=True)
class IdBounds:
    """All that match have an id from `first` to `last`, or are among `elsewhere`, whose ids are not in between."""

    first: int = 0
    last: int = MAX_ID
    elsewhere: tuple[int, ...] = ()


def id_bounds(times: Sequence[Term]) -> IdBounds:
    """Return the bounds for what a filter says of times: the first that says from when on, the first until when.

    No bounds where the times are not in the order of the ids. Call inside a transaction.
    """
    bounds = IdBounds()
    for sign in ("<", ">"):
        for term in times:
            operator, at = _moment(term)
            if operator.startswith(sign):
                bounds = _within(bounds, term, operator, at)
                break
    return bounds


def _within(bounds: IdBounds, term: Term, operator: str, at: datetime) -> IdBounds:
    table, column = map(name, _OF[term.field])
    reached = int(fetch_values(_SEARCH(table=table, column=column, at=at))[0] or 0)
    is_before = operator.startswith("<")
    # Spelt as in the index of block ranges, which nothing else is to use. The planner takes ids and times for
    # independent, expects millions, and would rather read all.
    beyond = Sql("(id + 0) > {id}", id=reached) if is_before else Sql("(id + 0) < {id}", id=reached)
    with _by_index():
        found = fetch_values(
            Sql(
                "SELECT id FROM {table} WHERE {beyond} AND {column} {operator} {at} LIMIT {most}",
                table=table,
                beyond=beyond,
                column=column,
                operator=raw(operator),
                at=at,
                most=MOST_ELSEWHERE + 1,
            )
        )
    if len(found) > MOST_ELSEWHERE:
        return bounds
    first, last = (bounds.first, reached) if is_before else (reached, bounds.last)
    elsewhere = {one for one in (*bounds.elsewhere, *found) if not first <= one <= last}
    return IdBounds(first, last, tuple(sorted(elsewhere)))


@contextmanager
def _by_index() -> Iterator[None]:
    fetch_values("SELECT set_config('enable_seqscan', 'off', true)")
    yield
    fetch_values("SELECT set_config('enable_seqscan', 'on', true)")


def _moment(term: Term) -> tuple[str, datetime]:
    """Return how the term compares the time, and with which."""
    value = term.values[0]
    if isinstance(value, datetime):
        return term.operator, value
    return ">", fetch_values("SELECT now() - %s::interval", [value])[0]
