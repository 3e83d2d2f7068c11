"""The terms of searches, for each message that is read and for archived rows as Spark's SQL, and searches as they are
shown: how far they are, and what they have found.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.core.queries.masking import clear_of_masks, masked, masks_of
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Count, Key, Page, window
from poisonadmin.core.queries.rows import bounded, fetch, fetch_values
from poisonadmin.core.queries.scope import scope_condition
from poisonadmin.core.queries.sql import Sql, all_of
from poisonadmin.messages.queries.message_rows import COLUMNS, JOINS, MessageRow
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.runs.queries.runs import RunFields, StoredRun, find_run, latest_run
from poisonadmin.search.deep.domain import Clause, HeaderIs, PayloadAt, PayloadHolds, condition_at
from poisonadmin.search.domain.filters import MessageFilter, Term
from poisonadmin.search.domain.payload_words import PAYLOAD, PAYLOAD_AT
from poisonadmin.search.queries.archived import clear_in_files, in_files
from poisonadmin.search.queries.meanings import SearchReader, header_member

HEADER = "header"
_CLAUSES: dict[str, Callable[[Term], Clause]] = {
    PAYLOAD: lambda term: PayloadHolds(str(term.values[0]).encode(), term.negated),
    PAYLOAD_AT: lambda term: PayloadAt(condition_at(term.name, term.operator, term.values), term.negated),
    HEADER: lambda term: HeaderIs([header_member(term.name, value).decode() for value in term.values], term.negated),
}


def clauses_of(message_filter: MessageFilter) -> list[Clause]:
    """Return what is looked for in payloads and headers. Raise InvalidFilter where a filter asks for neither."""
    found = [_CLAUSES[term.field](term) for term in message_filter.terms if term.field in _CLAUSES]
    if not found:
        raise InvalidFilter(
            "q", 'A search names a payload or a header, as in payload:"customer-77"; other lists are GET /messages/.'
        )
    return found


def plain_of(message_filter: MessageFilter) -> MessageFilter:
    """Return the filter without what is looked for in payloads and headers."""
    return MessageFilter(tuple(term for term in message_filter.terms if term.field not in _CLAUSES))


def archived_where(message_filter: MessageFilter, principal: Principal, now: datetime) -> tuple[str, list[str]]:
    """Return what the other terms, and the scope, ask of archived messages, as Spark's SQL over `m`, and the names of
    those that ask of what the archive's messages do not have.

    Of failures it knows those whose group holds a text, and not their own messages; so it cannot tell which do not.
    """
    conditions, outside = in_files(plain_of(message_filter), SearchReader(principal, now), is_exact=False)
    return " AND ".join([*conditions, *clear_in_files(principal)]) or "TRUE", outside


SHOWN = 50
# The result of a search before anything is found.
NOTHING_FOUND: Mapping[str, Any] = {
    "hits": 0,
    "archived_hits": 0,
    "is_capped": False,
    "outside_archive": [],
    "first_hit_at": None,
    "selection": None,
}
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
_MASKED_SINCE = "SELECT 1 FROM masking_rule WHERE updated_at > %s LIMIT 1"
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
class SearchResult:
    """The hits of a search so far. `hits`: how many messages, `archived_hits` of them in the archive; `is_capped`:
    there may be more. `outside_archive`: words that the archive cannot be asked about; where there are any, it was left
    out. `selection`: the live hits, frozen when the search succeeded; null where there are none. `first`: the newest
    50.
    """

    hits: int
    archived_hits: int
    is_capped: bool
    outside_archive: Sequence[str]
    first_hit_at: datetime | None
    selection: str | None
    first: Sequence[ShownHit] = ()


@dataclass(frozen=True)
class SearchRow(RunFields):
    """A search in payloads and headers. `done` of `total`: ids of live messages, and archived rows, that are read."""

    filter: Mapping[str, list[str]]
    result: SearchResult


def get_search(search_id: int, *, principal: Principal) -> SearchRow:
    """Return the search; raise NotFound, also where it was made in another scope, or by somebody else who may read what
    is masked for the principal; NotAllowed.

    What is in scope now was in scope of who asked: his hits, and how many there are, tell of nothing else.
    """
    principal.require(Permission.READ)
    run = find_run(KindName.SEARCH, search_id)
    if run is None or not (principal.sees_everything or _scope(principal) == [list(some) for some in run.patterns]):
        raise NotFound(f"There is no search {search_id}.")
    if masks_of(principal) and not run.is_of(principal):
        raise NotFound(f"There is no search {search_id}.")
    if run.params["reads_payloads"]:
        principal.require(Permission.READ_PAYLOAD)
    return _row(run)


def latest_search(message_filter: Mapping[str, Sequence[str]], *, principal: Principal) -> SearchRow | None:
    """Return the newest search of one's own for the same filter, made in the same scope; None for none.

    One from before the masks of today does not count: its hits may hold what is masked now.
    """
    asked = {name: list(texts) for name, texts in message_filter.items()}
    run = latest_run(KindName.SEARCH, {"filter": asked}, of=principal)
    if run is None or (masks_of(principal) and fetch_values(_MASKED_SINCE, [run.created_at])):
        return None
    return _row(run)


def _row(run: StoredRun) -> SearchRow:
    found = {**NOTHING_FOUND, **(run.result or {})}
    first_hit_at, selection = found["first_hit_at"], found["selection"]
    found["first_hit_at"] = None if first_hit_at is None else datetime.fromisoformat(first_hit_at)
    found["selection"] = None if selection is None else str(selection)
    return SearchRow(**run.shown, filter=run.params["filter"], result=SearchResult(**found))


def _scope(principal: Principal) -> list[list[str]]:
    return [list(some) for some in principal.patterns]


def first_found(search: SearchRow, *, principal: Principal, limit: int = SHOWN) -> list[ShownHit]:
    """Return the newest hits, live ones first; those that have left the caller's scope since are left out."""
    live = fetch(ShownHit, _LIVE(id=search.id, scope=_readable(principal), limit=limit))
    return [*live, *archived_found(search, principal=principal, limit=limit - len(live))]


def _readable(principal: Principal) -> Sql:
    return all_of([scope_condition(principal), clear_of_masks(principal)])


def archived_found(search: SearchRow, *, principal: Principal, limit: int = SHOWN) -> list[ShownHit]:
    """Return the newest hits that are in the archive."""
    found = fetch(ShownHit, _ARCHIVED, [search.id, max(limit, 0)])
    return [one for one in found if not masks_of(principal).at(one.address)]


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
        scope=_readable(principal),
        place=page.where,
        order=page.order,
    )
    with bounded():
        rows = fetch(MessageRow, found)
    return page.page(
        masked(rows, principal), lambda: Count(search.result.hits - search.result.archived_hits, capped=False)
    )
