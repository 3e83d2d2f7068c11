"""Addresses: where they deliver, whether they do, how many messages are in which state."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import bounded, fetch, fetch_values
from poisonadmin.core.queries.scope import addresses_in_scope, destinations_seen, scope_condition
from poisonadmin.core.queries.sql import Sql, all_given, raw
from poisonadmin.messages.queries.counts import ByState, by_state_of_each
from poisonadmin.messages.queries.dead_letter_queues import queues_under
from poisonadmin.policies.domain.resolution import Resolved
from poisonadmin.policies.queries import policy_index

_KEY = Key(("a.name",), (str,), descending=False)


@dataclass(frozen=True)
class StoredAddress:
    """`destination` None: a parking address, or, where `is_destination_enabled` is not None, one out of scope.

    `status_*` say who or which message changed the status, when and why.
    """

    id: int
    name: str
    destination: str | None
    is_destination_enabled: bool | None
    status: str
    status_by: str | None
    status_note: str | None
    status_message_id: int | None
    status_at: datetime
    created_at: datetime


@dataclass(frozen=True)
class AddressRow(StoredAddress):
    """With its counts and policy. `patterns`: of the policies that apply, the most specific first.

    `queues`: those auto-created under a dead-letter address, where one is shown.
    """

    counts: ByState
    in_force: Resolved
    patterns: tuple[str, ...]
    queues: tuple[str, ...] = ()

    @property
    def policy(self) -> dict[str, Any]:
        """The policy's values, by the names of its settings."""
        return vars(self.in_force.policy)

    @property
    def origins(self) -> dict[str, Any]:
        """The pattern, and the preset where it was one, that each value comes from."""
        return {name: origin._asdict() for name, origin in self.in_force.origins.items()}


_SELECT = """SELECT a.id, a.name, CASE WHEN {seen} THEN d.name END AS destination,
 d.is_enabled AS is_destination_enabled, a.status, a.status_by,
 a.status_note, a.status_message_id, a.status_at, a.created_at FROM address a
 LEFT JOIN destination d ON d.id = a.destination_id"""


def list_addresses(
    *,
    principal: Principal,
    patterns: Sequence[str] = (),
    statuses: Sequence[str] = (),
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Page[AddressRow]:
    """Return one page by name, of the addresses that any of `patterns` covers and whose status is one of `statuses`."""
    principal.require(Permission.READ)
    page = window(cursor, limit, _KEY)
    with bounded():
        where, parameters = all_given(
            {
                "a.id = ANY({value})": addresses_in_scope(principal, patterns),
                "a.status = ANY({value})": list(statuses) or None,
            }
        )
        seen, own = destinations_seen(principal, "d.id")
        sql = f"{_SELECT.format(seen=seen)} WHERE {where}"
        found = fetch_page(StoredAddress, raw(sql, [*own, *parameters]), page)
        return Page(_with_counts(found.results, principal), found.next, found.previous, found.counting)


def names_holding(text: str, *, principal: Principal, limit: int) -> list[str]:
    """Return the first addresses in scope whose name holds the text, in any case; those that begin with it first."""
    principal.require(Permission.READ)
    return fetch_values(
        Sql(
            """SELECT name FROM address WHERE strpos(lower(name), lower({text})) > 0 AND {scope}
            ORDER BY NOT starts_with(lower(name), lower({text})), name LIMIT {limit}""",
            text=text,
            scope=scope_condition(principal, "id"),
            limit=limit,
        )
    )


def get_address(name: str, *, principal: Principal) -> AddressRow:
    """Return the address; raise NotFound."""
    principal.require(Permission.READ)
    is_visible = "\x00" not in name and principal.sees(name)
    seen, own = destinations_seen(principal, "d.id")
    rows = fetch(StoredAddress, f"{_SELECT.format(seen=seen)} WHERE a.name = %s", [*own, name]) if is_visible else []
    if not rows:
        raise NotFound(f"There is no address {name[:255]}.")
    return replace(_with_counts(rows, principal)[0], queues=tuple(queues_under(name)))


def _with_counts(rows: Sequence[StoredAddress], principal: Principal) -> list[AddressRow]:
    counts = by_state_of_each("address_id", [row.id for row in rows], principal)
    policies = policy_index()
    return [
        AddressRow(
            **vars(row),
            counts=counts[row.id],
            in_force=policies.resolve(row.name),
            patterns=policies.matching(row.name),
        )
        for row in rows
    ]
