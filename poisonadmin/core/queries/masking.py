"""The masking rules that hold for a reader, read once for each request or turn of a run, and rows without the rest."""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from django.conf import settings

from poisonadmin.core.domain.access import SYSTEM, Principal, Role
from poisonadmin.core.domain.json_path import Path
from poisonadmin.core.domain.masking import Masked, MaskInForce, Masks
from poisonadmin.core.queries.paging import Page
from poisonadmin.core.queries.rows import fetch, fetch_rows, fetch_values
from poisonadmin.core.queries.scope import address_ids
from poisonadmin.core.queries.sql import TRUE, Sql, all_of, any_of, name, raw
from poisonadmin.messages.domain.business_keys import parse_key

Row = TypeVar("Row")
# Fields of rows that say where a message is, or was.
_ADDRESSES = ("address", "original_address", "intake_address", "source")
# Whoever gets what is sent: the role that may read least.
OUTSIDE = Principal("whoever gets it", Role.VIEWER, frozenset())
_KEPT_AS = "masks"
_RULES = "SELECT match, json_path, header, key, regex, allowed_roles FROM masking_rule ORDER BY id"
_ROLE_NOW = {
    "user": "SELECT role FROM access WHERE user_id = %s",
    "token": "SELECT role FROM access WHERE user_id = (SELECT user_id FROM api_token WHERE id = %s)",
}
# Groups with a failure at one of the addresses, and those of which no address is known any more; what is merged is one.
_GROUPS = """
WITH known AS (
    SELECT group_id, bool_or(address_id = ANY(%(ids)s) OR coalesce(original_address_id = ANY(%(ids)s), FALSE)) AS masked
    FROM (SELECT group_id, address_id, original_address_id FROM counter
          UNION ALL SELECT group_id, address_id, original_address_id FROM counter_delta
          UNION ALL SELECT group_id, address_id, NULL FROM group_hour) AS seen GROUP BY 1
    UNION ALL
    SELECT g.id, coalesce(m.address_id, r.address_id) = ANY(%(ids)s) FROM failure_group AS g
    LEFT JOIN message AS m ON m.id = g.sample_message_id LEFT JOIN archived_message AS r ON r.id = g.sample_message_id
    WHERE coalesce(m.address_id, r.address_id) IS NOT NULL
), families AS (
    SELECT coalesce(g.merged_into_id, g.id) AS id, bool_or(coalesce(known.masked, TRUE)) AS masked
    FROM failure_group AS g LEFT JOIN known ON known.group_id = g.id GROUP BY 1
)
SELECT g.id FROM failure_group AS g JOIN families ON families.id = coalesce(g.merged_into_id, g.id)
WHERE families.masked
"""
_KEY_SOURCES = """
SELECT DISTINCT jsonb_array_elements_text(settings -> 'business_keys') FROM policy WHERE settings ? 'business_keys'
"""


def masks_of(principal: Principal) -> Masks:
    """Return what is masked for a reader, at any address. It is kept with the principal."""
    if principal is SYSTEM:
        return Masks()
    known: Masks | None = vars(principal).get(_KEPT_AS)
    if known is None:
        known = _masks(principal)
        if principal is not OUTSIDE:  # it is there as long as the process
            vars(principal)[_KEPT_AS] = known
    return known


def in_the_clear(principal: Principal) -> Principal:
    """Return the principal as one for whom nothing is masked: for what is revealed to it, or done and not shown."""
    found = replace(principal)
    vars(found)[_KEPT_AS] = Masks()
    return found


def _masks(principal: Principal) -> Masks:
    role = str(principal.role)
    kind, _, number = principal.user.partition(" ")
    if not principal.account and kind in _ROLE_NOW:
        # The work of a run, which masks as its requester's role may read now.
        role = next(iter(fetch_values(_ROLE_NOW[kind], [int(number)])), "")
    rules = tuple(rule for rule in fetch(MaskInForce, _RULES) if role not in rule.allowed_roles)
    if not rules:
        return Masks()
    secret = hmac.new(settings.SECRET_KEY.encode(), b"poisonadmin masking", hashlib.sha256).digest()
    ids = address_ids(sorted({rule.match for rule in rules}))
    sources: dict[str, list[tuple[str, Path]]] = {}
    for key in map(parse_key, fetch_values(_KEY_SOURCES)):
        sources.setdefault(key.name, []).append((key.header or "", key.path))
    return Masks(secret, rules, tuple(ids), frozenset(fetch_values(_GROUPS, {"ids": ids})), sources)


def masked(rows: Sequence[Row], principal: Principal, *at: str | None) -> list[Row]:
    """Return rows of messages, their attempts or other things of an address as the reader may see them.

    `at`: where they are, besides the addresses that they name themselves, and those that their messages were at.
    """
    masks = masks_of(principal)
    if not masks:
        return list(rows)
    known = addresses_of([_message_of(row) for row in rows])
    return [_masked(row, masks, (*at, *known.get(_message_of(row), ()))) for row in rows]


def addresses_of(message_ids: Sequence[int | None]) -> dict[int | None, list[str]]:
    """Return the addresses at which each message, and those of which it is the child, is or was, by its id."""
    former = Sql(
        """SELECT m.id, ARRAY(SELECT name FROM address WHERE id IN (SELECT address_id FROM ({addresses}) AS was))
        FROM unnest({ids}::bigint[]) AS m (id) WHERE m.id IS NOT NULL""",
        addresses=_every_address("m.id"),
        ids=list(message_ids),
    )
    return dict(fetch_rows(former))


def _message_of(row: object) -> int | None:
    """Return the id of the message that a row is, or is of; a message's own `message_id` is its producer's."""
    found = getattr(row, "message_id", None)
    return getattr(row, "id", None) if isinstance(found, str) else found


def _masked(row: Row, masks: Masks, at: Sequence[str | None]) -> Row:
    here = masks.at(*at, *(getattr(row, name, None) for name in _ADDRESSES))
    found = here.row(row) if here else row
    if not getattr(found, "group_title", None):
        return found
    # The group's title may be that of messages at another address; and one text has one mask wherever it stands.
    title = masks.title(row.group_id, row.group_title)  # type: ignore[attr-defined]
    return found if title == row.group_title else replace(found, group_title=title)  # type: ignore[attr-defined, type-var]


def masked_page(page: Page[Row], principal: Principal, *at: str | None) -> Page[Row]:
    """Return a page with its rows `masked`."""
    return replace(page, results=masked(page.results, principal, *at))


def with_titles(rows: Sequence[Row], principal: Principal) -> list[Row]:
    """Return rows of failure groups with their titles as the reader may see them."""
    masks = masks_of(principal)
    if not masks:
        return list(rows)
    return [replace(row, title=masks.title(row.id, row.title)) for row in rows]  # type: ignore[attr-defined, type-var]


def _every_address(message_id: str) -> Sql:
    """Return the statement for the addresses of a message: where it is, was moved from and came in, each that it ever
    left, and those of the messages of which it is the child, as long as these are known."""
    return Sql(
        """WITH RECURSIVE line (id) AS (
    SELECT {id} UNION SELECT e.parent_id FROM line JOIN envelope e ON e.id = line.id WHERE e.parent_id IS NOT NULL)
SELECT unnest(ARRAY[e.intake_address_id, m.address_id, m.original_address_id, r.address_id, r.original_address_id])
       AS address_id
FROM line LEFT JOIN envelope e ON e.id = line.id LEFT JOIN message m ON m.id = line.id
     LEFT JOIN archived_message r ON r.id = line.id
UNION ALL SELECT a.id FROM line JOIN hop ON hop.message_id = line.id JOIN address a ON a.name = hop.from_address""",
        id=name(message_id),
    )


def clear_of_masks(principal: Principal, of: str = "m") -> Sql:
    """Return the condition that for the reader nothing is masked at any of the addresses of a message.

    `of`: a row of `message`, or of the archive's index.
    """
    masks = masks_of(principal)
    if not masks:
        return TRUE
    among = Sql("ANY({ids})", ids=list(masks.address_ids))
    columns = (name(f"{of}.{column}") for column in ("address_id", "original_address_id"))
    is_there = (Sql("coalesce({column} = {among}, FALSE)", column=one, among=among) for one in columns)
    return all_of(Sql("NOT {so}", so=one) for one in (*is_there, *_was_at(f"{of}.id", among)))


def _was_at(message_id: str, among: Sql) -> tuple[Sql, Sql]:
    """Return the conditions of which one holds where a message came in at one of some addresses, left one, or is the
    child of a message that was at one.

    Both are joins, however many messages are asked about; the way up to the parents is gone for a child alone.
    """
    came_in = Sql(
        """EXISTS (SELECT FROM envelope came WHERE came.id = {id} AND (came.intake_address_id = {among}
    OR came.parent_id IS NOT NULL AND EXISTS (SELECT FROM ({addresses}) AS was WHERE was.address_id = {among})))""",
        id=name(message_id),
        addresses=_every_address("came.parent_id"),
        among=among,
    )
    left = Sql(
        """EXISTS (SELECT FROM hop JOIN address gone ON gone.name = hop.from_address
    WHERE hop.message_id = {id} AND gone.id = {among})""",
        id=name(message_id),
        among=among,
    )
    return came_in, left


def was_at(message_id: str, addresses: str) -> str:
    """Return the condition that a message was at one of the addresses. Both as SQL; the latter with commas between."""
    among = Sql("ANY (ARRAY(SELECT id FROM address WHERE name IN ({addresses})))", addresses=raw(addresses))
    return str(any_of(_was_at(message_id, among)))


def require_clear(messages: Sql, principal: Principal, why: str) -> None:
    """Raise Masked, which says why, where something of the messages is masked for the reader.

    `messages`: FROM and WHERE of a statement about rows of `message`, named m.
    """
    if masks_of(principal):
        clear = clear_of_masks(principal)
        read = Sql("SELECT EXISTS (SELECT {messages} AND NOT ({clear}))", messages=messages, clear=clear)
        if fetch_values(read)[0]:
            raise Masked(f"Parts of these messages are masked for {principal.name}. {why}")
