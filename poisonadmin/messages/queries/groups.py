"""Failure groups: those that people see, each with what is merged into it, the latest failure first."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.address_ids import scope_condition, visible_ids
from poisonadmin.core.queries.filter_values import InvalidFilter
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import bounded, fetch, fetch_rows, fetch_values
from poisonadmin.messages.domain.states import State
from poisonadmin.messages.queries.counts import NOW, ByState, by_state_of_each, empty
from poisonadmin.messages.queries.error_search import groups_holding
from poisonadmin.messages.queries.merged_groups import SEEN_AS, members_of

ORDERINGS = {
    "-last_at": Key(("seen.last_at", "seen.id"), (datetime, int)),
    "-first_at": Key(("seen.first_at", "seen.id"), (datetime, int)),
    "-failures": Key(("seen.failures", "seen.id"), (int, int)),
    "-undecided": Key(("seen.undecided", "seen.id"), (int, int)),
}
TREND_HOURS = 24
TREND_DAYS = 28
SHOWN_VERSIONS = 50


@dataclass(frozen=True)
class GroupFilter:
    """All that is given must hold. `error`: in title, class, cause or the message of the sample. `tags`: any of them.

    `is_snoozed`: only groups that are snoozed now; else only the others.
    """

    error: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    is_snoozed: bool = False


@dataclass(frozen=True)
class StoredGroup:
    """Failures with the same fingerprint, or with fingerprints that are merged: how many, the first and the last, in
    the reader's scope. `snoozed_until` is None once it is over. `merged_into_id`: the group to look at instead.
    """

    id: int
    title: str
    error_class: str
    fingerprint: str
    version: int
    first_at: datetime
    last_at: datetime
    failures: int
    sample_message_id: int | None
    merged_into_id: int | None
    owner: str | None
    note: str
    ticket_url: str | None
    tags: Sequence[str]
    snoozed_until: datetime | None
    revision: int

    @property
    def etag(self) -> str:
        """What `If-Match` is compared with when the annotation is changed."""
        return f'"{self.revision}"'


@dataclass(frozen=True)
class GroupRow(StoredGroup):
    """With its counts. `trend` is failures an hour over the last day, the current hour last."""

    counts: ByState
    trend: tuple[int, ...]


@dataclass(frozen=True)
class _GroupWithUndecided(StoredGroup):
    undecided: int


@dataclass(frozen=True)
class GroupMember:
    """One fingerprint of a group: its own, or one that was merged into it."""

    id: int
    title: str
    error_class: str
    fingerprint: str
    first_at: datetime
    last_at: datetime
    failures: int
    undecided: int


@dataclass(frozen=True)
class FailedVersion:
    """A version of consumers, as they state it, and the failures with it."""

    consumer_version: str
    first_at: datetime
    last_at: datetime
    failures: int


@dataclass(frozen=True)
class GroupDetail(GroupRow):
    """With its fingerprints, the group's own first. `days` is failures a day in UTC over four weeks, today last.

    `versions`: the consumer versions that it was seen with, the latest failure first, at most 50.
    """

    days: tuple[int, ...]
    versions: tuple[FailedVersion, ...]
    members: tuple[GroupMember, ...]


@dataclass(frozen=True)
class _Fingerprint:
    id: int
    group_id: int
    title: str
    error_class: str
    fingerprint: str
    first_at: datetime
    last_at: datetime
    failures: int


# Of what is merged, the group that it was merged into says what it is called, where that is in scope.
_SEEN = """
SELECT {of} AS id, coalesce(min(g.id) FILTER (WHERE g.merged_into_id IS NULL), min(g.id)) AS named_id,
       min(g.first_at) AS first_at, max(g.last_at) AS last_at, sum(g.failures)::bigint AS failures{more}
FROM {groups} g{joined} WHERE {which} GROUP BY 1
"""
_UNDECIDED = f""" LEFT JOIN (
    SELECT c.group_id, sum(c.n) AS n FROM {NOW} WHERE c.state = '{State.NDLV}' AND {{scope}} GROUP BY 1
) undecided ON undecided.group_id = g.id"""  # noqa: S608  (constants)
# How many failures there are outside the scope must not show in the order either.
_IN_SCOPE = """(SELECT stored.id, merged_into_id, own.* FROM failure_group stored CROSS JOIN LATERAL (
    SELECT count(*) AS failures, coalesce(min(t.finished_at), stored.first_at) AS first_at,
           coalesce(max(t.finished_at), stored.last_at) AS last_at
    FROM attempt t JOIN message m ON m.id = t.message_id AND {scope}
    WHERE t.outcome <> 'delivered' AND t.fingerprint = stored.fingerprint) own)"""
_SELECT = """
SELECT seen.id, {undecided}named.title, named.error_class, named.fingerprint, named.version, seen.first_at,
       seen.last_at, seen.failures,
       (SELECT m.id FROM message m WHERE m.id = named.sample_message_id AND {scope}) AS sample_message_id,
       CASE WHEN named.merged_into_id <> seen.id THEN named.merged_into_id END AS merged_into_id,
       owner.username AS owner, coalesce(said.note, '') AS note, said.ticket_url,
       coalesce(said.tags, '{{}}') AS tags, CASE WHEN {is_snoozed} THEN said.snoozed_until END AS snoozed_until,
       coalesce(said.revision, 0) AS revision
FROM ({seen}) seen JOIN failure_group named ON named.id = seen.named_id
     LEFT JOIN group_annotation said ON said.group_id = seen.id LEFT JOIN auth_user owner ON owner.id = said.owner_id
"""
IS_SNOOZED = "said.snoozed_until > now()"
# By group and state, so that what left a state does not hide what is in another.
_COUNTED = f"""SELECT DISTINCT group_id FROM (
 SELECT c.group_id FROM {NOW} WHERE c.group_id IS NOT NULL AND c.address_id = ANY(%s)
 GROUP BY c.group_id, c.state HAVING sum(c.n) > 0) counted"""  # noqa: S608


def list_groups(
    only: GroupFilter | None = None,
    *,
    principal: Principal,
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
    ordering: str = "-last_at",
) -> Page[GroupRow]:
    """Return one page of the groups that are merged into no other; without `only`, of those that are not snoozed.

    `ordering`: one of `ORDERINGS`, all in the caller's scope. Raise InvalidFilter, InvalidCursor, QueryTooExpensive.
    """
    principal.require(Permission.READ)
    if ordering not in ORDERINGS:
        raise InvalidFilter("ordering", f"Groups are ordered by {', '.join(ORDERINGS)}, not {ordering[:40]!r}.")
    page = window(cursor, limit, ORDERINGS[ordering])
    with bounded():
        visible = _visible_members(principal)
        is_undecided = ordering == "-undecided"
        sql, parameters = _select(principal, SEEN_AS, visible, ordering)
        where, values = _conditions(only or GroupFilter())
        row = _GroupWithUndecided if is_undecided else StoredGroup
        found = fetch_page(row, f"{sql} WHERE {where}", [*parameters, *values], page)
        members = _members([row.id for row in found.results], visible, principal)
        by_member = by_state_of_each("group_id", [member.id for member in members], principal)
        rows = _with_counts(found.results, members, by_member, principal)
        return Page(rows, found.next, found.previous, found.counting)


def get_group(group_id: int, *, principal: Principal) -> GroupDetail:
    """Return the group; raise NotFound."""
    principal.require(Permission.READ)
    with bounded():
        members = _members([group_id], _visible_members(principal), principal)
        if not members:
            raise NotFound(f"There is no failure group {group_id}.")
        sql, parameters = _select(principal, f"{int(group_id)}::bigint", [member.id for member in members])
        by_member = by_state_of_each("group_id", [member.id for member in members], principal)
        stored = fetch(StoredGroup, f"{sql} WHERE TRUE", parameters)
        (row,) = _with_counts(stored, members, by_member, principal)
        shown = sorted(members, key=lambda member: (member.id != group_id, -member.failures, member.id))
        return GroupDetail(
            **vars(row),
            days=_failures_a_day([member.id for member in members], principal),
            versions=_versions([member.id for member in members], principal),
            members=tuple(_shown(member, by_member[member.id]["NDLV"]) for member in shown),
        )


def _select(
    principal: Principal, of: str, members: Sequence[int] | None, ordering: str = "-last_at"
) -> tuple[str, list[Any]]:
    scope, parameters = scope_condition(principal)
    own, counted = scope_condition(principal, "c.address_id")
    groups, ordered, more, joined = "failure_group", [], "", ""
    if ordering == "-undecided":
        more, joined = ", coalesce(sum(undecided.n), 0)::bigint AS undecided", _UNDECIDED.format(scope=own)
        ordered = counted
    elif ordering != "-last_at" and not principal.sees_everything:
        groups, ordered = _IN_SCOPE.format(scope=scope), parameters
    seen = _SEEN.format(
        of=of, which="TRUE" if members is None else "g.id = ANY(%s)", groups=groups, more=more, joined=joined
    )
    undecided = "seen.undecided, " if more else ""
    sql = _SELECT.format(scope=scope, is_snoozed=IS_SNOOZED, seen=seen, undecided=undecided)
    return sql, [*parameters, *ordered, *([] if members is None else [list(members)])]


def _conditions(only: GroupFilter) -> tuple[str, list[Any]]:
    snoozed = f"({IS_SNOOZED}) IS {'' if only.is_snoozed else 'NOT '}TRUE"
    given: dict[str, Any] = {}
    if only.error is not None:
        found = groups_holding([only.error], with_sample=True)
        given[f"seen.id IN (SELECT {SEEN_AS} FROM failure_group g WHERE g.id = ANY(%s))"] = found  # noqa: S608
    if only.owner is not None:
        given["owner.username = %s"] = only.owner
    if only.tags:
        given["said.tags && %s::varchar[]"] = list(only.tags)
    return " AND ".join([snoozed, *given]), list(given.values())


def _visible_members(principal: Principal) -> list[int] | None:
    """Return the groups that have a message in the principal's scope; None where that is all of them."""
    visible = visible_ids(principal)
    return None if visible is None else fetch_values(_COUNTED, [visible])


def _members(group_ids: Collection[int], visible: Sequence[int] | None, principal: Principal) -> list[_Fingerprint]:
    """Return the groups and what is merged into them, as far as the principal sees them."""
    of = members_of(group_ids)
    ids = list(of) if visible is None else sorted(set(of) & set(visible))
    rows = fetch_rows(
        "SELECT id, title, error_class, fingerprint, first_at, last_at, failures FROM failure_group WHERE id = ANY(%s)",
        [ids],
    )
    return _counted_in_scope([_Fingerprint(row[0], of[row[0]], *row[1:]) for row in rows], principal)


def _counted_in_scope(members: list[_Fingerprint], principal: Principal) -> list[_Fingerprint]:
    """Return the members with what is in scope of their failures only; each failure is an attempt."""
    scope, parameters = scope_condition(principal)
    if scope == "TRUE":
        return members
    counted = fetch_rows(
        "SELECT t.fingerprint, count(*), min(t.finished_at), max(t.finished_at) FROM attempt t"  # noqa: S608
        f" JOIN message m ON m.id = t.message_id AND {scope}"
        " WHERE t.outcome <> 'delivered' AND t.fingerprint = ANY(%s) GROUP BY 1",
        [*parameters, [member.fingerprint for member in members]],
    )
    found = {fingerprint: (n, first_at, last_at) for fingerprint, n, first_at, last_at in counted}
    totals = [(one, *found.get(one.fingerprint, (0, one.first_at, one.last_at))) for one in members]
    return [replace(one, failures=n, first_at=first_at, last_at=last_at) for one, n, first_at, last_at in totals]


def _with_counts(
    stored: Sequence[StoredGroup],
    members: Sequence[_Fingerprint],
    by_member: Mapping[int, ByState],
    principal: Principal,
) -> list[GroupRow]:
    of = {member.id: member.group_id for member in members}
    counts = {row.id: empty() for row in stored}
    for member_id, by_state in by_member.items():
        for state, n in by_state.items():
            counts[of[member_id]][state] += n
    trends = _failures_an_hour(of, principal)
    return [
        GroupRow(**_stored(_in_scope(row, members)), counts=counts[row.id], trend=tuple(trends[row.id]))
        for row in stored
    ]


def _stored(row: StoredGroup) -> dict[str, Any]:
    return {field.name: getattr(row, field.name) for field in fields(StoredGroup)}


def _in_scope(row: StoredGroup, members: Sequence[_Fingerprint]) -> StoredGroup:
    mine = [member for member in members if member.group_id == row.id]
    return replace(
        row,
        first_at=min(member.first_at for member in mine),
        last_at=max(member.last_at for member in mine),
        failures=sum(member.failures for member in mine),
    )


def _failures_an_hour(of: Mapping[int, int], principal: Principal) -> dict[int, list[int]]:
    """Return for each group its failures in the last 24 hours of the clock, the current one last."""
    scope, parameters = scope_condition(principal, "h.address_id")
    hours = fetch_rows(
        "SELECT h.group_id, extract(epoch FROM date_trunc('hour', now()) - h.hour)::int / 3600, sum(h.failures)::bigint"  # noqa: S608
        " FROM group_hour h WHERE h.group_id = ANY(%s)"
        f" AND h.hour > now() - interval '{TREND_HOURS} hours' AND {scope} GROUP BY 1, 2",
        [list(of), *parameters],
    )
    found = {group_id: [0] * TREND_HOURS for group_id in of.values()}
    for member_id, hours_ago, n in hours:
        if 0 <= hours_ago < TREND_HOURS:
            found[of[member_id]][TREND_HOURS - 1 - hours_ago] += n
    return found


def _failures_a_day(member_ids: Sequence[int], principal: Principal) -> tuple[int, ...]:
    """Return the failures in the last 28 days in UTC, today last."""
    scope, parameters = scope_condition(principal, "h.address_id")
    days = fetch_rows(
        "SELECT (now() AT TIME ZONE 'UTC')::date - (h.hour AT TIME ZONE 'UTC')::date, sum(h.failures)::bigint"  # noqa: S608
        " FROM group_hour h WHERE h.group_id = ANY(%s)"
        f" AND h.hour > now() - interval '{TREND_DAYS} days' AND {scope} GROUP BY 1",
        [list(member_ids), *parameters],
    )
    found = [0] * TREND_DAYS
    for days_ago, n in days:
        if 0 <= days_ago < TREND_DAYS:
            found[TREND_DAYS - 1 - days_ago] += n
    return tuple(found)


def _versions(member_ids: Sequence[int], principal: Principal) -> tuple[FailedVersion, ...]:
    scope, parameters = scope_condition(principal, "v.address_id")
    sql = f"""SELECT v.consumer_version, min(v.first_at) AS first_at, max(v.last_at) AS last_at,
                     sum(v.failures)::bigint AS failures
              FROM group_version v WHERE v.group_id = ANY(%s) AND {scope}
              GROUP BY 1 ORDER BY 3 DESC, 1 LIMIT {SHOWN_VERSIONS}"""  # noqa: S608
    return tuple(fetch(FailedVersion, sql, [list(member_ids), *parameters]))


def _shown(member: _Fingerprint, undecided: int) -> GroupMember:
    values = {name: value for name, value in vars(member).items() if name != "group_id"}
    return GroupMember(**values, undecided=undecided)
