"""Archived messages: a filter on their index, or in Spark's SQL over `m`, a row of the messages in files; lists."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.core.queries.masking import clear_of_masks, masked_page, masks_of
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import bounded
from poisonadmin.core.queries.scope import scope_condition
from poisonadmin.core.queries.sql import Sql, all_of
from poisonadmin.search.domain.filters import MessageFilter
from poisonadmin.search.domain.payload_words import DEEP
from poisonadmin.search.domain.words import FREE, refusal
from poisonadmin.search.queries.meanings import (
    MEANINGS,
    SearchReader,
    as_groups,
    fields_known,
    is_content,
    on_addresses,
)

_NAMED = {FREE: "words without a field"}


def in_files(message_filter: MessageFilter, reader: SearchReader, *, is_exact: bool) -> tuple[list[str], list[str]]:
    """Return the conditions that hold together, with that of the scope, and what cannot be asked, as people call it.

    `is_exact`: what finds less in the files than among live messages cannot be asked either. Terms about payloads are
    left to who reads them.
    """
    conditions, outside = [], []
    for term in (as_groups(one, reader.principal) for one in message_filter.terms if one.field not in DEEP):
        meaning = MEANINGS[term.field]
        is_known = meaning.files is not None and not (is_exact and meaning.are_files_near)
        condition = meaning.files(term, reader) if is_known and meaning.files else None
        if condition is None:
            shown = _NAMED.get(term.field, term.field)
            outside.append(f"!{shown}" if term.negated and is_known else shown)
        else:
            # As in the database: NOT of an unknown would hide rows.
            conditions.append(f"NOT coalesce({condition}, FALSE)" if term.negated else f"({condition})")
    scopes = (on_addresses("m.address", patterns) for patterns in reader.principal.patterns if patterns)
    if any(term.field == FREE or is_content(term.field, reader.principal) for term in message_filter.terms):
        conditions += clear_in_files(reader.principal)
    return [*conditions, *(f"({scope})" for scope in scopes)], outside


def clear_in_files(principal: Principal) -> list[str]:
    """Return the conditions in Spark's SQL that nothing is masked for the reader at an archived message's addresses."""
    patterns = sorted({rule.match for rule in masks_of(principal).rules})
    columns = ("m.address", "m.original_address", "m.intake_address") if patterns else ()
    return [f"NOT coalesce({on_addresses(column, patterns)}, FALSE)" for column in columns]


_NEWEST = Key(("r.id",), (int,))


@dataclass(frozen=True)
class ArchivedMessageRow:
    """An archived message, as it was when it was archived. `original_address`: where it was moved from, or came in."""

    id: int
    message_id: str
    address: str
    original_address: str | None
    state: str
    reason: str | None
    state_at: datetime
    received_at: datetime
    failed_at: datetime | None
    conversation_id: str | None
    business_keys: Mapping[str, str]


def list_archived(
    message_filter: MessageFilter, *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[ArchivedMessageRow]:
    """Return one page, newest first. Errors: `InvalidCursor`, `InvalidFilter`, `QueryTooExpensive`."""
    principal.require(Permission.READ)
    with bounded():
        found = Sql(
            """SELECT r.id, r.message_id, a.name AS address, o.name AS original_address, r.state, r.reason, r.state_at,
                   r.received_at, r.failed_at, r.conversation_id,
                   coalesce((SELECT jsonb_object_agg(k.name, k.value) FROM business_key k
                   WHERE k.message_id = r.id), jsonb_build_object()) AS business_keys
            FROM archived_message r JOIN address a ON a.id = r.address_id
                LEFT JOIN address o ON o.id = r.original_address_id WHERE {where}""",
            where=archived_where(message_filter, principal),
        )
        return masked_page(fetch_page(ArchivedMessageRow, found, page=window(cursor, limit, _NEWEST)), principal)


def can_answer(message_filter: MessageFilter) -> bool:
    """Return whether the archive's index knows everything that the filter asks for."""
    return {term.field for term in message_filter.terms} <= fields_known("index")


def archived_where(message_filter: MessageFilter, principal: Principal, *, is_wide: bool = False) -> Sql:
    """Return the condition on `archived_message r` for what the filter says and the principal may see.

    `is_wide`: what the index does not know may be so; otherwise it raises `InvalidFilter`.
    """
    found = [scope_condition(principal, "r.address_id")]
    if any(term.field == FREE or is_content(term.field, principal) for term in message_filter.terms):
        found.append(clear_of_masks(principal, "r"))
    for term in (as_groups(one, principal) for one in message_filter.terms):
        meaning = MEANINGS.get(term.field)
        if meaning is not None and meaning.index is not None:
            condition = meaning.index(term)
            found.append(condition.negated if term.negated else condition)
        elif not is_wide:
            raise InvalidFilter(term.field, refusal("Archived messages", term.field, fields_known("index")))
    return all_of(found)
