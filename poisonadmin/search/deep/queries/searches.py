"""Searches as they are shown: how far they are, and what they have found."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.address_ids import scope_condition
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Count, Key, Page, window
from poisonadmin.core.queries.rows import bounded, fetch, fetch_by_id, fetch_one
from poisonadmin.core.queries.sql import Sql
from poisonadmin.messages.queries.message_rows import COLUMNS, JOINS, MessageRow
from poisonadmin.search.deep.domain.states import SearchState

SHOWN = 50
_COLUMNS = """
SELECT id, filter, state, requester, requested_by, patterns, reads_payloads, read, total, hits, archived_hits,
       is_capped, outside_archive, selection_id, error, requested_at, first_hit_at, ended_at, expires_at
FROM search WHERE (state = 'running' OR expires_at > now())
"""
_SELECT = f"{_COLUMNS} AND id = %s"
_LATEST = f"{_COLUMNS} AND requester = %s AND filter = %s AND patterns = %s ORDER BY id DESC LIMIT 1"
_ARCHIVED = """
SELECT message_id AS id, archived ->> 'message_id' AS message_id, archived ->> 'address' AS address,
       archived ->> 'state' AS state, (archived ->> 'received_at')::timestamptz AS received_at, true AS archived
FROM search_hit WHERE search_id = %s AND archived IS NOT NULL ORDER BY message_id DESC LIMIT %s
"""
_LIVE = partial(
    Sql,
    """SELECT m.id, e.message_id, a.name AS address, m.state, e.received_at, false AS archived
    FROM search_hit hit JOIN message m ON m.id = hit.message_id JOIN envelope e ON e.id = m.id
         JOIN address a ON a.id = m.address_id
    WHERE hit.search_id = {id} AND hit.archived IS NULL AND {scope} ORDER BY hit.message_id DESC LIMIT {limit}""",
)
_KEY = Key(("m.id",), (int,))


@dataclass(frozen=True)
class ShownHit:
    """A message that a search has found. Archived ones are as they were when they were archived."""

    id: int
    message_id: str
    address: str
    state: str
    received_at: datetime
    archived: bool


@dataclass(frozen=True)
class SearchRow:
    """A search. `hits`: how many messages it has found, `archived_hits` of them in the archive; `is_capped`: there may
    be more. `selection`: the live ones, frozen, once it has COMPLETED; None where there are none. `outside_archive`:
    the archive was left out, because it cannot be asked about these words.
    """

    id: int
    filter: Mapping[str, list[str]]
    state: str
    requester: str
    requested_by: str
    patterns: Sequence[Sequence[str]]
    reads_payloads: bool
    read: int
    total: int
    hits: int
    archived_hits: int
    is_capped: bool
    outside_archive: Sequence[str]
    selection_id: int | None
    error: str | None
    requested_at: datetime
    first_hit_at: datetime | None
    ended_at: datetime | None
    expires_at: datetime

    @property
    def selection(self) -> str | None:
        """The id of the selection."""
        return None if self.selection_id is None else str(self.selection_id)

    @property
    def progress(self) -> float:
        """The share that is read, from 0 to 1."""
        if self.state == SearchState.COMPLETED:
            return 1.0
        return round(min(self.read / self.total, 0.999), 3) if self.total else 0.0


def get_search(search_id: int, *, principal: Principal) -> SearchRow:
    """Return the search; raise NotFound, also where it was made in another scope, NotAllowed.

    What is in scope now was in scope of who asked: his hits, and how many there are, tell of nothing else.
    """
    principal.require(Permission.READ)
    found = fetch_by_id(SearchRow, _SELECT, search_id)
    if found is None or not (principal.sees_everything or _scope(principal) == [list(some) for some in found.patterns]):
        raise NotFound(f"There is no search {search_id}.")
    if found.reads_payloads:
        principal.require(Permission.READ_PAYLOAD)
    return found


def latest_search(message_filter: Mapping[str, Sequence[str]], *, principal: Principal) -> SearchRow | None:
    """Return the newest search of one's own for the same filter, made in the same scope; None for none."""
    text = json.dumps({name: list(texts) for name, texts in message_filter.items()})
    return fetch_one(SearchRow, _LATEST, [principal.person, text, json.dumps(_scope(principal))])


def _scope(principal: Principal) -> list[list[str]]:
    return [list(some) for some in principal.patterns]


def first_found(search: SearchRow, *, principal: Principal, limit: int = SHOWN) -> list[ShownHit]:
    """Return the newest hits, live ones first; those that have left the caller's scope since are left out."""
    live = fetch(ShownHit, _LIVE(id=search.id, scope=scope_condition(principal), limit=limit))
    return [*live, *archived_found(search, limit=limit - len(live))]


def archived_found(search: SearchRow, *, limit: int = SHOWN) -> list[ShownHit]:
    """Return the newest hits that are in the archive."""
    return fetch(ShownHit, _ARCHIVED, [search.id, max(limit, 0)])


def list_found(
    search: SearchRow, *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[MessageRow]:
    """Return a page of the live hits as they are now, newest first. Errors: `InvalidCursor`, `QueryTooExpensive`."""
    principal.require(Permission.READ)
    page = window(cursor, limit, _KEY)
    found = Sql(
        """SELECT {columns} FROM search_hit hit JOIN message m ON m.id = hit.message_id {joins}
        WHERE hit.search_id = {id} AND hit.archived IS NULL AND {scope} AND {place} {order}""",
        columns=COLUMNS,
        joins=JOINS,
        id=search.id,
        scope=scope_condition(principal),
        place=page.where,
        order=page.order,
    )
    with bounded():
        rows = fetch(MessageRow, found)
    return page.page(rows, lambda: Count(search.hits - search.archived_hits, capped=False))
