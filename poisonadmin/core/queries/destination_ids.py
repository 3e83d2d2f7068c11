"""Which destinations a principal may know of, as conditions, names and the addresses that deliver there."""

from collections.abc import Sequence

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.core.queries.sql import TRUE, Sql, name


def destinations_seen(principal: Principal, column: str) -> Sql:
    """Return the condition that `column` is the id of a destination in scope."""
    if principal.sees_everything:
        return TRUE
    owners = fetch_rows("SELECT id, owner FROM destination")
    ids = [destination_id for destination_id, owner in owners if principal.covers(owner)]
    return Sql("{column} = ANY({ids})", column=name(column), ids=ids)


def destination_names_seen(principal: Principal) -> list[str] | None:
    """Return the names of the destinations in scope; None: all are."""
    if principal.sees_everything:
        return None
    return [one for one, owner in fetch_rows("SELECT name, owner FROM destination") if principal.covers(owner)]


def addresses_delivering_to(names: Sequence[str], principal: Principal) -> list[int]:
    """Return the ids of the addresses that deliver to one of these destinations, as far as those are in scope."""
    return fetch_values(
        Sql(
            """SELECT a.id FROM address a JOIN destination d ON d.id = a.destination_id
            WHERE d.name = ANY({names}) AND {seen} ORDER BY 1""",
            names=list(names),
            seen=destinations_seen(principal, "d.id"),
        )
    )
