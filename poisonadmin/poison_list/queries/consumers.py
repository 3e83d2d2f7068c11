"""Programs that run the guard: which of a source's consumers are alive, and what each was handling."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.poison_list.queries.entries import source_scope

_KEY = Key(("c.name",), (str,), descending=False)
# A guard sends a heartbeat every 5 s.
SILENT_SECONDS = 15
ALIVE = f"(c.ended_at IS NULL AND c.heartbeat_at > now() - interval '{SILENT_SECONDS} s')"
LOST = f"(c.ended_at IS NULL AND c.heartbeat_at <= now() - interval '{SILENT_SECONDS} s')"


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
    conditions, parameters = source_scope(principal, "c.source")
    if source is not None:
        conditions.append("c.source = %s")
        parameters.append(source)
    if alive is not None:
        conditions.append(ALIVE if alive else f"NOT {ALIVE}")
    if lost is not None:
        conditions.append(LOST if lost else f"NOT {LOST}")
    sql = f"""SELECT c.name, c.source, c.version, c.host, c.pid, c.bookmark, {ALIVE} AS is_alive, c.started_at,
             c.heartbeat_at, c.ended_at,
             CASE WHEN c.ended_at IS NOT NULL THEN 'clean' WHEN NOT {ALIVE} THEN 'lost' END AS "end"
            FROM consumer c WHERE {" AND ".join(conditions)}"""  # noqa: S608
    return fetch_page(ConsumerRow, sql, parameters, page)
