"""The poison sources: how much each has on its list, and who skips it."""

from dataclasses import dataclass

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.rows import bounded, fetch
from poisonadmin.poison_list.queries.consumers import ALIVE
from poisonadmin.poison_list.queries.entries import source_scope

SHOWN_SOURCES = 200


@dataclass(frozen=True)
class PoisonSourceRow:
    """A name that consumers agree on. `alive` and `lost` count its consumers; those that ended well are left out."""

    name: str
    listed: int
    counting: int
    alive: int
    lost: int


def list_poison_sources(*, principal: Principal) -> list[PoisonSourceRow]:
    """Return the sources that have entries or consumers, by name, at most 200."""
    principal.require(Permission.READ)
    conditions, parameters = source_scope(principal, "name")
    with bounded():
        return fetch(
            PoisonSourceRow,
            f"""SELECT name, sum(listed)::bigint AS listed, sum(counting)::bigint AS counting,
                       sum(alive)::bigint AS alive, sum(lost)::bigint AS lost
                FROM (
                  SELECT source AS name, count(*) FILTER (WHERE is_listed) AS listed,
                         count(*) FILTER (WHERE NOT is_listed AND crashes + failures > 0) AS counting,
                         0 AS alive, 0 AS lost
                  FROM poison_entry GROUP BY 1
                  UNION ALL
                  SELECT source, 0, 0, count(*) FILTER (WHERE {ALIVE}),
                         count(*) FILTER (WHERE NOT {ALIVE} AND c.ended_at IS NULL)
                  FROM consumer c GROUP BY 1) s
                WHERE {" AND ".join(conditions)} GROUP BY 1 ORDER BY 1 LIMIT {SHOWN_SOURCES}""",  # noqa: S608
            parameters,
        )
