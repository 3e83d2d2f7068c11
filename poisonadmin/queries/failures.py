"""The failure log across messages, newest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.domain.access import Permission, Principal
from poisonadmin.queries.address_ids import address_ids, visible_ids
from poisonadmin.queries.message_where import groups_holding
from poisonadmin.queries.paging import DEFAULT_LIMIT, Key, Page, window
from poisonadmin.queries.rows import bounded, fetch

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
        where, parameters = _where(only, principal)
        rows = fetch(
            FailureRow,
            "SELECT t.message_id, t.attempt_number, t.finished_at, t.outcome, t.error_class, t.error_message,"  # noqa: S608
            " t.title, t.status_code, a.name AS address, d.name AS destination, n.name AS node, g.id AS group_id"
            " FROM attempt t JOIN message m ON m.id = t.message_id JOIN address a ON a.id = m.address_id"
            " LEFT JOIN destination d ON d.id = t.destination_id"
            " LEFT JOIN node n ON n.claim_id = t.claim_id AND n.shard = t.shard"
            " LEFT JOIN failure_group g ON g.fingerprint = t.fingerprint"
            # Spelt out as in the partial index `attempt_failures`, which a parameter would hide from the planner.
            f" WHERE t.outcome <> 'delivered' AND {where} AND {page.condition} {page.order}",
            [*parameters, *page.parameters],
        )
    return page.page(rows, lambda row: (row.finished_at, row.message_id, row.attempt_number))


def _where(only: FailureFilter, principal: Principal) -> tuple[str, list[Any]]:
    conditions: list[tuple[str, Any]] = []
    visible = visible_ids(principal)
    if visible is not None:
        conditions.append(("m.address_id = ANY(%s)", visible))
    if only.addresses:
        conditions.append(("m.address_id = ANY(%s)", address_ids(only.addresses)))
    if only.groups:
        conditions.append(("g.id = ANY(%s)", list(only.groups)))
    if only.errors:
        conditions.append(("g.id = ANY(%s)", groups_holding(only.errors)))
    if only.destinations:
        conditions.append(("d.name = ANY(%s)", list(only.destinations)))
    if only.message is not None:
        conditions.append(("t.message_id = %s", only.message))
    if only.failed_after is not None:
        conditions.append(("t.finished_at >= %s", only.failed_after))
    if only.failed_before is not None:
        conditions.append(("t.finished_at < %s", only.failed_before))
    return _joined(conditions)


def _joined(conditions: Sequence[tuple[str, Any]]) -> tuple[str, list[Any]]:
    return " AND ".join(["TRUE", *(sql for sql, _ in conditions)]), [value for _, value in conditions]
