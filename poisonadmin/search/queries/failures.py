"""The failure log across messages, newest first."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.masking import clear_of_masks, masked_page
from poisonadmin.core.queries.paging import COUNT_SECONDS, DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import QueryTooExpensive, bounded
from poisonadmin.core.queries.scope import addresses_in_scope, destinations_seen
from poisonadmin.core.queries.sql import EMPTY, TRUE, Sql, all_given, all_of
from poisonadmin.messages.queries.counts import how_many
from poisonadmin.messages.queries.merged_groups import SEEN_AS, with_members
from poisonadmin.search.domain.filters import MessageFilter
from poisonadmin.search.queries.counted import count_by_counters
from poisonadmin.search.queries.error_search import attempt_condition
from poisonadmin.search.queries.lists import capped_count
from poisonadmin.search.queries.live import Where, compile_filter

FEW_MESSAGES = 15_000
# What a filter finds is counted by looking at each, which costs more than the counters.
FEW_FOUND = 2_000
_FAILURE_KEY = Key(("t.finished_at", "t.message_id", "t.attempt_number"), (datetime, int, int))


@dataclass(frozen=True)
class FailureFilter:
    """All that is given must hold; any one of the values of a tuple."""

    addresses: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()
    errors: tuple[str, ...] = ()
    destinations: tuple[str, ...] = ()
    message: int | None = None
    failed_after: datetime | None = None
    failed_before: datetime | None = None


@dataclass(frozen=True)
class FailureRow:
    """One attempt that failed; `address` is where the message is now."""

    message_id: int
    attempt_number: int
    finished_at: datetime
    outcome: str
    error_class: str | None
    error_message: str | None
    title: str | None
    status_code: int | None
    address: str
    destination: str | None
    node: str | None
    group_id: int | None


def list_failures(
    only: FailureFilter,
    *,
    principal: Principal,
    within: MessageFilter | None = None,
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Page[FailureRow]:
    """Return one page; with `within`, of the messages that a filter finds. Raise InvalidCursor, QueryTooExpensive."""
    principal.require(Permission.READ)
    page = window(cursor, limit, _FAILURE_KEY)
    with bounded():
        addresses = addresses_in_scope(principal, only.addresses)
        if addresses == []:
            return Page([], None, None)
        where = all_given(
            {
                "m.address_id = ANY({value})": addresses,
                "g.id = ANY({value})": with_members(only.groups) if only.groups else None,
                "d.name = ANY({value})": list(only.destinations) or None,
                "t.message_id = {value}": only.message,
                "t.finished_at >= {value}": only.failed_after,
                "t.finished_at < {value}": only.failed_before,
            }
        )
        seen = destinations_seen(principal, "d.id")
        # Its condition is spelt as in the partial index `attempt_failures`, which a parameter would hide from the
        # planner. What a handler discarded, moved or rolled back is there too, and is no failure: it has no class.
        found = Sql(
            """SELECT t.message_id, t.attempt_number, t.finished_at, t.outcome, t.error_class, t.error_message,
            t.title, t.status_code, a.name AS address, CASE WHEN {seen} THEN d.name END AS destination, n.name AS node,
            {seen_as} AS group_id
            FROM attempt t JOIN {messages} m ON m.id = t.message_id JOIN address a ON a.id = m.address_id
            LEFT JOIN destination d ON d.id = t.destination_id
            LEFT JOIN node n ON n.claim_id = t.claim_id AND n.shard = t.shard
            LEFT JOIN failure_group g ON g.fingerprint = t.fingerprint
            WHERE t.outcome <> 'delivered' AND t.error_class IS NOT NULL AND {where} AND {error} AND {named}""",
            seen=seen,
            seen_as=SEEN_AS,
            messages=_messages(addresses) if within is None else _found(within, principal),
            where=where,
            error=_holding(only.errors, principal) if only.errors else TRUE,
            named=seen if only.destinations else TRUE,
        )
        return masked_page(fetch_page(FailureRow, found, page=page), principal)


def _holding(texts: tuple[str, ...], principal: Principal) -> Sql:
    """Return the condition that an attempt holds a text, where errors are not masked for the reader."""
    return all_of([attempt_condition(texts, principal), clear_of_masks(principal)])


def _messages(addresses: list[int] | None) -> Sql:
    """Return what to join the attempts with: where the addresses hold few messages, those first and alone.

    Walking the log newest first would read all of it for an address whose messages do not fail.
    """
    if addresses is None or how_many(addresses) > FEW_MESSAGES:
        return Sql("message")
    return Sql("(SELECT * FROM message WHERE address_id = ANY({ids}) OFFSET 0)", ids=addresses)


def _found(within: MessageFilter, principal: Principal) -> Sql:
    """Return what to join the attempts with: what the filter finds, first and alone where that is little."""
    where = compile_filter(within, principal)
    first = Sql("OFFSET 0") if _is_little(within, where, principal) else EMPTY
    return Sql("(SELECT m.* FROM message m WHERE {where} {first})", where=where.whole, first=first)


def _is_little(within: MessageFilter, where: Where, principal: Principal) -> bool:
    counted = count_by_counters(within, principal)
    if counted is not None:
        return counted <= FEW_MESSAGES
    try:
        with bounded(COUNT_SECONDS):
            return not capped_count(where.whole, FEW_FOUND).capped
    except QueryTooExpensive:
        return False
