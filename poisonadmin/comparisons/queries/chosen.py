"""Which messages are compared: the failing ones of a selection, and others that a filter finds.

Of more than are looked at, chosen ones: in the order of a hash of their ids, which is the same whenever it is asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from poisonadmin.comparisons.domain.comparison import MAX_BYTES, MAX_FAILING, MAX_OTHERS
from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.address_ids import scope_condition
from poisonadmin.core.queries.filter_values import MAX_VALUES
from poisonadmin.core.queries.rows import bounded, fetch_rows
from poisonadmin.messages.domain.states import State
from poisonadmin.messages.queries.filters import parse_filter
from poisonadmin.messages.queries.lists import matching

# Of others the newest are chosen from.
POOL = 1_000_000
SECONDS = 120
# What failed within minutes is compared with what was delivered within this.
LEAST_SPAN = timedelta(hours=1)

_MEMBERS = "SELECT unnest(message_ids) AS id FROM selection_piece WHERE selection_id = %s"
# The choice is made by ids alone; what is read of a message is read of the chosen ones only.
_CHOOSE = """
WITH found AS MATERIALIZED ({found}), chosen AS (
    SELECT id, address_id FROM found ORDER BY hashint8extended(id, %s) LIMIT {most}
)
SELECT chosen.id, chosen.address_id, (SELECT payload_bytes FROM envelope WHERE envelope.id = chosen.id),
       (SELECT count(*) FROM found)
FROM chosen ORDER BY hashint8extended(chosen.id, %s)
"""
_SPAN = """
SELECT min(received_at), max(received_at) FROM envelope WHERE id = ANY(%s)
"""
_HOMES = """
SELECT name FROM address JOIN (
    SELECT coalesce(original_address_id, address_id) AS id, count(*) FROM message WHERE id = ANY(%s) GROUP BY 1
) AS home ON home.id = address.id ORDER BY home.count DESC, name
"""


@dataclass(frozen=True)
class Chosen:
    """Ids, rising, of `count` that there are; and of the addresses that they are on."""

    ids: list[int]
    count: int
    address_ids: set[int]


def choose_failing(selection_id: int, *, seed: int, principal: Principal) -> Chosen:
    """Return members of the selection that are still stored and in scope. Errors: `QueryTooExpensive`."""
    scope, values = scope_condition(principal)
    found = f"SELECT m.id, m.address_id FROM ({_MEMBERS}) AS member JOIN message m ON m.id = member.id WHERE {scope}"  # noqa: S608
    return _choose(found, [selection_id, *values], MAX_FAILING, seed)


def choose_others(
    against: Mapping[str, Sequence[str]], selection_id: int, *, seed: int, principal: Principal
) -> Chosen:
    """Return messages that a filter finds and that are no members. Errors: `InvalidFilter`, `QueryTooExpensive`."""
    with bounded(SECONDS):
        sql, values = matching(parse_filter(against), principal, POOL)
        found = f"SELECT m.id, m.address_id FROM ({sql}) AS m LEFT JOIN ({_MEMBERS}) AS member USING (id) WHERE member.id IS NULL"  # noqa: S608, E501
        return _choose(found, [*values, selection_id], MAX_OTHERS, seed)


def _choose(found: str, values: Sequence[Any], most: int, seed: int) -> Chosen:
    with bounded(SECONDS):
        rows = fetch_rows(_CHOOSE.format(found=found, most=most), [*values, seed, seed])
    ids: list[int] = []
    addresses: set[int] = set()
    size = 0
    for message_id, address_id, payload_bytes, _ in rows:
        if ids and size + (payload_bytes or 0) > MAX_BYTES * most // (MAX_FAILING + MAX_OTHERS):
            break
        size += payload_bytes or 0
        ids.append(message_id)
        addresses.add(address_id)
    return Chosen(sorted(ids), rows[0][3] if rows else 0, addresses)


def delivered_beside(failing: Sequence[int], *, principal: Principal) -> dict[str, list[str]]:
    """Return the filter for what was delivered at the same addresses, and received in the same time.

    At the addresses that messages came in on, where some have been moved. Errors: `IndexError` for no message.
    """
    since, until = fetch_rows(_SPAN, [list(failing)])[0]
    homes = [name for (name,) in fetch_rows(_HOMES, [list(failing)]) if principal.sees(name)][:MAX_VALUES]
    if not homes:
        raise IndexError("none of the messages is there any more")
    return {
        "state": [State.DLVD.value],
        "address": homes,
        "received_after": [min(since, until - LEAST_SPAN).isoformat()],
        "received_before": [(until + timedelta(seconds=1)).isoformat()],
    }
