"""Exact counts from the counters: the folded totals and the deltas that no tick has folded yet."""

from dataclasses import dataclass

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.address_ids import scope_condition
from poisonadmin.core.queries.rows import fetch, fetch_rows, fetch_values
from poisonadmin.messages.domain.states import Confirming, State
from poisonadmin.messages.queries.merged_groups import seen_as

NOW = """(SELECT address_id, state, reason, group_id, total AS n FROM counter
 UNION ALL SELECT address_id, state, reason, group_id, delta FROM counter_delta) c"""

ByState = dict[str, int]
_SETS = """
SELECT a.name AS address, c.state, c.reason, c.group_id,
       grouping(a.name, c.reason, c.group_id) AS axis, sum(c.n)::bigint AS n
FROM {now} LEFT JOIN address a ON a.id = c.address_id WHERE {scope}
GROUP BY GROUPING SETS ((c.state), (c.state, a.name), (c.state, c.reason), (c.state, c.group_id))
HAVING sum(c.n) <> 0
"""
# What grouping() says where only the address, the reason or the group is grouped by.
_ADDRESS, _REASON, _GROUP = 0b011, 0b101, 0b110
CAP = 10_000
# Over `confirmation c`. The first two are spelt as in its partial index.
CONFIRMING = {
    Confirming.AWAITED: "c.confirmed_at IS NULL AND c.confirm_by IS NOT NULL AND c.confirm_by >= now()",
    Confirming.UNANSWERED: "c.confirmed_at IS NULL AND c.confirm_by IS NOT NULL AND c.confirm_by < now()",
    Confirming.CONFIRMED: "c.confirmed_at IS NOT NULL",
}


@dataclass(frozen=True)
class Counts:
    """How many messages there are in the caller's scope; pairs that count none are left out, states never.

    What is merged into a failure group counts as the group.
    """

    by_state: ByState
    by_reason: dict[str, ByState]
    by_address: dict[str, ByState]
    by_group: dict[int, ByState]


def counts(principal: Principal) -> Counts:
    """Return the exact counts by state, and by state within each reason, address and failure group."""
    principal.require(Permission.READ)
    scope, parameters = scope_condition(principal, "c.address_id")
    found = Counts(empty(), {}, {}, {})
    merged = seen_as()
    for address, state, reason, group_id, axis, n in fetch_rows(_SETS.format(now=NOW, scope=scope), parameters):
        if axis == _ADDRESS:
            found.by_address.setdefault(address or "", empty())[state] = n
        elif axis == _REASON and reason is not None:
            found.by_reason.setdefault(reason, empty())[state] = n
        elif axis == _GROUP and group_id is not None:
            found.by_group.setdefault(merged.get(group_id, group_id), empty())[state] += n
        elif axis == _ADDRESS | _REASON | _GROUP:
            found.by_state[state] = n
    return found


def empty() -> ByState:
    """Return a count of none for every state, in the states' order."""
    return dict.fromkeys((str(state) for state in State), 0)


def by_state_of_each(column: str, keys: list[int], principal: Principal) -> dict[int, ByState]:
    """Return the counts by state for each of `keys` of `column` (address_id or group_id), within the caller's scope."""
    scope, parameters = scope_condition(principal, "c.address_id")
    found = {key: empty() for key in keys}
    rows = fetch_rows(
        f"SELECT c.{column}, c.state, sum(c.n)::bigint FROM {NOW}"  # noqa: S608
        f" WHERE c.{column} = ANY(%s) AND {scope} GROUP BY 1, 2",
        [keys, *parameters],
    )
    for key, state, n in rows:
        found[key][state] = n
    return found


def how_many(address_ids: list[int]) -> int:
    """Return how many messages the addresses hold, in any state."""
    sql = f"SELECT coalesce(sum(c.n), 0)::bigint FROM {NOW} WHERE c.address_id = ANY(%s)"  # noqa: S608
    return int(fetch_values(sql, [address_ids])[0])


@dataclass(frozen=True)
class Unconfirmed:
    """Delivered messages without their consumer's confirmation, each counted to 10,000; `unanswered`: it is overdue."""

    awaited: int
    unanswered: int


def unconfirmed(principal: Principal) -> Unconfirmed:
    """Return how many messages in scope wait for their consumer's confirmation."""
    principal.require(Permission.READ)
    scope, parameters = scope_condition(principal)
    counted = [
        f"""(SELECT count(*) FROM (SELECT FROM confirmation c JOIN message m ON m.id = c.message_id
              WHERE {CONFIRMING[one]} AND m.state = 'DLVD' AND m.attempt_number = c.attempt_number AND {scope}
              LIMIT {CAP}) AS found) AS {one}"""  # noqa: S608  (constants)
        for one in (Confirming.AWAITED, Confirming.UNANSWERED)
    ]
    return fetch(Unconfirmed, f"SELECT {', '.join(counted)}", parameters * 2)[0]


@dataclass(frozen=True)
class ScopeCounts(Unconfirmed, Counts):
    """Both: how many there are, and how many wait for their consumer's confirmation."""


def all_counts(principal: Principal) -> ScopeCounts:
    """Return the exact counts, and how many wait for their consumer's confirmation."""
    return ScopeCounts(**vars(counts(principal)), **vars(unconfirmed(principal)))
