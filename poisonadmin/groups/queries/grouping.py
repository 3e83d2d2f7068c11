"""A list of messages, counted by what they share: an address, a destination, a reason, a header, a business key."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.filter_values import InvalidFilter, checked_text
from poisonadmin.core.queries.masking import clear_of_masks
from poisonadmin.core.queries.rows import bounded, fetch
from poisonadmin.core.queries.scope import destinations_seen
from poisonadmin.core.queries.sql import EMPTY, Sql
from poisonadmin.core.queries.sql import name as column_name
from poisonadmin.messages.queries.counts import NOW
from poisonadmin.search.domain.filters import MessageFilter
from poisonadmin.search.domain.words import HEADER, KEY
from poisonadmin.search.queries.counted import COLUMNS, AxisValue, axis_values, counted_filter
from poisonadmin.search.queries.lists import matching

SHOWN_SETS = 100
TREND_HOURS = 24
MESSAGES_READ = 50_000
HEADERS_READ = 20_000
# Where the counters know how many there are, messages are read for times and trend only.
COUNTED_READ = 10_000


class GroupBy(StrEnum):
    """Values that messages can share, besides a failure (`groups.py`), `header.<name>` and `key.<name>`."""

    ADDRESS = "address"
    ORIGINAL_ADDRESS = "original_address"
    DESTINATION = "destination"
    REASON = "reason"
    OWNER = "owner"
    CONSUMER_VERSION = "consumer_version"


class SetOrder(StrEnum):
    """The orders of the sets of a grouping, the most or the latest first."""

    UNDECIDED = "undecided"
    SIZE = "size"
    FIRST = "first"
    LAST = "last"
    TREND = "trend"


@dataclass(frozen=True)
class Dimension:
    """`parameter`: of the filter that narrows to one set. `key`: SQL over the message `m`.

    `most`: how many messages are read at most; to look into headers costs more. `is_counted`: the counters have it,
    and `key` and `join` fit them too.
    """

    parameter: str
    key: Sql
    join: Sql = EMPTY
    most: int = MESSAGES_READ
    is_counted: bool = True


# An attempt a message, by its key.
_LAST_FAILURE = Sql(
    """LEFT JOIN LATERAL (
    SELECT t.consumer_version FROM attempt t WHERE t.message_id = m.id AND t.outcome <> 'delivered'
    ORDER BY t.attempt_number DESC LIMIT 1) failed ON TRUE"""
)
_FIXED: dict[str, Dimension] = {
    GroupBy.OWNER: Dimension(
        "owner",
        Sql("u.username"),
        Sql("LEFT JOIN annotation w ON w.message_id = m.id LEFT JOIN auth_user u ON u.id = w.owner_id"),
        is_counted=False,
    ),
    GroupBy.CONSUMER_VERSION: Dimension(
        "consumer_version", Sql("failed.consumer_version"), _LAST_FAILURE, most=HEADERS_READ, is_counted=False
    ),
}
_ORDERS = {
    SetOrder.UNDECIDED: Sql("undecided DESC, messages DESC"),
    SetOrder.SIZE: Sql("messages DESC"),
    SetOrder.FIRST: Sql("first_at DESC NULLS LAST"),
    SetOrder.LAST: Sql("last_at DESC NULLS LAST"),
    SetOrder.TREND: Sql("last_day DESC, messages DESC"),
}
_SETS = partial(
    Sql,
    """
WITH found AS MATERIALIZED ({newest}), hours AS (
    SELECT {key} AS key, floor(extract(epoch FROM now() - m.failed_at) / 3600) AS hours_ago, count(*) AS n,
           count(*) FILTER (WHERE m.is_undecided) AS undecided, min(m.failed_at) AS first_at,
           max(m.failed_at) AS last_at
    FROM found m {join} GROUP BY 1, 2
), read AS (
    SELECT key, sum(n)::bigint AS messages, sum(undecided)::bigint AS undecided, min(first_at) AS first_at,
           max(last_at) AS last_at, coalesce(sum(n) FILTER (WHERE hours_ago < {hours}), 0)::bigint AS last_day,
           coalesce(jsonb_object_agg(hours_ago::int, n) FILTER (WHERE hours_ago BETWEEN 0 AND {hours} - 1), '{{}}')
               AS by_hour
    FROM hours GROUP BY 1
), sets AS ({sets})
SELECT key AS value, messages, undecided, first_at, last_at, by_hour,
       (SELECT count(*) FROM found) AS read
FROM sets ORDER BY {order}, key LIMIT {shown}
""",
)
_READ_ONLY = Sql("SELECT * FROM read")
# The counters know how many there are; the messages that were read know when.
_COUNTED = partial(
    Sql,
    """
SELECT key, counted.messages, counted.undecided, read.first_at, read.last_at, coalesce(last_day, 0) AS last_day,
       coalesce(by_hour, '{{}}') AS by_hour
FROM (SELECT {key} AS key, sum(m.n)::bigint AS messages,
             coalesce(sum(m.n) FILTER (WHERE m.state = 'NDLV'), 0)::bigint AS undecided
      FROM (SELECT * FROM {now} WHERE {condition}) AS m {join} GROUP BY 1 HAVING sum(m.n) > 0) AS counted
LEFT JOIN read USING (key)
""",
)


@dataclass(frozen=True)
class _CountedSet:
    value: str | None
    messages: int
    undecided: int
    first_at: datetime | None
    last_at: datetime | None
    by_hour: Mapping[str, int]
    read: int


@dataclass(frozen=True)
class MessageSet:
    """Messages of a list that share a value. `value` None: they have none. Times are of their latest failures.

    `trend`: how many of them failed last in each of the last 24 hours, the current one last.
    """

    value: str | None
    label: str | None
    messages: int
    undecided: int
    first_at: datetime | None
    last_at: datetime | None
    trend: tuple[int, ...]


@dataclass(frozen=True)
class Grouping:
    """`parameter`: of the filter that narrows the list to a set. At most 100 sets; `has_more` where there are others.

    `cut`: only so many messages, the newest, were read; None where all were. Then times and trend are theirs, and the
    counts too unless `is_exact`.
    """

    parameter: str
    sets: list[MessageSet]
    has_more: bool
    cut: int | None
    is_exact: bool


def group_messages(
    message_filter: MessageFilter, by: str, *, principal: Principal, order: str = SetOrder.UNDECIDED
) -> Grouping:
    """Return the sets of what a filter finds. `by`: a `GroupBy`, `header.<name>` or `key.<name>`.

    Errors: `InvalidFilter`, `QueryTooExpensive`.
    """
    principal.require(Permission.READ)
    if order not in set(SetOrder):
        raise InvalidFilter("sort", f"Sets are sorted by {', '.join(SetOrder)}, not by {order[:40]!r}.")
    dimension = _dimension(by, principal)
    counted = counted_filter(message_filter, principal) if dimension.is_counted else None
    most = dimension.most if counted is None else COUNTED_READ
    with bounded():
        sets = _READ_ONLY
        if counted is not None:
            sets = _COUNTED(key=dimension.key, join=dimension.join, now=NOW, condition=counted.whole)
        found = _SETS(
            newest=matching(message_filter, principal, most + 1),
            key=dimension.key,
            join=dimension.join,
            sets=sets,
            hours=TREND_HOURS,
            order=_ORDERS[SetOrder(order)],
            shown=SHOWN_SETS + 1,
        )
        rows = fetch(_CountedSet, found)
        keys = [row.value for row in rows if row.value is not None]
        names = axis_values({dimension.parameter: keys}, principal) if dimension.parameter in COLUMNS else {}
    is_cut = bool(rows) and rows[0].read > most
    return Grouping(
        dimension.parameter,
        [_shown(row, names.get((dimension.parameter, row.value or ""))) for row in rows[:SHOWN_SETS]],
        len(rows) > SHOWN_SETS,
        most if is_cut else None,
        is_exact=counted is not None or not is_cut,
    )


def _dimension(by: str, principal: Principal) -> Dimension:
    if by in COLUMNS and by in set(GroupBy):
        return Dimension(by, Sql("{column}::text", column=column_name(f"m.{COLUMNS[by]}")))
    if by in _FIXED:
        return _FIXED[by]
    if by == GroupBy.DESTINATION:
        join = Sql(
            """JOIN address a ON a.id = coalesce(m.original_address_id, m.address_id)
            LEFT JOIN destination d ON d.id = a.destination_id AND {seen}""",
            seen=destinations_seen(principal, "d.id"),
        )
        return Dimension("destination", Sql("d.name"), join)
    name = checked_text("group_by", by)
    clear = clear_of_masks(principal)
    if name.startswith(HEADER) and len(name) > len(HEADER):
        return Dimension(
            name,
            Sql(
                "CASE WHEN {clear} THEN convert_from(b.headers, 'UTF8')::json ->> {header} END",
                clear=clear,
                header=name.removeprefix(HEADER),
            ),
            Sql("JOIN body b ON b.id = m.id"),
            most=HEADERS_READ,
            is_counted=False,
        )
    if name.startswith(KEY) and len(name) > len(KEY):
        join = Sql("LEFT JOIN business_key k ON k.message_id = m.id AND k.name = {key}", key=name.removeprefix(KEY))
        return Dimension(name, Sql("CASE WHEN {clear} THEN k.value END", clear=clear), join, is_counted=False)
    raise InvalidFilter(
        "group_by",
        f"Messages are grouped by failure, {', '.join(GroupBy)}, header.<name> or key.<name>, not by {by[:40]!r}.",
    )


def _shown(row: _CountedSet, name: AxisValue | None) -> MessageSet:
    value, label = (name.value, name.label) if name else (row.value, row.value)
    trend = tuple(row.by_hour.get(str(hours_ago), 0) for hours_ago in reversed(range(TREND_HOURS)))
    return MessageSet(value, label, row.messages, row.undecided, row.first_at, row.last_at, trend)
