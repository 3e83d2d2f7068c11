"""Failure groups, the latest failure first."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.address_ids import visible_ids
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, MAX_ID, Key, Page, window
from poisonadmin.core.queries.rows import bounded, fetch, fetch_values
from poisonadmin.messages.queries.counts import NOW, ByState, by_state_of_each
from poisonadmin.messages.queries.filter_sql import groups_holding

_KEY = Key(("g.last_at", "g.id"), (datetime, int))
TREND_HOURS = 24


@dataclass(frozen=True)
class GroupRow:
    """Failures with the same fingerprint. `trend` is failures an hour over the last day, the current hour last."""

    id: int
    title: str
    error_class: str
    fingerprint: str
    version: int
    first_at: datetime
    last_at: datetime
    failures: int
    sample_message_id: int | None
    counts: ByState
    trend: tuple[int, ...]


@dataclass(frozen=True)
class _StoredGroup:
    id: int
    title: str
    error_class: str
    fingerprint: str
    version: int
    first_at: datetime
    last_at: datetime
    failures: int
    sample_message_id: int | None
    sample_address: str | None


@dataclass(frozen=True)
class _Hour:
    fingerprint: str
    hours_ago: int
    n: int


_SELECT = """SELECT g.id, g.title, g.error_class, g.fingerprint, g.version, g.first_at, g.last_at, g.failures,
 g.sample_message_id, a.name AS sample_address FROM failure_group g
 LEFT JOIN message m ON m.id = g.sample_message_id LEFT JOIN address a ON a.id = m.address_id"""
# By group and state, so that what left a state does not hide what is in another.
_COUNTED = f"""SELECT DISTINCT group_id FROM (
 SELECT c.group_id FROM {NOW} WHERE c.group_id IS NOT NULL AND c.address_id = ANY(%s)
 GROUP BY c.group_id, c.state HAVING sum(c.n) > 0) counted"""  # noqa: S608


def list_groups(
    *, principal: Principal, error: str | None = None, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[GroupRow]:
    """Return one page, of the groups whose title or class holds `error` where it is given."""
    principal.require(Permission.READ)
    page = window(cursor, limit, _KEY)
    with bounded():
        wanted = [
            ids for ids in (_visible_groups(principal), groups_holding([error]) if error else None) if ids is not None
        ]
        conditions = ["TRUE", *["g.id = ANY(%s)"] * len(wanted)]
        rows = fetch(
            _StoredGroup,
            f"{_SELECT} WHERE {' AND '.join(conditions)} AND {page.condition} {page.order}",
            [*wanted, *page.parameters],
        )
        found = page.page(rows, lambda row: (row.last_at, row.id))
        return Page(_with_counts(found.results, principal), found.next, found.previous)


def get_group(group_id: int, *, principal: Principal) -> GroupRow:
    """Return the group; raise NotFound."""
    principal.require(Permission.READ)
    rows = fetch(_StoredGroup, f"{_SELECT} WHERE g.id = %s", [group_id]) if 0 < group_id <= MAX_ID else []
    visible = _visible_groups(principal)
    if not rows or (visible is not None and group_id not in visible):
        raise NotFound(f"There is no failure group {group_id}.")
    with bounded():
        return _with_counts(rows, principal)[0]


def _visible_groups(principal: Principal) -> list[int] | None:
    """Return the groups that have a message in the principal's scope; None where that is all of them."""
    visible = visible_ids(principal)
    return None if visible is None else fetch_values(_COUNTED, [visible])


def _with_counts(rows: Iterable[_StoredGroup], principal: Principal) -> list[GroupRow]:
    stored = list(rows)
    counts = by_state_of_each("group_id", [row.id for row in stored], principal)
    trends = _trends([row.fingerprint for row in stored], principal)
    return [
        GroupRow(
            id=row.id,
            title=row.title,
            error_class=row.error_class,
            fingerprint=row.fingerprint,
            version=row.version,
            first_at=row.first_at,
            last_at=row.last_at,
            failures=row.failures,
            sample_message_id=_visible_sample(row, principal),
            counts=counts[row.id],
            trend=trends[row.fingerprint],
        )
        for row in stored
    ]


def _visible_sample(row: _StoredGroup, principal: Principal) -> int | None:
    return row.sample_message_id if row.sample_address and principal.sees(row.sample_address) else None


def _trends(fingerprints: list[str], principal: Principal) -> dict[str, tuple[int, ...]]:
    visible = visible_ids(principal)
    scope, parameters = ("", []) if visible is None else (" AND m.address_id = ANY(%s)", [visible])
    join = "" if visible is None else " JOIN message m ON m.id = t.message_id"
    hours = fetch(
        _Hour,
        "SELECT t.fingerprint, floor(extract(epoch FROM now() - t.finished_at) / 3600)::int AS hours_ago,"  # noqa: S608
        f" count(*) AS n FROM attempt t{join} WHERE t.outcome <> 'delivered' AND t.fingerprint = ANY(%s)"
        f" AND t.finished_at > now() - interval '{TREND_HOURS} hours' AND t.finished_at <= now(){scope} GROUP BY 1, 2",
        [fingerprints, *parameters],
    )
    found = {fingerprint: [0] * TREND_HOURS for fingerprint in fingerprints}
    for hour in hours:
        if 0 <= hour.hours_ago < TREND_HOURS:
            found[hour.fingerprint][TREND_HOURS - 1 - hour.hours_ago] += hour.n
    return {fingerprint: tuple(counts) for fingerprint, counts in found.items()}
