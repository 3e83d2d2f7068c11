"""Programs that run the guard: which of a source's consumers are alive, and what each was handling."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import bounded, fetch
from poisonadmin.core.queries.sql import Sql, all_given, all_of
from poisonadmin.poison_list.queries.entries import source_scope

_KEY = Key(("c.name",), (str,), descending=False)
# A guard sends a heartbeat every 5 s.
SILENT_SECONDS = 15
ALIVE = Sql("(c.ended_at IS NULL AND c.heartbeat_at > now() - {silent} * interval '1 s')", silent=SILENT_SECONDS)
LOST = Sql("(c.ended_at IS NULL AND c.heartbeat_at <= now() - {silent} * interval '1 s')", silent=SILENT_SECONDS)
SHOWN_SOURCES = 200


@dataclass(frozen=True)
class ConsumerRow:
    """One consumer by the name it gave itself. `end`: clean, lost; None while it runs.

    `bookmark` is what it was handling at its last heartbeat; None between messages.
    """

    name: str
    source: str
    version: str | None
    host: str
    pid: int
    bookmark: str | None
    is_alive: bool
    started_at: datetime
    heartbeat_at: datetime
    ended_at: datetime | None
    end: str | None


def list_consumers(
    *,
    principal: Principal,
    source: str | None = None,
    alive: bool | None = None,
    lost: bool | None = None,
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Page[ConsumerRow]:
    """Return one page by name; of one `source`, and only those that are `alive` or `lost`, or are not, where given.

    Errors: `NotAllowed`, `InvalidCursor`.
    """
    principal.require(Permission.READ)
    page = window(cursor, limit, _KEY)
    conditions = [source_scope(principal, "c.source"), all_given({"c.source = {value}": source})]
    if alive is not None:
        conditions.append(ALIVE if alive else Sql("NOT {alive}", alive=ALIVE))
    if lost is not None:
        conditions.append(LOST if lost else Sql("NOT {lost}", lost=LOST))
    found = Sql(
        """SELECT c.name, c.source, c.version, c.host, c.pid, c.bookmark, {alive} AS is_alive, c.started_at,
         c.heartbeat_at, c.ended_at,
         CASE WHEN c.ended_at IS NOT NULL THEN 'clean' WHEN NOT {alive} THEN 'lost' END AS "end"
        FROM consumer c WHERE {which}""",
        alive=ALIVE,
        which=all_of(conditions),
    )
    return fetch_page(ConsumerRow, found, page=page)


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
    with bounded():
        return fetch(
            PoisonSourceRow,
            Sql(
                """SELECT name, sum(listed)::bigint AS listed, sum(counting)::bigint AS counting,
                       sum(alive)::bigint AS alive, sum(lost)::bigint AS lost
                FROM (
                  SELECT source AS name, count(*) FILTER (WHERE is_listed) AS listed,
                         count(*) FILTER (WHERE NOT is_listed AND crashes + failures > 0) AS counting,
                         0 AS alive, 0 AS lost
                  FROM poison_entry GROUP BY 1
                  UNION ALL
                  SELECT source, 0, 0, count(*) FILTER (WHERE {alive}),
                         count(*) FILTER (WHERE NOT {alive} AND c.ended_at IS NULL)
                  FROM consumer c GROUP BY 1) s
                WHERE {which} GROUP BY 1 ORDER BY 1 LIMIT {shown}""",
                alive=ALIVE,
                which=source_scope(principal, "name"),
                shown=SHOWN_SOURCES,
            ),
        )
