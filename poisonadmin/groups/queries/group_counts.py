"""Counts the messages of a list by failure group and state: from the counters, or else from the newest."""

from collections.abc import Mapping
from dataclasses import dataclass

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.core.queries.sql import Sql
from poisonadmin.groups.queries.grouping import MESSAGES_READ
from poisonadmin.messages.queries.counts import NOW, ByState, empty
from poisonadmin.search.domain.filters import MessageFilter
from poisonadmin.search.queries.counted import counted_filter
from poisonadmin.search.queries.lists import matching


@dataclass(frozen=True)
class GroupCounts:
    """`by_member`: by the group of the fingerprint, those without a message left out. `without`: messages of no group.

    `cut`: only so many messages, the newest, were counted; None where all were.
    """

    by_member: Mapping[int, ByState]
    without: int
    cut: int | None


def count_groups(message_filter: MessageFilter, principal: Principal) -> GroupCounts:
    """Return the counts of what a filter finds, in the caller's scope. Errors: `InvalidFilter`."""
    counted = counted_filter(message_filter, principal)
    if counted is not None:
        found = Sql(
            """SELECT c.group_id, c.state, sum(c.n)::bigint FROM {now} WHERE {counted}
            GROUP BY 1, 2 HAVING sum(c.n) > 0""",
            now=NOW,
            counted=counted.whole,
        )
    else:
        newest = matching(message_filter, principal, MESSAGES_READ + 1)
        found = Sql("SELECT m.group_id, m.state, count(*) FROM ({newest}) m GROUP BY 1, 2", newest=newest)
    by_member: dict[int | None, ByState] = {}
    for group_id, state, n in fetch_rows(found):
        by_member.setdefault(group_id, empty())[state] = n
    read = sum(sum(by_state.values()) for by_state in by_member.values())
    is_cut = counted is None and read > MESSAGES_READ
    known = {group_id: by_state for group_id, by_state in by_member.items() if group_id is not None}
    without = sum(by_member.get(None, {}).values())
    return GroupCounts(known, without, MESSAGES_READ if is_cut else None)
