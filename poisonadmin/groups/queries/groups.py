"""Failure groups: those that people see, each with what is merged into it and its messages in a list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import partial
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.core.queries.masking import with_titles
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import bounded, fetch, fetch_values
from poisonadmin.core.queries.scope import scope_condition
from poisonadmin.core.queries.sql import EMPTY, TRUE, Sql, all_of
from poisonadmin.groups.queries.group_counts import (
    TREND_HOURS,
    FailedVersion,
    GroupCounts,
    addresses_of,
    count_groups,
    failed_versions,
    failures_a_day,
    failures_an_hour,
)
from poisonadmin.messages.domain.states import State
from poisonadmin.messages.queries.counts import ByState, by_state_of_each, empty
from poisonadmin.messages.queries.merged_groups import SEEN_AS, seen_as
from poisonadmin.search.domain.filters import MessageFilter, Term
from poisonadmin.search.queries.group_members import Fingerprint, members_seen, visible_members
from poisonadmin.search.queries.meanings import IS_SNOOZED, as_groups, is_about_groups

ORDERINGS = {
    "-last_at": Key(("seen.last_at", "seen.id"), (datetime, int)),
    "-first_at": Key(("seen.first_at", "seen.id"), (datetime, int)),
    "-failures": Key(("seen.failures", "seen.id"), (int, int)),
    **dict.fromkeys(("-undecided", "-messages", "-trend"), Key(("seen.figure", "seen.id"), (int, int))),
}
NOT_SNOOZED = MessageFilter((Term("snoozed", (False,)),))
# Joined to each fingerprint: its messages, as they were counted before, or its failures in the last hours.
_COUNTED_JOIN = partial(
    Sql, "LEFT JOIN unnest({groups}::bigint[], {sums}::bigint[]) figure (group_id, n) ON figure.group_id = g.id"
)
_TREND_JOIN = partial(
    Sql,
    """LEFT JOIN LATERAL (
    SELECT sum(h.failures) AS n FROM group_hour h
    WHERE h.group_id = g.id AND h.hour > now() - {hours} * interval '1 hour' AND {scope}) figure ON TRUE""",
    hours=TREND_HOURS,
)


@dataclass(frozen=True)
class StoredGroup:
    """Failures with the same fingerprint, or with fingerprints that are merged: how many, the first and the last, in
    the reader's scope. `snoozed_until` and `snoozed_failures`, at which its snooze ends, are None once it is over.
    `merged_into_id`: the group to look at instead. `regressed_at`: when it failed again on `regressed_version`, which
    an operation had waited for.
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
    snoozed_failures: int | None
    regressed_at: datetime | None
    regressed_version: str | None
    revision: int

    @property
    def etag(self) -> str:
        """The ETag that `If-Match` is compared with when the annotation is changed."""
        return f'"{self.revision}"'


@dataclass(frozen=True)
class GroupRow(StoredGroup):
    """With its messages by state, in a list those that match. `trend` is failures an hour over the last day, the
    current hour last. `addresses`: where it has messages that are not over, those with most first.
    """

    counts: ByState
    trend: tuple[int, ...]
    addresses: tuple[str, ...]

    @property
    def messages(self) -> int:
        """The number of messages that have it, in any state."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class GroupPage(Page[GroupRow]):
    """`without`: how many messages that match are of no group. `cut`: only so many messages, the newest, were counted;
    None where all were.
    """

    without: int = 0
    cut: int | None = None


@dataclass(frozen=True)
class _GroupWithFigure(StoredGroup):
    figure: int


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
class GroupDetail(GroupRow):
    """With its fingerprints, the group's own first. `days` is failures a day in UTC over four weeks, today last.

    `versions`: the consumer versions that it was seen with, the latest failure first, at most 50.
    """

    days: tuple[int, ...]
    versions: tuple[FailedVersion, ...]
    members: tuple[GroupMember, ...]


# Of what is merged, the group that it was merged into says what it is called, where that is in scope.
_SEEN = partial(
    Sql,
    """
SELECT {of} AS id, coalesce(min(g.id) FILTER (WHERE g.merged_into_id IS NULL), min(g.id)) AS named_id,
       min(g.first_at) AS first_at, max(g.last_at) AS last_at, sum(g.failures)::bigint AS failures{more}
FROM {groups} g {joined} WHERE {which} GROUP BY 1
""",
)
# How many failures there are outside the scope must not show in the order either.
_IN_SCOPE = partial(
    Sql,
    """(SELECT stored.id, merged_into_id, own.* FROM failure_group stored CROSS JOIN LATERAL (
    SELECT count(*) AS failures, coalesce(min(t.finished_at), stored.first_at) AS first_at,
           coalesce(max(t.finished_at), stored.last_at) AS last_at
    FROM attempt t JOIN message m ON m.id = t.message_id AND {scope}
    WHERE t.outcome <> 'delivered' AND t.fingerprint = stored.fingerprint) own)""",
)
# The end of a snooze as far as failures in scope are counted: so many more.
_SELECT = partial(
    Sql,
    """
SELECT seen.id, {figure}named.title, named.error_class, named.fingerprint, named.version, seen.first_at,
       seen.last_at, seen.failures,
       (SELECT m.id FROM message m WHERE m.id = named.sample_message_id AND {scope}) AS sample_message_id,
       CASE WHEN named.merged_into_id <> seen.id THEN named.merged_into_id END AS merged_into_id,
       owner.username AS owner, coalesce(said.note, '') AS note, said.ticket_url,
       coalesce(said.tags, '{{}}') AS tags, CASE WHEN {is_snoozed} THEN said.snoozed_until END AS snoozed_until,
       CASE WHEN {is_snoozed} THEN seen.failures + said.snoozed_failures - (
           SELECT sum(failures)::bigint FROM failure_group WHERE id = seen.id OR merged_into_id = seen.id
       ) END AS snoozed_failures,
       named.regressed_at, named.regressed_version,
       coalesce(said.revision, 0) AS revision
FROM ({seen}) seen JOIN failure_group named ON named.id = seen.named_id
     LEFT JOIN annotation said ON said.group_id = seen.id LEFT JOIN auth_user owner ON owner.id = said.owner_id
WHERE TRUE
""",
)


def list_groups(
    message_filter: MessageFilter = NOT_SNOOZED,
    *,
    principal: Principal,
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
    ordering: str = "-last_at",
) -> GroupPage:
    """Return one page of the groups that are merged into no other, with the messages that match.

    A group without such a message is left out, unless the filter speaks of groups only. All figures are in the caller's
    scope; failures, times and trend are the group's, whatever matches. Raise InvalidFilter, InvalidCursor,
    QueryTooExpensive.
    """
    principal.require(Permission.READ)
    if ordering not in ORDERINGS:
        raise InvalidFilter("ordering", f"Groups are ordered by {', '.join(ORDERINGS)}, not {ordering[:40]!r}.")
    page = window(cursor, limit, ORDERINGS[ordering])
    with bounded():
        is_of_groups = all(is_about_groups(term.field) for term in message_filter.terms)
        counted = None
        if ordering in ("-undecided", "-messages") or not (is_of_groups and message_filter.terms):
            counted = count_groups(message_filter, principal)
        left = _members_left(message_filter, None if is_of_groups else counted, principal)
        chosen = _select(principal, SEEN_AS, left, ordering, counted)
        row = _GroupWithFigure if "figure" in ORDERINGS[ordering].columns[0] else StoredGroup
        found = fetch_page(row, chosen, page=page)
        members = members_seen([row.id for row in found.results], left, principal)
        ids = [member.id for member in members]
        if counted is None:
            by_member = by_state_of_each("group_id", ids, principal)
        else:
            by_member = {one: counted.by_member.get(one, empty()) for one in ids}
        rows = _with_counts(found.results, members, by_member, principal)
        without, cut = (0, None) if counted is None else (counted.without, counted.cut)
        return GroupPage(with_titles(rows, principal), found.next, found.previous, found.counting, without, cut)


def get_group(group_id: int, *, principal: Principal) -> GroupDetail:
    """Return the group; raise NotFound."""
    principal.require(Permission.READ)
    with bounded():
        members = members_seen([group_id], visible_members(principal), principal)
        if not members:
            raise NotFound(f"There is no failure group {group_id}.")
        chosen = _select(principal, Sql("{id}::bigint", id=group_id), [member.id for member in members])
        by_member = by_state_of_each("group_id", [member.id for member in members], principal)
        stored = fetch(StoredGroup, chosen)
        (row,) = _with_counts(stored, members, by_member, principal)
        shown = sorted(members, key=lambda member: (member.id != group_id, -member.failures, member.id))
        return GroupDetail(
            **vars(with_titles([row], principal)[0]),
            days=failures_a_day([member.id for member in members], principal),
            versions=failed_versions([member.id for member in members], principal),
            members=tuple(with_titles([_shown(member, by_member[member.id]["NDLV"]) for member in shown], principal)),
        )


def group_of_message(group_id: int, *, principal: Principal) -> StoredGroup | None:
    """Return the group of a message that the principal sees, as it is stored; None where there is none any more."""
    found = fetch(StoredGroup, _select(principal, Sql("{id}::bigint", id=group_id), [group_id]))
    return with_titles(found, principal)[0] if found else None


def _select(
    principal: Principal,
    of: Sql,
    members: Sequence[int] | None,
    ordering: str = "-last_at",
    counted: GroupCounts | None = None,
) -> Sql:
    scope = scope_condition(principal)
    groups, joined = Sql("failure_group"), EMPTY
    if counted is not None and ordering in ("-undecided", "-messages"):
        wanted = [State.NDLV] if ordering == "-undecided" else list(State)
        sums = [sum(by_state[state] for state in wanted) for by_state in counted.by_member.values()]
        joined = _COUNTED_JOIN(groups=list(counted.by_member), sums=sums)
    elif ordering == "-trend":
        joined = _TREND_JOIN(scope=scope_condition(principal, "h.address_id"))
    elif ordering != "-last_at" and not principal.sees_everything:
        groups = _IN_SCOPE(scope=scope)
    seen = _SEEN(
        of=of,
        which=TRUE if members is None else Sql("g.id = ANY({ids})", ids=list(members)),
        groups=groups,
        more=Sql(", coalesce(sum(figure.n), 0)::bigint AS figure") if joined else EMPTY,
        joined=joined,
    )
    figure = Sql("seen.figure, ") if joined else EMPTY
    return _SELECT(scope=scope, is_snoozed=IS_SNOOZED, seen=seen, figure=figure)


def _members_left(message_filter: MessageFilter, counted: GroupCounts | None, principal: Principal) -> list[int] | None:
    """Return the fingerprints of the groups to be listed: those that the filter names, of those that have a message in
    scope, and one of the counted where they are given; None where that is all of them.
    """
    terms = [as_groups(term, principal) for term in message_filter.terms if is_about_groups(term.field)]
    if counted is not None:
        merged = seen_as()
        terms.append(Term("group", tuple(merged.get(one, one) for one in counted.by_member)))
    conditions = [
        Sql("{group} <> ALL({ids})", group=SEEN_AS, ids=list(term.values))
        if term.negated
        else Sql("{group} = ANY({ids})", group=SEEN_AS, ids=list(term.values))
        for term in terms
    ]
    if (visible := visible_members(principal)) is not None:
        conditions.append(Sql("g.id = ANY({ids})", ids=visible))
    if not conditions:
        return None
    return fetch_values(Sql("SELECT g.id FROM failure_group g WHERE {which}", which=all_of(conditions)))


def _with_counts(
    stored: Sequence[StoredGroup],
    members: Sequence[Fingerprint],
    by_member: Mapping[int, ByState],
    principal: Principal,
) -> list[GroupRow]:
    of = {member.id: member.group_id for member in members}
    counts = {row.id: empty() for row in stored}
    for member_id, by_state in by_member.items():
        for state, n in by_state.items():
            counts[of[member_id]][state] += n
    trends, addresses = failures_an_hour(of, principal), addresses_of(of, principal)
    return [
        GroupRow(
            **_stored(_in_scope(row, members)),
            counts=counts[row.id],
            trend=tuple(trends[row.id]),
            addresses=addresses[row.id],
        )
        for row in stored
    ]


def _stored(row: StoredGroup) -> dict[str, Any]:
    return {field.name: getattr(row, field.name) for field in fields(StoredGroup)}


def _in_scope(row: StoredGroup, members: Sequence[Fingerprint]) -> StoredGroup:
    mine = [member for member in members if member.group_id == row.id]
    failures = sum(member.failures for member in mine)
    ends_at = row.snoozed_failures
    return replace(
        row,
        snoozed_failures=None if ends_at is None else ends_at - row.failures + failures,
        first_at=min(member.first_at for member in mine),
        last_at=max(member.last_at for member in mine),
        failures=failures,
    )


def _shown(member: Fingerprint, undecided: int) -> GroupMember:
    values = {name: value for name, value in vars(member).items() if name != "group_id"}
    return GroupMember(**values, undecided=undecided)
