"""Exact counts from the counters: the folded totals and the deltas that no tick has folded yet; and their checks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.rows import fetch, fetch_rows, fetch_values
from poisonadmin.core.queries.scope import scope_condition, visible_ids
from poisonadmin.core.queries.sql import TRUE, Sql, all_given, join, name
from poisonadmin.messages.domain.states import Confirming, State
from poisonadmin.messages.queries.merged_groups import seen_as

# What counters tell apart, as columns of `message`, `counter` and `counter_delta`.
COUNTED = Sql("address_id, state, reason, group_id, original_address_id")
NOW = Sql(
    """(SELECT {counted}, total AS n FROM counter
 UNION ALL SELECT {counted}, delta FROM counter_delta) c""",
    counted=COUNTED,
)

# The same, with the groups that people see.
NOW_SEEN = Sql(
    """(SELECT c.address_id, c.state, c.reason, coalesce(g.merged_into_id, c.group_id) AS group_id,
 c.original_address_id, c.n FROM {now} LEFT JOIN failure_group g ON g.id = c.group_id) c""",
    now=NOW,
)

ByState = dict[str, int]
# What grouping() says where only the address, the reason, the group or the original address is grouped by.
_ADDRESS, _REASON, _GROUP, _ORIGINAL = 0b0111, 0b1011, 0b1101, 0b1110
_STATE = 0b1111
CAP = 10_000
# Over `confirmation c`. The first two are spelt as in its partial index.
CONFIRMING = {
    Confirming.AWAITED: Sql("c.confirmed_at IS NULL AND c.confirm_by IS NOT NULL AND c.confirm_by >= now()"),
    Confirming.UNANSWERED: Sql("c.confirmed_at IS NULL AND c.confirm_by IS NOT NULL AND c.confirm_by < now()"),
    Confirming.CONFIRMED: Sql("c.confirmed_at IS NOT NULL"),
}


@dataclass(frozen=True)
class Counts:
    """Counts of messages in the caller's scope; pairs that count none are left out, states never.

    What is merged into a failure group counts as the group.
    """

    by_state: ByState
    by_reason: dict[str, ByState]
    by_address: dict[str, ByState]
    by_group: dict[int, ByState]
    by_original_address: dict[str, ByState]


def counts(principal: Principal) -> Counts:
    """Return the exact counts by state, and by state within each reason, group, address and original address."""
    principal.require(Permission.READ)
    found = Counts(empty(), {}, {}, {}, {})
    merged = seen_as()
    sets = Sql(
        """SELECT a.name, c.state, c.reason, c.group_id, o.name,
               grouping(a.name, c.reason, c.group_id, o.name) AS axis, sum(c.n)::bigint AS n
        FROM {now} LEFT JOIN address a ON a.id = c.address_id LEFT JOIN address o ON o.id = c.original_address_id
        WHERE {scope}
        GROUP BY GROUPING SETS
            ((c.state), (c.state, a.name), (c.state, c.reason), (c.state, c.group_id), (c.state, o.name))
        HAVING sum(c.n) <> 0""",
        now=NOW,
        scope=scope_condition(principal, "c.address_id"),
    )
    for address, state, reason, group_id, original, axis, n in fetch_rows(sets):
        if axis == _ADDRESS:
            found.by_address.setdefault(address or "", empty())[state] = n
        elif axis == _REASON and reason is not None:
            found.by_reason.setdefault(reason, empty())[state] = n
        elif axis == _GROUP and group_id is not None:
            found.by_group.setdefault(merged.get(group_id, group_id), empty())[state] += n
        elif axis == _ORIGINAL and original is not None:
            found.by_original_address.setdefault(original, empty())[state] = n
        elif axis == _STATE:
            found.by_state[state] = n
    return found


def empty() -> ByState:
    """Return a count of none for every state, in the states' order."""
    return dict.fromkeys((str(state) for state in State), 0)


def by_state_of_each(column: str, keys: list[int], principal: Principal) -> dict[int, ByState]:
    """Return the counts by state for each of `keys` of `column` (address_id or group_id), within the caller's scope."""
    found = {key: empty() for key in keys}
    rows = fetch_rows(
        Sql(
            """SELECT {column}, c.state, sum(c.n)::bigint FROM {now}
            WHERE {column} = ANY({keys}) AND {scope} GROUP BY 1, 2""",
            column=name(f"c.{column}"),
            now=NOW,
            keys=keys,
            scope=scope_condition(principal, "c.address_id"),
        )
    )
    for key, state, n in rows:
        found[key][state] = n
    return found


def how_many(address_ids: list[int]) -> int:
    """Return how many messages the addresses hold, in any state."""
    held = Sql(
        "SELECT coalesce(sum(c.n), 0)::bigint FROM {now} WHERE c.address_id = ANY({ids})", now=NOW, ids=address_ids
    )
    return int(fetch_values(held)[0])


@dataclass(frozen=True)
class Unconfirmed:
    """Delivered messages without their consumer's confirmation, each counted to 10,000; `unanswered`: it is overdue."""

    awaited: int
    unanswered: int


def unconfirmed(principal: Principal) -> Unconfirmed:
    """Return how many messages in scope wait for their consumer's confirmation."""
    principal.require(Permission.READ)
    counted = [
        Sql(
            """(SELECT count(*) FROM (SELECT FROM confirmation c JOIN message m ON m.id = c.message_id
              WHERE {is_so} AND m.state = 'DLVD' AND m.attempt_number = c.attempt_number AND {scope}
              LIMIT {cap}) AS found) AS {name}""",
            is_so=CONFIRMING[one],
            scope=scope_condition(principal),
            cap=CAP,
            name=name(one),
        )
        for one in (Confirming.AWAITED, Confirming.UNANSWERED)
    ]
    return fetch(Unconfirmed, Sql("SELECT {counted}", counted=join(", ", counted)))[0]


@dataclass(frozen=True)
class ScopeCounts(Unconfirmed, Counts):
    """Both: how many there are, and how many wait for their consumer's confirmation."""


def all_counts(principal: Principal) -> ScopeCounts:
    """Return the exact counts, and how many wait for their consumer's confirmation."""
    return ScopeCounts(**vars(counts(principal)), **vars(unconfirmed(principal)))


# One statement sees one snapshot: a change of a message and its deltas are in it together, or not at all.
DIFFERENT = partial(
    Sql,
    """SELECT {counted}, sum(counted)::bigint AS counted, sum(there)::bigint AS there FROM (
        SELECT {counted}, n AS counted, 0 AS there FROM {now} WHERE {of}
        UNION ALL SELECT {counted}, 0, count(*) FROM message WHERE {of} GROUP BY {counted}
    ) AS both_sides GROUP BY {counted} HAVING sum(counted) <> sum(there)""",
    counted=COUNTED,
    now=NOW,
)


@dataclass(frozen=True)
class WrongCounter:
    """A combination that the counters count `counted` times, and that `there` messages have."""

    address: str | None
    state: str
    reason: str | None
    group_id: int | None
    original_address: str | None
    counted: int
    there: int


NAMED = partial(
    Sql,
    """SELECT a.name AS address, d.state, d.reason, d.group_id, o.name AS original_address, d.counted, d.there
    FROM {different} d LEFT JOIN address a ON a.id = d.address_id LEFT JOIN address o ON o.id = d.original_address_id
    ORDER BY a.name, d.state, d.reason, d.group_id, o.name""",
)


def wrong_counters() -> list[WrongCounter]:
    """Return every counter that is wrong, by reading all messages once."""
    return fetch(WrongCounter, NAMED(different=Sql("({different})", different=DIFFERENT(of=TRUE))))


@dataclass(frozen=True)
class WrongCounts:
    """An address whose counters were wrong when they were last compared, by how many messages, too high or too low."""

    address_id: int
    address: str
    messages: int
    checked_at: datetime


def wrong_counts(principal: Principal) -> list[WrongCounts]:
    """Return the addresses in scope whose counters were last found to be wrong; empty when all is well."""
    principal.require(Permission.READ)
    return wrong_counts_at(visible_ids(principal))


def wrong_counts_at(address_ids: Sequence[int] | None) -> list[WrongCounts]:
    """Return those of these addresses, None for every one, whose counters were last found to be wrong, by name."""
    return fetch(
        WrongCounts,
        Sql(
            """SELECT a.id AS address_id, a.name AS address, c.wrong AS messages, c.checked_at
            FROM counter_check c JOIN address a ON a.id = c.address_id WHERE c.wrong > 0 AND {where} ORDER BY 2""",
            where=all_given({"c.address_id = ANY({value})": address_ids}),
        ),
    )
