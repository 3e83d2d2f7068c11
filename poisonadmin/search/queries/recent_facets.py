"""Facets that only the messages can tell, and no counter: their business keys, and when they failed last."""

from dataclasses import dataclass

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.paging import COUNT_SECONDS
from poisonadmin.core.queries.rows import QueryTooExpensive, bounded, fetch_rows
from poisonadmin.core.queries.sql import Sql
from poisonadmin.search.domain.filters import MessageFilter
from poisonadmin.search.queries.facets import FacetValue
from poisonadmin.search.queries.lists import matching

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
                              FROM ({newest}) m JOIN business_key k ON k.message_id = m.id GROUP BY 1, 2) AS counted
                    ) AS ranked WHERE place <= {values} AND rank <= {keys} ORDER BY rank, place""",
                    newest=newest,
                    values=VALUES_SHOWN,
                    keys=KEYS_SHOWN,
                )
            )
    except QueryTooExpensive:
        return RecentFacets((), {})
    keys: dict[str, list[FacetValue]] = {}
    for name, value, n in rows:
        keys.setdefault(name, []).append(FacetValue(value, value, n))
    failed = tuple(FacetValue(span, words, n) for (span, words), n in zip(SPANS.items(), counts, strict=True))
    return RecentFacets(failed, keys)
