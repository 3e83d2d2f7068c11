"""Addresses: where they deliver, whether they do, how many messages are in which state."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.address_ids import address_ids, visible_ids
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, window
from poisonadmin.core.queries.rows import bounded, fetch
from poisonadmin.messages.queries.counts import ByState, by_state_of_each
from poisonadmin.messages.queries.dead_letter_queues import queues_under
from poisonadmin.policies.domain.resolution import Resolved
from poisonadmin.policies.queries.index import policy_index

_KEY = Key(("a.name",), (str,), descending=False)


@dataclass(frozen=True)
class AddressRow:
    """`destination` None: a parking address. `status_*` say who or which message changed the status, when and why.

    `queues`: those auto-created under a dead-letter address, when a single address is looked at.
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
    counts: ByState
    in_force: Resolved
    queues: tuple[str, ...] = ()

    @property
    def policy(self) -> dict[str, Any]:
        """The policy's values, by the names of its settings."""
        return vars(self.in_force.policy)

    @property
    def origins(self) -> dict[str, Any]:
        """The pattern, and the preset where it was one, that each value comes from."""
        return {name: origin._asdict() for name, origin in self.in_force.origins.items()}


@dataclass(frozen=True)
class _StoredAddress:
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


_SELECT = """SELECT a.id, a.name, d.name AS destination, d.is_enabled AS is_destination_enabled, a.status, a.status_by,
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
    conditions: list[str] = ["TRUE"]
    parameters: list[Any] = []
    with bounded():
        for ids in (visible_ids(principal), address_ids(patterns) if patterns else None):
            if ids is not None:
                conditions.append("a.id = ANY(%s)")
                parameters.append(ids)
        if statuses:
            conditions.append("a.status = ANY(%s)")
            parameters.append(list(statuses))
        rows = fetch(
            _StoredAddress,
            f"{_SELECT} WHERE {' AND '.join(conditions)} AND {page.condition} {page.order}",
            [*parameters, *page.parameters],
        )
        found = page.page(rows, lambda row: (row.name,))
        return Page(_with_counts(found.results, principal), found.next, found.previous)


def get_address(name: str, *, principal: Principal) -> AddressRow:
    """Return the address; raise NotFound."""
    principal.require(Permission.READ)
    rows = (
        fetch(_StoredAddress, f"{_SELECT} WHERE a.name = %s", [name])
        if "\x00" not in name and principal.sees(name)
        else []
    )
    if not rows:
        raise NotFound(f"There is no address {name[:255]}.")
    return replace(_with_counts(rows, principal)[0], queues=tuple(queues_under(name)))


def _with_counts(rows: Iterable[_StoredAddress], principal: Principal) -> list[AddressRow]:
    stored = list(rows)
    counts = by_state_of_each("address_id", [row.id for row in stored], principal)
    policies = policy_index()
    return [AddressRow(**vars(row), counts=counts[row.id], in_force=policies.resolve(row.name)) for row in stored]
