"""Exact counts from the counters: the folded totals and the deltas that no tick has folded yet."""

from dataclasses import dataclass

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.address_ids import visible_ids
from poisonadmin.core.queries.rows import fetch, fetch_values
from poisonadmin.messages.domain.states import State

NOW = """(SELECT address_id, state, reason, group_id, total AS n FROM counter
 UNION ALL SELECT address_id, state, reason, group_id, delta FROM counter_delta) c"""

ByState = dict[str, int]


@dataclass(frozen=True)
class Counts:
    """How many messages there are in the caller's scope; pairs that count none are left out, states never."""

    by_state: ByState
    by_reason: dict[str, ByState]
    by_address: dict[str, ByState]
    by_group: dict[int, ByState]


@dataclass(frozen=True)
class _Count:
    address: str | None
    state: str
    reason: str | None
    group_id: int | None
    axis: int
    n: int


_SETS = """
SELECT a.name AS address, c.state, c.reason, c.group_id,
       grouping(a.name, c.reason, c.group_id) AS axis, sum(c.n)::bigint AS n
FROM {now} LEFT JOIN address a ON a.id = c.address_id WHERE {scope}
GROUP BY GROUPING SETS ((c.state), (c.state, a.name), (c.state, c.reason), (c.state, c.group_id))
HAVING sum(c.n) <> 0
"""
# What grouping() says where only the address, the reason or the group is grouped by.
_ADDRESS, _REASON, _GROUP = 0b011, 0b101, 0b110


def counts(principal: Principal) -> Counts:
    """Return the exact counts by state, and by state within each reason, address and failure group."""
    principal.require(Permission.READ)
    visible = visible_ids(principal)
    scope, parameters = ("TRUE", []) if visible is None else ("c.address_id = ANY(%s)", [visible])
    found = Counts(empty(), {}, {}, {})
    for row in fetch(_Count, _SETS.format(now=NOW, scope=scope), parameters):
        if row.axis == _ADDRESS:
            found.by_address.setdefault(row.address or "", empty())[row.state] = row.n
        elif row.axis == _REASON and row.reason is not None:
            found.by_reason.setdefault(row.reason, empty())[row.state] = row.n
        elif row.axis == _GROUP and row.group_id is not None:
            found.by_group.setdefault(row.group_id, empty())[row.state] = row.n
        elif row.axis == _ADDRESS | _REASON | _GROUP:
            found.by_state[row.state] = row.n
    return found


def empty() -> ByState:
    """Return a count of none for every state, in the states' order."""
    return dict.fromkeys((str(state) for state in State), 0)


@dataclass(frozen=True)
class _KeyCount:
    key: int
    state: str
    n: int


def by_state_of_each(column: str, keys: list[int], principal: Principal) -> dict[int, ByState]:
    """Return the counts by state for each of `keys` of `column` (address_id or group_id), within the caller's scope."""
    visible = visible_ids(principal)
    scope, parameters = ("TRUE", []) if visible is None else ("c.address_id = ANY(%s)", [visible])
    found = {key: empty() for key in keys}
    rows = fetch(
        _KeyCount,
        f"SELECT c.{column} AS key, c.state, sum(c.n)::bigint AS n FROM {NOW}"  # noqa: S608
        f" WHERE c.{column} = ANY(%s) AND {scope} GROUP BY 1, 2",
        [keys, *parameters],
    )
    for row in rows:
        found[row.key][row.state] = row.n
    return found


def how_many(address_ids: list[int]) -> int:
    """Return how many messages the addresses hold, in any state."""
    sql = f"SELECT coalesce(sum(c.n), 0)::bigint FROM {NOW} WHERE c.address_id = ANY(%s)"  # noqa: S608
    return int(fetch_values(sql, [address_ids])[0])
