"""Facets: how many messages of a list are in each state, group, address, original address, and have each reason.

Some only the messages can tell, and no counter: their business keys, and when they failed last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.masking import clear_of_masks
from poisonadmin.core.queries.paging import CAP, COUNT_SECONDS, Count
from poisonadmin.core.queries.rows import QueryTooExpensive, bounded, fetch_rows
from poisonadmin.core.queries.sql import Sql, all_of, join, name
from poisonadmin.messages.domain.states import State
from poisonadmin.messages.queries.counts import COUNTED, NOW_SEEN
from poisonadmin.messages.queries.merged_groups import seen_as
from poisonadmin.search.domain.filters import MessageFilter
from poisonadmin.search.queries.counted import COLUMNS, AxisValue, CountedFilter, axis_values, counted_filter
from poisonadmin.search.queries.lists import matching

SHOWN = 50


@dataclass(frozen=True)
class FacetValue(AxisValue):
    """One value, and how many messages have it."""

    count: int


@dataclass(frozen=True)
class Facet:
    """The values of one field, the most frequent first; states in their order, those of none too.

    `others`: how many messages have a value that is not among `values`. Messages that have none, such as those without
    a failure group, count nowhere.
    """

    values: tuple[FacetValue, ...]
    others: int


@dataclass(frozen=True)
class Facets:
    """`total`: how many messages match; None: it took too long to count, and the facets are empty.

    Where `total` is capped, the filter needs a scan: facets then count the newest 10,000 that match only.
    Each facet leaves out what the filter says of its own field, so that it shows what else could be chosen.
    """

    total: Count | None
    state: Facet
    group: Facet
    address: Facet
    original_address: Facet
    reason: Facet


def facets(message_filter: MessageFilter, *, principal: Principal, limit: int = SHOWN) -> Facets:
    """Return the total and the facets of a list of messages in the caller's scope, up to `limit` values each.

    Exact, from the counters, in milliseconds whatever the number, where the filter names only states, reasons, groups,
    addresses and original addresses, negated or not. For other filters up to 10,000 messages are counted.
    Raise InvalidFilter.
    """
    principal.require(Permission.READ)
    counted = counted_filter(message_filter, principal)
    try:
        with bounded(COUNT_SECONDS):
            if counted is not None:
                total, found = _counted(counted, limit)
            else:
                total, found = _scanned(message_filter, principal, limit)
            counts = {field: [key for key, _ in some.counts] for field, some in found.items()}
            values = axis_values(counts, principal)
    except QueryTooExpensive:
        return Facets(None, **dict.fromkeys(COLUMNS, Facet((), 0)))
    return Facets(total, **{field: _facet(field, found.get(field, _NONE), values) for field in COLUMNS})


@dataclass(frozen=True)
class _Values:
    """The most frequent values of a field and their counts, and the sum over all of its values."""

    counts: Sequence[tuple[Any, int]]
    whole: int


_NONE = _Values((), 0)


def _counted(counted: CountedFilter, limit: int) -> tuple[Count, dict[str, _Values]]:
    columns = {field: name(column) for field, column in COLUMNS.items()}
    on = {field: name(f"on_{field}") for field in COLUMNS}
    selected = join(", ", (Sql("{selected} AS {on}", selected=counted.on(field), on=on[field]) for field in COLUMNS))
    branches = [
        Sql(
            """(SELECT {field} AS field, {column}::text AS value, sum(n)::bigint AS n,
                    (sum(sum(n)) OVER ())::bigint AS whole
             FROM c WHERE {column} IS NOT NULL AND {others}
             GROUP BY {column} HAVING sum(n) > 0 ORDER BY n DESC, value LIMIT {limit})""",
            field=field,
            column=column,
            others=all_of(other for name_of, other in on.items() if name_of != field),
            limit=limit,
        )
        for field, column in columns.items()
    ]
    rows = fetch_rows(
        Sql(
            """WITH c AS MATERIALIZED (SELECT {counted}, n, {selected} FROM {now} WHERE {scope})
            SELECT NULL AS field, NULL AS value, coalesce(sum(n), 0)::bigint AS n, 0 AS whole FROM c WHERE {all}
            UNION ALL {branches}""",
            counted=COUNTED,
            selected=selected,
            now=NOW_SEEN,
            scope=counted.scope,
            all=all_of(on.values()),
            branches=join(" UNION ALL ", branches),
        )
    )
    found = {
        field: _Values(
            [(value, n) for one, value, n, _ in rows if one == field], max(row[3] for row in rows if row[0] == field)
        )
        for field in {row[0] for row in rows if row[0] is not None}
    }
    return Count(next(n for field, _, n, _ in rows if field is None), capped=False), found


def _scanned(message_filter: MessageFilter, principal: Principal, limit: int) -> tuple[Count, dict[str, _Values]]:
    rows = _scan(message_filter, principal)
    n = sum(row["n"] for row in rows)
    found = {}
    for field, column in COLUMNS.items():
        kept = tuple(term for term in message_filter.terms if term.field != field)
        own = rows if kept == message_filter.terms else _scan(replace(message_filter, terms=kept), principal)
        found[field] = _most_frequent(own, column, limit)
    return Count(min(n, CAP), n > CAP), found


def _scan(message_filter: MessageFilter, principal: Principal) -> list[dict[str, Any]]:
    """Return the newest 10,000 that match, and one more, grouped by all that the counters tell apart."""
    newest = matching(message_filter, principal, CAP + 1)
    rows = fetch_rows(
        Sql("SELECT {counted}, count(*) FROM ({newest}) m GROUP BY {counted}", counted=COUNTED, newest=newest)
    )
    merged = seen_as()
    found = [dict(zip([*COUNTED.text.split(", "), "n"], row, strict=True)) for row in rows]
    return [row | {"group_id": merged.get(row["group_id"], row["group_id"])} for row in found]


def _most_frequent(rows: Sequence[Mapping[str, Any]], column: str, limit: int) -> _Values:
    counts: dict[str, int] = {}
    for row in rows:
        if row[column] is not None:
            counts[str(row[column])] = counts.get(str(row[column]), 0) + row["n"]
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return _Values(ordered[:limit], sum(counts.values()))


def _facet(field: str, found: _Values, named_values: Mapping[tuple[str, str], AxisValue]) -> Facet:
    counts = list(found.counts)
    if field == "state":
        by_state = dict(counts)
        counts = [(str(state), by_state.get(state, 0)) for state in State]
    called = [(named_values.get((field, key), AxisValue(key, key)), n) for key, n in counts]
    values = tuple(FacetValue(one.value, one.label, n) for one, n in called)
    return Facet(values, found.whole - sum(n for _, n in found.counts))


MESSAGES_READ = 10_000
KEYS_SHOWN = 5
VALUES_SHOWN = 10
SPANS = {"1h": "1 hour", "24h": "24 hours", "7d": "7 days"}


@dataclass(frozen=True)
class RecentFacets:
    """Counted in the newest 10,000 messages that match. `failed`: by the last 1 h, 24 h, 7 d; `keys`: by name."""

    failed: tuple[FacetValue, ...]
    keys: dict[str, list[FacetValue]]


def recent_facets(message_filter: MessageFilter, *, principal: Principal) -> RecentFacets:
    """Return these facets of a list of messages; empty ones where that takes longer than half a second."""
    principal.require(Permission.READ)
    try:
        with bounded(COUNT_SECONDS):
            newest = matching(message_filter, principal, MESSAGES_READ)
            [counts] = fetch_rows(
                Sql(
                    """SELECT count(*) FILTER (WHERE failed_at > now() - interval '1 h'),
                    count(*) FILTER (WHERE failed_at > now() - interval '24 h'),
                    count(*) FILTER (WHERE failed_at > now() - interval '7 d') FROM ({newest}) m""",
                    newest=newest,
                )
            )
            rows = fetch_rows(
                Sql(
                    """SELECT name, value, n FROM (
                        SELECT name, value, n, row_number() OVER (PARTITION BY name ORDER BY n DESC, value) AS place,
                               dense_rank() OVER (ORDER BY whole DESC, name) AS rank
                        FROM (SELECT k.name, k.value, count(*) AS n, sum(count(*)) OVER (PARTITION BY k.name) AS whole
                              FROM ({newest}) m JOIN business_key k ON k.message_id = m.id WHERE {clear}
                              GROUP BY 1, 2) AS counted
                    ) AS ranked WHERE place <= {values} AND rank <= {keys} ORDER BY rank, place""",
                    newest=newest,
                    clear=clear_of_masks(principal),
                    values=VALUES_SHOWN,
                    keys=KEYS_SHOWN,
                )
            )
    except QueryTooExpensive:
        return RecentFacets((), {})
    keys: dict[str, list[FacetValue]] = {}
    for key, value, n in rows:
        keys.setdefault(key, []).append(FacetValue(value, value, n))
    failed = tuple(FacetValue(span, words, n) for (span, words), n in zip(SPANS.items(), counts, strict=True))
    return RecentFacets(failed, keys)
