"""The rows of a report that are read at once: few rows, for an answer or a preview. Live rows only."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.paging import Window
from poisonadmin.core.queries.rows import bounded, fetch_rows
from poisonadmin.messages.queries.filter_sql import Where
from poisonadmin.messages.queries.list_plans import Walk, plan_list
from poisonadmin.messages.queries.lists import ORDERINGS
from poisonadmin.policies.domain.policy import BUILT_IN_PATTERN
from poisonadmin.policies.queries.index import policy_index
from poisonadmin.reports.domain.asked import AskedReport, Row, folded
from poisonadmin.reports.domain.kinds import POLICY, Counts, Grain
from poisonadmin.reports.queries.live import Sql, live_rows, live_where

# No snapshot of the database is held for longer.
SECONDS = 5.0
AT_ONCE = 10_000


@dataclass(frozen=True)
class ReportRows:
    """Rows in the columns of `asked.schema`. `is_whole`: there are no more."""

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
    with bounded(SECONDS):
        where = live_where(asked, principal)
        if asked.measures is not None:
            found = fetch_rows(*live_rows(asked, where, principal))
            rows = folded(asked, grouped(asked, found))
            return ReportRows(rows[:limit], len(rows) <= limit)
        sql, parameters = live_rows(asked, where, principal, messages=_newest(asked, where, limit))
        found = fetch_rows(f"{sql} LIMIT %s", [*parameters, limit + 1])
    whole = len(found) <= limit
    ordered = sorted(found, key=lambda row: (row[-2] or 0, row[-1]), reverse=not whole)
    return ReportRows([tuple(row[:-2]) for row in ordered[:limit]], whole)


def _newest(asked: AskedReport, where: Where, limit: int) -> Sql | None:
    """Return a query for the newest messages that match, found as the list of messages finds them."""
    if asked.of_kind.grain is not Grain.MESSAGE:
        return None
    page = Window(ORDERINGS["-id"], limit)
    walks = plan_list(where) or [Walk(("FALSE",))]
    branches = " UNION ALL ".join(f"({walk.sql(where.sql, page)})" for walk in walks)
    parameters = [*where.parameters, *page.parameters] * len(walks)
    return f"SELECT * FROM ({branches}) newest ORDER BY id DESC LIMIT {limit + 1}", parameters  # noqa: S608


def grouped(asked: AskedReport, counted: Iterable[Row]) -> dict[Row, Counts]:
    """Return how often each group has which value, from rows of the group, the value where one is read, and a count."""
    assert asked.measures is not None
    found: dict[Row, Counter[Any]] = defaultdict(Counter)
    named = named_groups(asked)
    for row in counted:
        group, value = (row[:-1], None) if asked.measures.of is None else (row[:-2], row[-2])
        found[tuple(named(place, one) for place, one in enumerate(group))][value] += row[-1]
    return dict(found)


def named_groups(asked: AskedReport) -> Callable[[int, Any], Any]:
    """Return what names a value of a group, by its place: where groups are by policy, an address by the pattern."""
    places = {place for place, name in enumerate(asked.group_by) if name == POLICY.name}
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
