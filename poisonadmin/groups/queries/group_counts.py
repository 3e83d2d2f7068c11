"""Counts by failure group: of the messages of a list by state, from the counters, or else from the newest; and of
failures by hour, day and version of their consumers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.rows import fetch, fetch_rows
from poisonadmin.core.queries.scope import scope_condition
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


def addresses_of(of: Mapping[int, int], principal: Principal) -> dict[int, tuple[str, ...]]:
    """Return for each group the addresses with messages of it that are not over, those with most first.

    `of`: the group of each fingerprint.
    """
    rows = fetch_rows(
        Sql(
            """SELECT c.group_id, a.name, sum(c.n)::bigint AS n FROM {now} JOIN address a ON a.id = c.address_id
            WHERE c.group_id = ANY({ids}) AND c.state IN ('NDLV', 'TBDL', 'DLNG') AND {scope}
            GROUP BY 1, 2 HAVING sum(c.n) > 0 ORDER BY 3 DESC, 2""",
            now=NOW,
            ids=list(of),
            scope=scope_condition(principal, "c.address_id"),
        )
    )
    found: dict[int, dict[str, None]] = {group_id: {} for group_id in of.values()}
    for member_id, address, _ in rows:
        found[of[member_id]][address] = None
    return {group_id: tuple(names) for group_id, names in found.items()}


TREND_HOURS = 24
TREND_DAYS = 28
SHOWN_VERSIONS = 50


@dataclass(frozen=True)
class FailedVersion:
    """A version of consumers, as they state it, and the failures with it."""

    consumer_version: str
    first_at: datetime
    last_at: datetime
    failures: int


def failures_an_hour(of: Mapping[int, int], principal: Principal) -> dict[int, list[int]]:
    """Return for each group its failures in the last 24 hours of the clock, the current one last."""
    hours = fetch_rows(
        Sql(
            """SELECT h.group_id, extract(epoch FROM date_trunc('hour', now()) - h.hour)::int / 3600,
                   sum(h.failures)::bigint
            FROM group_hour h
            WHERE h.group_id = ANY({ids}) AND h.hour > now() - {hours} * interval '1 hour' AND {scope} GROUP BY 1, 2""",
            ids=list(of),
            hours=TREND_HOURS,
            scope=scope_condition(principal, "h.address_id"),
        )
    )
    found = {group_id: [0] * TREND_HOURS for group_id in of.values()}
    for member_id, hours_ago, n in hours:
        if 0 <= hours_ago < TREND_HOURS:
            found[of[member_id]][TREND_HOURS - 1 - hours_ago] += n
    return found


def failures_a_day(member_ids: Sequence[int], principal: Principal) -> tuple[int, ...]:
    """Return the failures in the last 28 days in UTC, today last."""
    days = fetch_rows(
        Sql(
            """SELECT (now() AT TIME ZONE 'UTC')::date - (h.hour AT TIME ZONE 'UTC')::date, sum(h.failures)::bigint
            FROM group_hour h
            WHERE h.group_id = ANY({ids}) AND h.hour > now() - {days} * interval '1 day' AND {scope} GROUP BY 1""",
            ids=list(member_ids),
            days=TREND_DAYS,
            scope=scope_condition(principal, "h.address_id"),
        )
    )
    found = [0] * TREND_DAYS
    for days_ago, n in days:
        if 0 <= days_ago < TREND_DAYS:
            found[TREND_DAYS - 1 - days_ago] += n
    return tuple(found)


def failed_versions(member_ids: Sequence[int], principal: Principal) -> tuple[FailedVersion, ...]:
    """Return the consumer versions that failures in scope came with, the latest failure first, at most 50."""
    found = Sql(
        """SELECT v.consumer_version, min(v.first_at) AS first_at, max(v.last_at) AS last_at,
               sum(v.failures)::bigint AS failures
        FROM group_version v WHERE v.group_id = ANY({ids}) AND {scope}
        GROUP BY 1 ORDER BY 3 DESC, 1 LIMIT {shown}""",
        ids=list(member_ids),
        scope=scope_condition(principal, "v.address_id"),
        shown=SHOWN_VERSIONS,
    )
    return tuple(fetch(FailedVersion, found))
