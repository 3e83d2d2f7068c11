"""Which destinations a principal may know of, as conditions, names and the addresses that deliver there."""

from collections.abc import Sequence
from typing import Any

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.rows import fetch_rows, fetch_values


def destinations_seen(principal: Principal, column: str) -> tuple[str, list[Any]]:
    """Return the condition that `column` is the id of a destination in scope, and its parameters."""
    if principal.sees_everything:
        return "TRUE", []
    owners = fetch_rows("SELECT id, owner FROM destination")
    return f"{column} = ANY(%s)", [[destination_id for destination_id, owner in owners if principal.covers(owner)]]


def destination_names_seen(principal: Principal) -> list[str] | None:
    """Return the names of the destinations in scope; None: all are."""
    if principal.sees_everything:
        return None
    return [name for name, owner in fetch_rows("SELECT name, owner FROM destination") if principal.covers(owner)]


def addresses_delivering_to(names: Sequence[str], principal: Principal) -> list[int]:
    """Return the ids of the addresses that deliver to one of these destinations, as far as those are in scope."""
    seen, parameters = destinations_seen(principal, "d.id")
    return fetch_values(
        "SELECT a.id FROM address a JOIN destination d ON d.id = a.destination_id"  # noqa: S608
        f" WHERE d.name = ANY(%s) AND {seen} ORDER BY 1",
        [list(names), *parameters],
    )
