"""Destinations, to which addresses deliver. Secrets are never read here: only the names of those that are set."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import Versioned, fetch, fetch_one, known
from poisonadmin.core.queries.scope import destinations_seen, scope_condition
from poisonadmin.core.queries.sql import Sql

_KEY = Key(("d.name",), (str,), descending=False)


@dataclass(frozen=True)
class DestinationRow(Versioned):
    """`owner`: the pattern of the addresses that it is kept for. `secret_names` are the headers whose values are kept
    secret. `slowed_by` says why it takes less than usual.
    """

    id: int
    name: str
    owner: str
    kind: str
    config: Mapping[str, Any]
    secret_names: list[str]
    max_rate_per_second: float | None
    is_enabled: bool
    slowed_by: str | None
    address_count: int
    version: int
    created_at: datetime
    updated_at: datetime

    @property
    def goes_to(self) -> str:
        """Its target in one line: the method and URL, the handler's callable, the broker and the redirect."""
        if "callable" in self.config:
            return str(self.config["callable"])
        if broker := BROKERS.get(self.kind):
            redirect = next((self.config[name] for name in broker.redirects if self.config.get(name)), None)
            return f"{self.config.get('url', '')}, {redirect or 'where each message came from'}"
        return f"{self.config.get('method', 'POST')} {self.config.get('url', '')}"


def list_destinations(
    *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[DestinationRow]:
    """Return one page by name, of those whose owner pattern lies within the caller's scope."""
    principal.require(Permission.READ)
    return fetch_page(DestinationRow, _in_scope(principal), page=window(cursor, limit, _KEY))


def get_destination(name: str, *, principal: Principal) -> DestinationRow:
    """Return the destination; raise NotFound, also out of scope: policies that name it do not bring it into scope."""
    principal.require(Permission.READ)
    found = None
    if "\x00" not in name:
        found = fetch_one(DestinationRow, _in_scope(principal) + Sql("AND d.name = {name}", name=name))
    return known(found, f"destination {name[:100]}")


@dataclass(frozen=True)
class AddressStatusRow:
    """An address and whether it delivers."""

    name: str
    status: str


def addresses_of(destination_id: int, *, principal: Principal, limit: int = 200) -> list[AddressStatusRow]:
    """Return the first addresses, by name, that deliver to the destination and that the principal may see."""
    principal.require(Permission.READ)
    return fetch(
        AddressStatusRow,
        Sql(
            """SELECT a.name, a.status FROM address a
            WHERE a.destination_id = {id} AND {scope} ORDER BY a.name LIMIT {limit}""",
            id=destination_id,
            scope=scope_condition(principal, "a.id"),
            limit=limit,
        ),
    )


def _in_scope(principal: Principal) -> Sql:
    """Return the query of the destinations in scope, each with its addresses in scope counted."""
    return Sql(
        """SELECT d.id, d.name, d.owner, d.kind, d.config,
 ARRAY(SELECT jsonb_object_keys(d.secrets) ORDER BY 1) AS secret_names,
 d.max_rate_per_second, d.is_enabled, d.slowed_by,
 (SELECT count(*) FROM address a WHERE a.destination_id = d.id AND {scope}) AS address_count,
 d.version, d.created_at, d.updated_at FROM destination d
        WHERE {seen}""",
        scope=scope_condition(principal, "a.id"),
        seen=destinations_seen(principal, "d.id"),
    )
