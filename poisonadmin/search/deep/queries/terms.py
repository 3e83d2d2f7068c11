"""The terms of a filter: for each message that is read, for live rows as SQL, for archived rows as Spark's SQL."""

from collections.abc import Callable
from datetime import datetime

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.search.deep.domain.scan import Clause, HeaderIs, PayloadAt, PayloadHolds, condition_at
from poisonadmin.search.domain.filters import MessageFilter, Term
from poisonadmin.search.domain.payload_words import PAYLOAD, PAYLOAD_AT
from poisonadmin.search.queries.files import in_files
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
    return " AND ".join(conditions) or "TRUE", outside
