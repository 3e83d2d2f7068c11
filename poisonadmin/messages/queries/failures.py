"""The failure log across messages, newest first."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.address_ids import address_ids, visible_ids
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, window
from poisonadmin.core.queries.rows import bounded, fetch
from poisonadmin.messages.queries.counts import how_many
from poisonadmin.messages.queries.filter_sql import groups_holding

FEW_MESSAGES = 20_000
_KEY = Key(("t.finished_at", "t.message_id", "t.attempt_number"), (datetime, int, int))


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
    only: FailureFilter, *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[FailureRow]:
    """Return one page. Raise InvalidCursor, QueryTooExpensive."""
    principal.require(Permission.READ)
    page = window(cursor, limit, _KEY)
    with bounded():
        addresses = _addresses(only, principal)
        groups = _groups(only)
        if addresses == [] or groups == []:
            return Page([], None, None)
        where, parameters = _where(only, addresses, groups)
        messages, own = _messages(addresses)
        rows = fetch(
            FailureRow,
            "SELECT t.message_id, t.attempt_number, t.finished_at, t.outcome, t.error_class, t.error_message,"  # noqa: S608
            " t.title, t.status_code, a.name AS address, d.name AS destination, n.name AS node, g.id AS group_id"
            f" FROM attempt t JOIN {messages} m ON m.id = t.message_id JOIN address a ON a.id = m.address_id"
            " LEFT JOIN destination d ON d.id = t.destination_id"
            " LEFT JOIN node n ON n.claim_id = t.claim_id AND n.shard = t.shard"
            " LEFT JOIN failure_group g ON g.fingerprint = t.fingerprint"
            # Spelt out as in the partial index `attempt_failures`, which a parameter would hide from the planner.
            # What a handler discarded, moved or rolled back is there too, and is no failure: it has no class.
            " WHERE t.outcome <> 'delivered' AND t.error_class IS NOT NULL"
            f" AND {where} AND {page.condition} {page.order}",
            [*own, *parameters, *page.parameters],
        )
    return page.page(rows, lambda row: (row.finished_at, row.message_id, row.attempt_number))


def _addresses(only: FailureFilter, principal: Principal) -> list[int] | None:
    visible = visible_ids(principal)
    if not only.addresses:
        return visible
    wanted = address_ids(only.addresses)
    return wanted if visible is None else sorted(set(wanted) & set(visible))


def _groups(only: FailureFilter) -> list[int] | None:
    if not only.errors:
        return list(only.groups) or None
    found = groups_holding(only.errors)
    return sorted(set(found) & set(only.groups)) if only.groups else found


def _messages(addresses: list[int] | None) -> tuple[str, list[Any]]:
    """Return what to join the attempts with: where the addresses hold few messages, those first and alone.

    Walking the log newest first would read all of it for an address whose messages do not fail.
    """
    if addresses is None or how_many(addresses) > FEW_MESSAGES:
        return "message", []
    return "(SELECT id, address_id FROM message WHERE address_id = ANY(%s) OFFSET 0)", [addresses]


def _where(only: FailureFilter, addresses: list[int] | None, groups: list[int] | None) -> tuple[str, list[Any]]:
    conditions = {
        "m.address_id = ANY(%s)": addresses,
        "g.id = ANY(%s)": groups,
        "d.name = ANY(%s)": list(only.destinations) or None,
        "t.message_id = %s": only.message,
        "t.finished_at >= %s": only.failed_after,
        "t.finished_at < %s": only.failed_before,
    }
    given = {sql: value for sql, value in conditions.items() if value is not None}
    return " AND ".join(["TRUE", *given]), list(given.values())
