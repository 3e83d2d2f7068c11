"""Processes that deliver, newest first; seen only by a principal without a limit, as jobs are."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.domain.access import Permission, Principal
from poisonadmin.queries.paging import DEFAULT_LIMIT, Key, Page, window
from poisonadmin.queries.rows import fetch

_KEY = Key(("n.id",), (int,))
ALIVE = "(n.ended_at IS NULL AND n.heartbeat_at > now() - interval '10 s')"
SHOWN_MESSAGES = 10


@dataclass(frozen=True)
class NodeRow:
    """One node. `delivering` counts what it holds and has not answered; `message_ids` are the first of those.

    `end`: clean, lost, fenced; None while it runs.
    """

    id: int
    name: str
    host: str
    pid: int
    is_alive: bool
    started_at: datetime
    heartbeat_at: datetime
    ended_at: datetime | None
    end: str | None
    begun: int
    delivering: int
    message_ids: list[int]


def list_nodes(
    *, principal: Principal, alive: bool | None = None, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[NodeRow]:
    """Return one page; `alive` True or False: only those that are, or are not."""
    principal.require(Permission.READ)
    page = window(cursor, limit, _KEY)
    if not principal.sees_everything:
        return Page([], None, None)
    condition = "TRUE" if alive is None else ALIVE if alive else f"NOT {ALIVE}"
    rows = fetch(
        NodeRow,
        f"""SELECT n.id, n.name, n.host, n.pid, {ALIVE} AS is_alive, n.started_at, n.heartbeat_at, n.ended_at, n.end,
             n.begun, coalesce(held.n, 0) AS delivering, coalesce(held.ids, ARRAY[]::bigint[]) AS message_ids
            FROM (SELECT n.* FROM node n WHERE {condition} AND {page.condition} {page.order}) n
            LEFT JOIN LATERAL (
              SELECT count(*) AS n, (array_agg(m.id ORDER BY m.id))[1:{SHOWN_MESSAGES}] AS ids
              FROM claim_shard s CROSS JOIN LATERAL unnest(s.message_ids) AS taken (id)
              JOIN message m ON m.id = taken.id AND m.state = 'DLNG' AND m.claim_id = n.claim_id
              WHERE s.claim_id = n.claim_id AND s.shard = n.shard
            ) held ON n.ended_at IS NULL
            {page.order}""",  # noqa: S608
        page.parameters,
    )
    return page.page(rows, lambda row: (row.id,))
