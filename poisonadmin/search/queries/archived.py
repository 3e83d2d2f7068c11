"""Finding archived messages: the filter of live ones, of which the archive's index can answer some."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.core.queries.address_ids import address_ids, addresses_holding, visible_ids
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import bounded
from poisonadmin.messages.queries.merged_groups import with_members
from poisonadmin.search.domain.filters import MessageFilter, Term
from poisonadmin.search.queries.group_words import FIELDS, as_groups

Condition = tuple[str, list[Any]]
_NEWEST = Key(("r.id",), (int,))
_ROWS = """
SELECT r.id, r.message_id, a.name AS address, r.state, r.reason, r.state_at, r.received_at, r.failed_at,
       r.conversation_id, coalesce((SELECT jsonb_object_agg(k.name, k.value) FROM business_key k
       WHERE k.message_id = r.id), jsonb_build_object()) AS business_keys
FROM archived_message r JOIN address a ON a.id = r.address_id WHERE {where}
"""
# In the words of the search.
ASKED = "message, conversation, key.<name>, address, state, reason, group, received, failed and plain words"
_WORD = """
r.id IN (SELECT id FROM archived_message WHERE message_id LIKE %s OR conversation_id LIKE %s
         UNION SELECT k.message_id FROM business_key k WHERE k.value LIKE %s) OR r.address_id = ANY(%s)
"""


@dataclass(frozen=True)
class ArchivedMessageRow:
    """An archived message, as it was when it was archived."""

    id: int
    message_id: str
    address: str
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
        where, parameters = archived_where(message_filter, principal)
        sql = _ROWS.format(where=where)
        return fetch_page(ArchivedMessageRow, sql, parameters, window(cursor, limit, _NEWEST))


def can_answer(message_filter: MessageFilter) -> bool:
    """Return whether the archive's index knows everything that the filter asks for."""
    return all(term.field in {*_CONDITIONS, *FIELDS} for term in message_filter.terms)


def archived_where(message_filter: MessageFilter, principal: Principal, *, is_wide: bool = False) -> Condition:
    """Return the condition on `archived_message r` for what the filter says and the principal may see.

    `is_wide`: what the index does not know may be so; otherwise it raises `InvalidFilter`.
    """
    found: list[str] = []
    parameters: list[Any] = []
    if (visible := visible_ids(principal)) is not None:
        found.append("r.address_id = ANY(%s)")
        parameters.append(visible)
    for term in (as_groups(one, principal) for one in message_filter.terms):
        if term.field not in _CONDITIONS:
            if is_wide:
                continue
            raise InvalidFilter(
                term.field,
                f"Archived messages cannot be asked for {term.field}. They can be for {ASKED}.",
            )
        sql, values = _CONDITIONS[term.field](term)
        found.append(f"({sql}) IS NOT TRUE" if term.negated else f"({sql})")
        parameters += values
    return " AND ".join(found) or "TRUE", parameters


def _any_of(column: str) -> Callable[[Term], Condition]:
    return lambda term: (f"{column} = ANY(%s)", [[str(value) for value in term.values]])


def _compared(column: str) -> Callable[[Term], Condition]:
    return lambda term: (f"{column} {term.operator} %s", [term.values[0]])


def _ago(column: str) -> Callable[[Term], Condition]:
    return lambda term: (f"{column} > now() - %s", [term.values[0]])


def _key(term: Term) -> Condition:
    sql = "r.id IN (SELECT k.message_id FROM business_key k WHERE k.value = ANY(%s) AND k.name = %s)"
    return sql, [list(term.values), term.name]


def _text(term: Term) -> Condition:
    word = str(term.values[0])
    start = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    return _WORD, [start, start, start, addresses_holding(word)]


_CONDITIONS: dict[str, Callable[[Term], Condition]] = {
    "state": _any_of("r.state"),
    "reason": _any_of("r.reason"),
    "message_id": _any_of("r.message_id"),
    "conversation_id": _any_of("r.conversation_id"),
    "address": lambda term: ("r.address_id = ANY(%s)", [address_ids(term.values)]),
    "group": lambda term: ("r.group_id = ANY(%s)", [with_members(term.values)]),
    "key": _key,
    "text": _text,
    "received_at": _compared("r.received_at"),
    "failed_at": _compared("r.failed_at"),
    "age": _ago("r.received_at"),
    "failure_age": _ago("r.failed_at"),
}
