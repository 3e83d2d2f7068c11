"""The terms of a filter: for each message that is read, for live rows as SQL, for archived rows by their columns."""

from collections.abc import Callable
from datetime import datetime

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.core.queries.address_ids import address_ids, addresses_holding, visible_ids
from poisonadmin.core.queries.destination_ids import addresses_delivering_to
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.messages.queries.merged_groups import with_members
from poisonadmin.search.deep.domain.scan import (
    Clause,
    ColumnIs,
    ColumnTest,
    HeaderIs,
    OneOf,
    PayloadAt,
    PayloadHolds,
    condition_at,
    tested,
)
from poisonadmin.search.domain.filters import MessageFilter, Term
from poisonadmin.search.domain.payload_words import DEEP, PAYLOAD, PAYLOAD_AT
from poisonadmin.search.queries.error_search import groups_holding
from poisonadmin.search.queries.group_members import visible_members
from poisonadmin.search.queries.group_words import FIELDS, as_groups
from poisonadmin.search.queries.live import member
from poisonadmin.search.queries.owners import NOBODY

HEADER = "header"
# Of more addresses the archive is not asked: each is compared with.
MAX_ADDRESSES = 10_000
_OUTSIDE = {"text": "!words without a field", "error": "!error"}
_CLAUSES: dict[str, Callable[[Term], Clause]] = {
    PAYLOAD: lambda term: PayloadHolds(str(term.values[0]).encode(), term.negated),
    PAYLOAD_AT: lambda term: PayloadAt(condition_at(term.name, term.operator, term.values), term.negated),
    HEADER: lambda term: HeaderIs([member(term.name, value).decode() for value in term.values], term.negated),
}


def reads_payloads(message_filter: MessageFilter) -> bool:
    """Return whether a filter asks about payloads."""
    return any(term.field in DEEP for term in message_filter.terms)


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


def archive_columns(
    message_filter: MessageFilter, principal: Principal, now: datetime
) -> tuple[list[ColumnTest], list[str]]:
    """Return what the other terms, and the scope, ask of archived messages, and the names of those that ask of what the
    archive's messages do not have.

    Of failures it knows those whose group holds a text, and not their own messages; so it cannot tell which do not.
    """
    columns: list[ColumnTest] = []
    outside: list[str] = []
    for term in plain_of(message_filter).terms:
        column = _column(as_groups(term, principal), principal, now)
        if column is None or any(len(one.values) > MAX_ADDRESSES for one in tested([column])):
            outside.append(_OUTSIDE.get(term.field, term.field))
        else:
            columns.append(column)
    if (visible := visible_ids(principal)) is not None:
        names = _names(visible)
        columns.append(ColumnIs("address", names))
        if len(names) > MAX_ADDRESSES:
            outside.append("the addresses in scope")
    return columns, outside


def _column(term: Term, principal: Principal, now: datetime) -> ColumnTest | None:
    if term.field in ("error", "text"):
        return None if term.negated else _saying(term, principal)
    if term.field == "candidate":
        return ColumnIs("candidate", term.values, negated=term.negated)
    if term.field == "destination":
        names = _names(addresses_delivering_to(term.values, principal))
        return ColumnIs("original_address", names, negated=term.negated, otherwise="address")
    if term.field in ("state", "reason", "message_id", "conversation_id"):
        return ColumnIs(term.field, [str(value) for value in term.values], negated=term.negated)
    if term.field in ("address", "original_address"):
        return ColumnIs(term.field, _names(address_ids(term.values)), negated=term.negated)
    if term.field == "group" or term.field in FIELDS:
        return ColumnIs("group_id", with_members(term.values), negated=term.negated)
    if term.field == "owner":
        return ColumnIs("owner", [None if one == NOBODY else one for one in term.values], negated=term.negated)
    if term.field == "tag":
        return ColumnIs("tags", term.values, negated=term.negated, name="[]")
    if term.field == "key":
        return ColumnIs("keys", term.values, negated=term.negated, name=term.name)
    if term.field == "attempts":
        return ColumnIs("attempt_number", term.values, term.operator, term.negated)
    if term.field in ("received_at", "failed_at"):
        return ColumnIs(term.field, term.values, term.operator, term.negated)
    if term.field in ("age", "failure_age"):
        column = "received_at" if term.field == "age" else "failed_at"
        return ColumnIs(column, [now - term.values[0]], ">", term.negated)
    return None


def _saying(term: Term, principal: Principal) -> ColumnTest:
    """Return what finds messages whose failure's group holds a text, and with `text` those that it names."""
    groups = groups_holding([str(value) for value in term.values], visible_members(principal))
    failed = ColumnIs("fingerprint", fetch_values("SELECT fingerprint FROM failure_group WHERE id = ANY(%s)", [groups]))
    if term.field == "error":
        return failed
    (word,) = term.values
    starts = [ColumnIs(column, [word], "starts") for column in ("message_id", "conversation_id")]
    keys = ColumnIs("keys", [word], "starts", name="{}")
    return OneOf([*starts, keys, ColumnIs("address", _names(addresses_holding(word))), failed])


def _names(ids: list[int]) -> list[str]:
    return fetch_values("SELECT name FROM address WHERE id = ANY(%s) ORDER BY id", [ids])
