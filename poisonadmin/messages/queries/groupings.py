"""A list of messages grouped: by failure, address, original address, destination, state, reason, header or key."""

from dataclasses import dataclass
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.filter_values import InvalidFilter, checked_text
from poisonadmin.core.queries.paging import CAP, Count
from poisonadmin.core.queries.rows import bounded, fetch_rows
from poisonadmin.destinations.queries import destinations_seen
from poisonadmin.messages.domain.states import State
from poisonadmin.messages.queries.counted_filters import counted_filter
from poisonadmin.messages.queries.counts import COUNTED, NOW, ByState
from poisonadmin.messages.queries.filters import HEADER, KEY, MessageFilter
from poisonadmin.messages.queries.lists import matching

SHOWN = 50
_STATES = ", ".join(
    f"coalesce(sum(c.n) FILTER (WHERE c.state = '{state}'), 0)::bigint AS {state.lower()}" for state in State
)
# What a grouping is by -> what it reads beside `c`, the value that a filter takes, and the label.
_BY = {
    "group": ("LEFT JOIN failure_group v ON v.id = c.group_id", "v.id::text", "v.title"),
    "address": ("LEFT JOIN address v ON v.id = c.address_id", "v.name", "v.name"),
    "original_address": ("LEFT JOIN address v ON v.id = c.original_address_id", "v.name", "v.name"),
    "destination": (
        "LEFT JOIN address a ON a.id = c.address_id LEFT JOIN destination v ON v.id = a.destination_id AND {seen}",
        "v.name",
        "v.name",
    ),
    "state": ("", "c.state", "c.state"),
    "reason": ("", "c.reason", "c.reason"),
}
BY = tuple(_BY)
ORDERINGS = {
    "-undecided": "ndlv DESC, n DESC, value",
    "-size": "n DESC, value",
    "-last_at": "last_at DESC NULLS LAST, value",
    "-first_at": "first_at DESC NULLS LAST, value",
}


@dataclass(frozen=True)
class MessagesAlike:
    """The messages of a list that have one value; `value` None: those that have none, or one out of scope.

    `value` is what a filter takes: a group's id, a name, a code, a text. `counts` are by state, in the states' order.
    """

    value: str | None
    label: str
    counts: ByState

    @property
    def count(self) -> int:
        """All of them."""
        return sum(self.counts.values())

    @property
    def undecided(self) -> int:
        """Those that wait for a decision."""
        return self.counts[State.NDLV]


@dataclass(frozen=True)
class Grouping:
    """`rows`: up to the limit, in order. `found`: how many rows there are in all. `total`: how many messages.

    Where `total` is capped, only the newest 10,000 messages that match are grouped.
    """

    rows: list[MessagesAlike]
    found: int
    total: Count


def grouped(
    message_filter: MessageFilter,
    *,
    by: str,
    principal: Principal,
    ordering: str = "-undecided",
    limit: int = SHOWN,
    offset: int = 0,
) -> Grouping:
    """Return the messages of a list in the caller's scope, counted by one of `BY`, `header.<name>` or `key.<name>`.

    Exact, from the counters, where the filter names only states, reasons, groups, addresses and original addresses and
    `by` is one of `BY`. Otherwise the newest 10,000 messages that match are grouped. `ordering`: `-undecided`, `-size`;
    for groups also `-last_at`, `-first_at`, of their failures.
    Raise InvalidFilter, QueryTooExpensive.
    """
    principal.require(Permission.READ)
    _require_known(by, ordering)
    counted = counted_filter(message_filter, principal) if by in _BY else None
    join, value, label = _BY.get(by, ("", "c.value", "c.value"))
    seen, destinations = destinations_seen(principal, "v.id") if by == "destination" else ("", [])
    times = "max(v.last_at) AS last_at, max(v.first_at) AS first_at" if by == "group" else "0 AS last_at, 0 AS first_at"
    with bounded():
        if counted is not None:
            condition, values = counted.whole
            source, own = f"(SELECT * FROM {NOW} WHERE {condition})", values  # noqa: S608
        else:
            source, own = _scanned(message_filter, by, principal)
        rows = fetch_rows(
            f"""SELECT {value} AS value, min({label}), sum(c.n)::bigint AS n, {times}, {_STATES},
                       count(*) OVER (), (sum(sum(c.n)) OVER ())::bigint
                FROM {source} c {join.format(seen=seen)}
                GROUP BY {value} HAVING sum(c.n) > 0 ORDER BY {ORDERINGS[ordering]} LIMIT %s OFFSET %s""",  # noqa: S608
            [*own, *destinations, limit, offset],
        )
    alike = [MessagesAlike(row[0], row[1] or "", dict(zip(map(str, State), row[5:10], strict=True))) for row in rows]
    found, n = (rows[0][10], rows[0][11]) if rows else (0, 0)
    return Grouping(alike, found, Count(min(n, CAP), n > CAP) if counted is None else Count(n, capped=False))


def _require_known(by: str, ordering: str) -> None:
    if by not in _BY and not any(by.startswith(prefix) and len(by) > len(prefix) for prefix in (HEADER, KEY)):
        raise InvalidFilter("by", f"Messages are grouped by {', '.join(BY)}, header.<name> or key.<name>.")
    checked_text("by", by)
    allowed = [one for one in ORDERINGS if by == "group" or not one.endswith("_at")]
    if ordering not in allowed:
        raise InvalidFilter("ordering", f"A grouping by {by[:40]} is ordered by {', '.join(allowed)}.")


def _scanned(message_filter: MessageFilter, by: str, principal: Principal) -> tuple[str, list[Any]]:
    """Return the newest 10,000 that match, and one more, as `grouped` reads the counters, with the value it needs."""
    sql, values = matching(message_filter, principal, CAP + 1)
    columns = ", ".join(f"m.{column}" for column in COUNTED.split(", "))
    if by.startswith(HEADER):
        return (
            f"""(SELECT {columns}, 1 AS n, convert_from(b.headers, 'UTF8')::jsonb ->> %s AS value
                 FROM ({sql}) m JOIN body b ON b.id = m.id)""",  # noqa: S608
            [by.removeprefix(HEADER), *values],
        )
    if by.startswith(KEY):
        return (
            f"""(SELECT {columns}, 1 AS n, (SELECT k.value FROM business_key k
                        WHERE k.message_id = m.id AND k.name = %s LIMIT 1) AS value FROM ({sql}) m)""",  # noqa: S608
            [by.removeprefix(KEY), *values],
        )
    return f"(SELECT {columns}, 1 AS n FROM ({sql}) m)", values  # noqa: S608
