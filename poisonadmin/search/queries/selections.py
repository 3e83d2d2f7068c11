"""Selections as they are shown, and their members."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.masking import masked, masks_of
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Count, Key, Page, window
from poisonadmin.core.queries.rows import bounded, fetch_by_id, fetch_values
from poisonadmin.core.queries.scope import scope_condition, visible_ids
from poisonadmin.core.queries.sql import Sql, any_of, name
from poisonadmin.messages.queries.archived import rows_of_ids
from poisonadmin.messages.queries.message_rows import MessageRow
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.live import compile_filter
from poisonadmin.search.queries.meanings import not_searched

COUNTED = 10_000
# What was being written when the selection was frozen has an earlier time, and is no member.
COMMIT_SECONDS = 30
_SELECT = """
SELECT id, filter, ordering AS "order", most AS "limit", count, ids_hash AS hash, frozen_at AS cut_off, created_by,
       expires_at, used_at, address_ids, reads_payloads, person
FROM selection WHERE id = %s
"""
_IDS = Key(("member.id",), (int,), descending=False)


@dataclass(frozen=True)
class SelectionRow:
    """A frozen set of messages. `filter`: parameters of `GET /messages/`, None where the ids were given.

    `hash`: SHA-256 over the ids, rising, in decimal, each with a newline behind it. `used_at`: when an operation was
    begun on it; one without goes at `expires_at`.
    """

    id: int
    filter: Mapping[str, list[str]] | None
    order: str
    limit: int | None
    count: int
    hash: str
    cut_off: datetime
    created_by: str
    expires_at: datetime
    used_at: datetime | None
    address_ids: list[int]
    reads_payloads: bool
    person: str


@dataclass(frozen=True)
class SelectionDetail(SelectionRow):
    """A selection and what came since. `arrived_since`: messages that the filter finds now and that are no members,
    counted to 10,000."""

    arrived_since: int


def get_selection(selection_id: int, *, principal: Principal) -> SelectionRow:
    """Return the selection; raise NotFound, also where a member was on an address that the principal does not see.

    Errors: `NotAllowed` where payloads chose the members, the principal may not read these, and no operation shows the
    members yet.
    """
    principal.require(Permission.READ)
    found = fetch_by_id(SelectionRow, _SELECT, selection_id)
    visible = visible_ids(principal)
    if found is None or (visible is not None and not set(found.address_ids) <= set(visible)):
        raise NotFound(f"There is no selection {selection_id}.")
    if found.reads_payloads and found.used_at is None:
        principal.require(Permission.READ_PAYLOAD)
    if not principal.has_made(found.person) and _asks_for_masked(found, principal):
        # Its filter, and who its members are, would tell what is masked; an operation shows these, but not the filter.
        if found.used_at is None:
            raise NotFound(f"There is no selection {selection_id}.")
        return replace(found, filter=None)
    return found


def _asks_for_masked(selection: SelectionRow, principal: Principal) -> bool:
    asked = selection.filter and not_searched(parse_filter(selection.filter), principal)
    return bool(asked) or (selection.reads_payloads and bool(masks_of(principal)))


def get_selection_detail(selection_id: int, *, principal: Principal) -> SelectionDetail:
    """Return the selection with what came since. Errors: `NotFound`, `QueryTooExpensive`."""
    found = get_selection(selection_id, principal=principal)
    return SelectionDetail(**vars(found), arrived_since=arrived_since(found, principal=principal).n)


def arrived_since(selection: SelectionRow, *, principal: Principal) -> Count:
    """Return how many messages the filter finds that arrived or changed since, and are no members.

    Errors: `QueryTooExpensive`.
    """
    if selection.filter is None:
        return Count(0, capped=False)
    with bounded():
        margin = COMMIT_SECONDS if selection.limit is None else 0
        found = Sql(
            """SELECT count(*) FROM (
                SELECT FROM message m
                WHERE {where} AND m.state_at >= {cut_off} - {margin} * interval '1 s' AND NOT EXISTS (
                    SELECT FROM selection_piece AS piece
                    WHERE selection_id = {id} AND m.id BETWEEN first_id AND last_id AND m.id = ANY(message_ids)
                ) LIMIT {most}
            ) AS found""",
            where=compile_filter(parse_filter(selection.filter), principal).whole,
            cut_off=selection.cut_off,
            margin=margin,
            id=selection.id,
            most=COUNTED + 1,
        )
        n = fetch_values(found)[0]
    return Count(min(n, COUNTED), n > COUNTED)


def list_members(
    selection: SelectionRow, *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[MessageRow]:
    """Return a page of the members as they are now, live or archived, oldest first.

    Those that have moved out of the caller's scope since are left out, and erased ones. Errors: `InvalidCursor`,
    `QueryTooExpensive`, `ArchiveUnreadable`.
    """
    members = Sql("SELECT unnest(message_ids) AS id FROM selection_piece WHERE selection_id = {id}", id=selection.id)
    return page_of_members(members, count=selection.count, principal=principal, cursor=cursor, limit=limit)


def page_of_members(
    members: Sql, *, count: int, principal: Principal, cursor: str | None, limit: int
) -> Page[MessageRow]:
    """Return a page of the messages whose ids the query `members` selects, as `list_members` does. `count`: how many
    there are."""
    principal.require(Permission.READ)
    page = window(cursor, limit, _IDS)
    chosen = Sql(
        "SELECT member.id FROM ({members}) AS member WHERE {seen} AND {place} {order}",
        members=members,
        seen=_in_scope(principal),
        place=page.where,
        order=page.order,
    )
    with bounded():
        ids = fetch_values(chosen)
    return page.page(masked(rows_of_ids(ids), principal), lambda: Count(count, capped=False))


def _in_scope(principal: Principal) -> Sql:
    """Return the condition that a `member` is where the principal sees it now."""
    if principal.sees_everything:
        return Sql("NOT EXISTS (SELECT FROM erased_message AS gone WHERE gone.id = member.id)")
    scope = scope_condition(principal, "seen.address_id")
    return any_of(
        Sql(
            "EXISTS (SELECT FROM {table} AS seen WHERE seen.id = member.id AND {scope})", table=name(table), scope=scope
        )
        for table in ("message", "archived_message")
    )
