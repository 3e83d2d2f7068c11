"""Compares the counters with the messages in one snapshot, and returns the results of earlier checks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.rows import fetch
from poisonadmin.core.queries.scope import visible_ids
from poisonadmin.core.queries.sql import TRUE, Sql, all_given
from poisonadmin.messages.queries.counts import COUNTED, NOW

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
