"""Entries of the poison list, and the programs that run the guard."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.masking import masked, masked_page
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import bounded, fetch, fetch_by_id, fetch_values
from poisonadmin.core.queries.scope import pattern_regex
from poisonadmin.core.queries.sql import Sql, all_given, all_of, name
from poisonadmin.poison_list.queries.feed import EntryChange

_KEY = Key(("p.id",), (int,))
# A bookmark names one message, but nothing makes producers keep to that.
MAX_STOPPED = 1_000
# What is reported again after its release counts again, and is no longer released.
_RELEASED = "(p.released_at IS NOT NULL AND NOT p.is_listed AND p.crashes + p.failures = 0)"


@dataclass(frozen=True)
class EntryRow:
    """One bookmark of a source. Consumers skip it while `is_listed`; before that, `crashes` and `failures` grow towards
    the limits that the last report was judged by.

    `message_id` is our id of the message that is stored for it, if one is; `message_state` where that one stands.
    """

    id: int
    source: str
    bookmark: str
    why: str
    is_listed: bool
    is_fatal: bool
    failures: int
    failure_limit: int
    crashes: int
    crash_limit: int
    reported_by: str
    first_at: datetime
    last_at: datetime
    listed_at: datetime | None
    released_at: datetime | None
    released_by: str | None
    note: str | None
    message_id: int | None
    message_state: str | None


_SELECT = Sql(
    """SELECT p.id, p.source, p.bookmark, p.why, p.is_listed, p.is_fatal, p.failures, p.failure_limit, p.crashes,
 p.crash_limit, p.reported_by, p.first_at, p.last_at, p.listed_at, p.released_at, p.released_by, p.note, p.message_id,
 m.state AS message_state FROM poison_entry p LEFT JOIN message m ON m.id = p.message_id"""
)


def list_entries(
    *,
    principal: Principal,
    source: str | None = None,
    listed: bool | None = None,
    released: bool | None = None,
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Page[EntryRow]:
    """Return one page; of one `source`, and only what is `listed` or `released`, or is not, where these are given.

    Errors: `NotAllowed`, `InvalidCursor`.
    """
    principal.require(Permission.READ)
    page = window(cursor, limit, _KEY)
    conditions = [
        source_scope(principal, "p.source"),
        all_given(
            {"p.source = {value}": source, "p.is_listed = {value}": listed, f"({_RELEASED}) = {{value}}": released}
        ),
    ]
    found = Sql("{select} WHERE {which}", select=_SELECT, which=all_of(conditions))
    return masked_page(fetch_page(EntryRow, found, page=page), principal)


def get_entry(entry_id: int, *, principal: Principal) -> EntryRow:
    """Return the entry; raise NotAllowed, NotFound."""
    principal.require(Permission.READ)
    found = fetch_by_id(EntryRow, f"{_SELECT} WHERE p.id = %s", entry_id)
    if found is None or not principal.sees(found.source):
        raise NotFound(f"There is no entry {entry_id} on the poison list.")
    return masked([found], principal)[0]


def listed_now(source: str) -> list[EntryChange]:
    """Return everything that is listed of a source, as the feed gives it."""
    return fetch(
        EntryChange,
        "SELECT id, source, bookmark, why, is_listed, is_fatal, change FROM poison_entry"
        " WHERE source = %s AND is_listed ORDER BY id",
        [source],
    )


def source_scope(principal: Principal, column: str) -> Sql:
    """Return the condition that keeps away what is out of scope.

    A source is any name that consumers agree on, so there may be no address row of it.
    """
    return all_of(
        Sql(
            "{column} || '.' ~ ANY({patterns}::text[])",
            column=name(column),
            patterns=[pattern_regex(pattern) for pattern in patterns],
        )
        for patterns in principal.patterns
        if patterns
    )


_STOPPED = """
SELECT message.id FROM poison_entry AS entry JOIN address ON address.name = entry.source
     JOIN envelope ON envelope.bookmark = entry.bookmark JOIN message ON message.id = envelope.id
WHERE entry.id = %(entry)s AND message.address_id = address.id AND state = 'NDLV' AND reason = 'listed'
UNION
SELECT message.id FROM poison_entry AS entry JOIN address ON address.name = entry.source
     JOIN envelope ON envelope.message_id = entry.bookmark AND envelope.bookmark IS NULL
     JOIN message ON message.id = envelope.id
WHERE entry.id = %(entry)s AND message.address_id = address.id AND state = 'NDLV' AND reason = 'listed'
ORDER BY 1 LIMIT %(most)s
"""


def stopped_messages(entry_id: int) -> list[int]:
    """Return the messages in NDLV that the bookmark has stopped, rising, as many as one decision takes."""
    return fetch_values(_STOPPED, {"entry": entry_id, "most": MAX_STOPPED})


_CONSUMERS = Key(("c.name",), (str,), descending=False)
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
    page = window(cursor, limit, _CONSUMERS)
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
