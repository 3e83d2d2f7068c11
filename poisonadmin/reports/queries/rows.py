"""The rows of a report that are read at once: few rows, for an answer or a preview. Live rows only."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.exports import IDS, Row
from poisonadmin.core.queries.paging import Window
from poisonadmin.core.queries.rows import QueryTooExpensive, bounded, fetch_rows
from poisonadmin.core.queries.sql import Sql
from poisonadmin.policies.domain.policy import BUILT_IN_PATTERN
from poisonadmin.policies.queries import policy_index
from poisonadmin.reports.domain.asked import AskedReport
from poisonadmin.reports.domain.groups import folded
from poisonadmin.reports.domain.kinds import POLICY, Counts, Grain
from poisonadmin.reports.queries.live import as_may_be_read, live_rows, live_where
from poisonadmin.search.queries.list_plans import plan_list
from poisonadmin.search.queries.lists import ORDERINGS, merged
from poisonadmin.search.queries.live import Where

# No snapshot of the database is held for longer.
SECONDS = 5.0
AT_ONCE = 10_000
# Counts of groups' values that a request takes, and groups that a report has; of a pivot each value of a group is one.
COUNTS_AT_ONCE = 200_000
MAX_GROUPS, MAX_CELLS = 100_000, 1_000_000


class TooManyGroups(PoisonAdminError):
    """Raised when a report has more groups than anybody reads."""

    code = "too_many_groups"
    status = 422


@dataclass(frozen=True)
class ReportRows:
    """Rows in the columns of those names. `is_whole`: there are no more."""

    columns: tuple[str, ...]
    rows: list[Row]
    is_whole: bool


def require_export(asked: AskedReport, principal: Principal) -> None:
    """Raise NotAllowed unless the principal may have this report's rows."""
    principal.require(Permission.EXPORT)
    if asked.shows_payload:
        principal.require(Permission.READ_PAYLOAD)


def rows_at_once(asked: AskedReport, *, principal: Principal, limit: int = AT_ONCE) -> ReportRows:
    """Return up to `limit` live rows: all of them in the order of messages, or the newest messages'.

    Errors: `NotAllowed`, `InvalidFilter`, `QueryTooExpensive` after 5 s.
    """
    require_export(asked, principal)
    asked = as_may_be_read(asked, principal)
    with bounded(SECONDS):
        where = live_where(asked, principal)
        if asked.measures is not None:
            counts = live_rows(asked, where, principal)
            found = fetch_rows(counts + Sql("LIMIT {most}", most=COUNTS_AT_ONCE + 1))
            if len(found) > COUNTS_AT_ONCE:
                raise QueryTooExpensive("This report counts too many values to wait for; have a job make it.")
            table = folded(asked, grouped(asked, found))
            names = tuple(name for name, _ in table.schema)
            return ReportRows(names, table.rows[:limit], len(table.rows) <= limit)
        rows = live_rows(asked, where, principal, messages=_newest(asked, where, limit))
        found = fetch_rows(rows + Sql("LIMIT {most}", most=limit + 1))
    whole = len(found) <= limit
    ordered = sorted(found, key=lambda row: (row[-2] or 0, row[-1]), reverse=not whole)
    return ReportRows(asked.columns, [tuple(row[:-2]) for row in ordered[:limit]], whole)


def _newest(asked: AskedReport, where: Where, limit: int) -> Sql | None:
    """Return a query for the newest messages that match, found as the list of messages finds them."""
    if asked.of_kind.grain is not Grain.MESSAGE:
        return None
    page = Window(ORDERINGS["-id"], limit)
    return Sql(
        "SELECT * FROM ({found}) newest ORDER BY id DESC LIMIT {most}",
        found=merged(plan_list(where), where, page),
        most=limit + 1,
    )


def grouped(asked: AskedReport, counted: Iterable[Row]) -> dict[Row, Counts]:
    """Return how often each group has which value, from rows of the group, the value where one is read, and a count.

    Errors: `TooManyGroups`.
    """
    assert asked.measures is not None
    found: dict[Row, Counter[Any]] = defaultdict(Counter)
    named = named_groups(asked)
    most = MAX_GROUPS if asked.pivot is None else MAX_CELLS
    for row in counted:
        group, value = (row[:-1], None) if asked.measures.of is None else (row[:-2], row[-2])
        found[tuple(named(place, one) for place, one in enumerate(group))][value] += row[-1]
        if len(found) > most:
            raise TooManyGroups(f"There are more than {most:,} groups; group by something with fewer values.")
    return dict(found)


def named_groups(asked: AskedReport) -> Callable[[int, Any], Any]:
    """Return what names a value of a group, by its place: where groups are by policy, an address by the pattern."""
    places = {place for place, name in enumerate(asked.cells) if name == POLICY.name}
    if not places:
        return lambda _, value: value
    index = policy_index()
    known: dict[str, str] = {}

    def named(place: int, value: Any) -> Any:
        if place not in places or value is None:
            return value
        if value not in known:
            known[value] = next(iter(index.matching(value)), BUILT_IN_PATTERN)
        return known[value]

    return named


def as_objects(columns: Sequence[str], rows: Iterable[Row], time_zone: str) -> Iterator[dict[str, Any]]:
    """Yield each row by the names of its columns: times in the time zone, ids and payloads as texts."""
    zone = ZoneInfo(time_zone)
    for row in rows:
        yield {name: _value(name, value, zone) for name, value in zip(columns, row, strict=True)}


def _value(name: str, value: Any, zone: ZoneInfo) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(zone).isoformat(timespec="milliseconds")
    if isinstance(value, bytes | memoryview):
        return bytes(value).decode("utf-8", "replace")
    return str(value) if name in IDS and value is not None else value
