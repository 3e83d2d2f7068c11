"""The failure log across messages, newest first, and the failure groups, the latest failure first."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.address_ids import addresses_in_scope, scope_condition, visible_ids
from poisonadmin.core.queries.filter_values import InvalidFilter
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import MAX_ID, all_given, bounded, fetch, fetch_rows, fetch_values
from poisonadmin.destinations.queries import destinations_seen
from poisonadmin.messages.domain.states import State
from poisonadmin.messages.queries.counts import NOW, ByState, by_state_of_each, how_many
from poisonadmin.messages.queries.error_search import attempt_condition, groups_holding
from poisonadmin.messages.queries.filter_sql import compile_filter
from poisonadmin.messages.queries.filters import MessageFilter
from poisonadmin.messages.queries.lists import capped_count

FEW_MESSAGES = 20_000
_FAILURE_KEY = Key(("t.finished_at", "t.message_id", "t.attempt_number"), (datetime, int, int))


@dataclass(frozen=True)
class FailureFilter:
    """All that is given must hold; any one of the values of a tuple."""

    addresses: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()
    errors: tuple[str, ...] = ()
    destinations: tuple[str, ...] = ()
    message: int | None = None
    failed_after: datetime | None = None
    failed_before: datetime | None = None


@dataclass(frozen=True)
class FailureRow:
    """One attempt that failed; `address` is where the message is now."""

    message_id: int
    attempt_number: int
    finished_at: datetime
    outcome: str
    error_class: str | None
    error_message: str | None
    title: str | None
    status_code: int | None
    address: str
    destination: str | None
    node: str | None
    group_id: int | None


def list_failures(
    only: FailureFilter,
    *,
    principal: Principal,
    within: MessageFilter | None = None,
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Page[FailureRow]:
    """Return one page; with `within`, of the messages that a filter finds. Raise InvalidCursor, QueryTooExpensive."""
    principal.require(Permission.READ)
    page = window(cursor, limit, _FAILURE_KEY)
    with bounded():
        addresses = addresses_in_scope(principal, only.addresses)
        if addresses == []:
            return Page([], None, None)
        where, parameters = all_given(
            {
                "m.address_id = ANY(%s)": addresses,
                "g.id = ANY(%s)": list(only.groups) or None,
                "d.name = ANY(%s)": list(only.destinations) or None,
                "t.message_id = %s": only.message,
                "t.finished_at >= %s": only.failed_after,
                "t.finished_at < %s": only.failed_before,
            }
        )
        error, texts = attempt_condition(only.errors) if only.errors else ("TRUE", [])
        messages, own = _messages(addresses) if within is None else _found(within, principal)
        seen, destinations = destinations_seen(principal, "d.id")
        named = destinations if only.destinations else []
        # Its condition is spelt as in the partial index `attempt_failures`, which a parameter would hide from the
        # planner. What a handler discarded, moved or rolled back is there too, and is no failure: it has no class.
        sql = f"""SELECT t.message_id, t.attempt_number, t.finished_at, t.outcome, t.error_class, t.error_message,
            t.title, t.status_code, a.name AS address, CASE WHEN {seen} THEN d.name END AS destination, n.name AS node,
            g.id AS group_id
            FROM attempt t JOIN {messages} m ON m.id = t.message_id JOIN address a ON a.id = m.address_id
            LEFT JOIN destination d ON d.id = t.destination_id
            LEFT JOIN node n ON n.claim_id = t.claim_id AND n.shard = t.shard
            LEFT JOIN failure_group g ON g.fingerprint = t.fingerprint
            WHERE t.outcome <> 'delivered' AND t.error_class IS NOT NULL AND {where} AND ({error})
            AND {seen if only.destinations else "TRUE"}"""  # noqa: S608
        return fetch_page(FailureRow, sql, [*destinations, *own, *parameters, *texts, *named], page)


def _messages(addresses: list[int] | None) -> tuple[str, list[Any]]:
    """Return what to join the attempts with: where the addresses hold few messages, those first and alone.

    Walking the log newest first would read all of it for an address whose messages do not fail.
    """
    if addresses is None or how_many(addresses) > FEW_MESSAGES:
        return "message", []
    return "(SELECT id, address_id FROM message WHERE address_id = ANY(%s) OFFSET 0)", [addresses]


def _found(within: MessageFilter, principal: Principal) -> tuple[str, list[Any]]:
    """Return what to join the attempts with: what the filter finds, first and alone where that is little."""
    where = compile_filter(within, principal)
    is_little = not capped_count(where.whole, where.parameters, FEW_MESSAGES).capped
    return (
        f"(SELECT m.id, m.address_id FROM message m WHERE {where.whole}{' OFFSET 0' if is_little else ''})",  # noqa: S608
        where.parameters,
    )


GROUP_ORDERINGS = {
    "-last_at": Key(("g.last_at", "g.id"), (datetime, int)),
    "-first_at": Key(("g.first_at", "g.id"), (datetime, int)),
    "-failures": Key(("g.failures", "g.id"), (int, int)),
    "-undecided": Key(("g.undecided", "g.id"), (int, int)),
}
TREND_HOURS = 24


@dataclass(frozen=True)
class StoredGroup:
    """Failures with the same fingerprint: how many, the first and the last, in the reader's scope."""

    id: int
    title: str
    error_class: str
    fingerprint: str
    version: int
    first_at: datetime
    last_at: datetime
    failures: int
    sample_message_id: int | None


@dataclass(frozen=True)
class GroupRow(StoredGroup):
    """With its counts. `trend` is failures an hour over the last day, the current hour last."""

    counts: ByState
    trend: tuple[int, ...]


@dataclass(frozen=True)
class _GroupWithUndecided(StoredGroup):
    undecided: int


_SELECT = """SELECT g.id, g.title, g.error_class, g.fingerprint, g.version, g.first_at, g.last_at, g.failures,
 CASE WHEN {scope} THEN m.id END AS sample_message_id{more}
 FROM {groups} g LEFT JOIN message m ON m.id = g.sample_message_id"""
_WITH_UNDECIDED = f"""(SELECT stored.*, coalesce(n, 0) AS undecided FROM failure_group stored LEFT JOIN (
   SELECT c.group_id, sum(c.n)::bigint AS n FROM {NOW}
   WHERE c.group_id IS NOT NULL AND c.state = '{State.NDLV}' AND {{scope}} GROUP BY 1
 ) counted ON counted.group_id = stored.id)"""  # noqa: S608  (constants)
# How many failures there are outside the scope must not show in the order either.
_IN_SCOPE = """(SELECT stored.id, title, error_class, fingerprint, version, sample_message_id, own.*
 FROM failure_group stored CROSS JOIN LATERAL (
   SELECT count(*) AS failures, coalesce(min(t.finished_at), stored.first_at) AS first_at,
          coalesce(max(t.finished_at), stored.last_at) AS last_at
   FROM attempt t JOIN message m ON m.id = t.message_id AND {scope}
   WHERE t.outcome <> 'delivered' AND t.fingerprint = stored.fingerprint) own)"""
# By group and state, so that what left a state does not hide what is in another.
_COUNTED = f"""SELECT DISTINCT group_id FROM (
 SELECT c.group_id FROM {NOW} WHERE c.group_id IS NOT NULL AND c.address_id = ANY(%s)
 GROUP BY c.group_id, c.state HAVING sum(c.n) > 0) counted"""  # noqa: S608


def list_groups(
    *,
    principal: Principal,
    error: str | None = None,
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
    ordering: str = "-last_at",
) -> Page[GroupRow]:
    """Return one page, of the groups that hold `error` where it is given: in title, class, cause
    or the message of their sample.

    `ordering`: one of `GROUP_ORDERINGS`, all in the caller's scope. Raise InvalidFilter, InvalidCursor,
    QueryTooExpensive.
    """
    principal.require(Permission.READ)
    if ordering not in GROUP_ORDERINGS:
        raise InvalidFilter("ordering", f"Groups are ordered by {', '.join(GROUP_ORDERINGS)}, not {ordering[:40]!r}.")
    page = window(cursor, limit, GROUP_ORDERINGS[ordering])
    scope, parameters = scope_condition(principal)
    with bounded():
        groups, own = _ordered_groups(ordering, principal)
        conditions, wanted = _listed_groups(principal, error)
        is_undecided = ordering == "-undecided"
        select = _SELECT.format(scope=scope, groups=groups, more=", g.undecided" if is_undecided else "")
        found = fetch_page(
            _GroupWithUndecided if is_undecided else StoredGroup,
            f"{select} WHERE {conditions}",
            [*parameters, *own, *wanted],
            page,
        )
        return Page(_with_counts(found.results, principal), found.next, found.previous, found.counting)


def groups_by_id(ids: Sequence[int], *, principal: Principal) -> list[GroupRow]:
    """Return the groups among `ids` that the principal may see, in the order of `ids`."""
    principal.require(Permission.READ)
    scope, parameters = scope_condition(principal)
    with bounded():
        conditions, wanted = _listed_groups(principal, None)
        sql = f"{_SELECT.format(scope=scope, groups='failure_group', more='')} WHERE {conditions} AND g.id = ANY(%s)"
        found = _with_counts(fetch(StoredGroup, sql, [*parameters, *wanted, list(ids)]), principal)
    return sorted(found, key=lambda row: ids.index(row.id))


def _listed_groups(principal: Principal, error: str | None) -> tuple[str, list[Any]]:
    """Return the condition to be in the list, and its parameters."""
    visible, named = _visible_groups(principal), groups_holding([error], with_sample=True) if error else None
    wanted = [ids for ids in (visible, named) if ids is not None]
    return " AND ".join(["TRUE", *["g.id = ANY(%s)"] * len(wanted)]), wanted


def _ordered_groups(ordering: str, principal: Principal) -> tuple[str, list[Any]]:
    """Return where the groups are read from with what they are ordered by, and its parameters."""
    if ordering == "-undecided":
        scope, parameters = scope_condition(principal, "c.address_id")
        return _WITH_UNDECIDED.format(scope=scope), parameters
    scope, parameters = scope_condition(principal)
    if scope == "TRUE" or ordering == "-last_at":
        return "failure_group", []
    return _IN_SCOPE.format(scope=scope), parameters


def get_group(group_id: int, *, principal: Principal) -> GroupRow:
    """Return the group; raise NotFound."""
    principal.require(Permission.READ)
    scope, parameters = scope_condition(principal)
    sql = f"{_SELECT.format(scope=scope, groups='failure_group', more='')} WHERE g.id = %s"
    rows = fetch(StoredGroup, sql, [*parameters, group_id]) if 0 < group_id <= MAX_ID else []
    visible = _visible_groups(principal)
    if not rows or (visible is not None and group_id not in visible):
        raise NotFound(f"There is no failure group {group_id}.")
    with bounded():
        return _with_counts(rows, principal)[0]


def _visible_groups(principal: Principal) -> list[int] | None:
    """Return the groups that have a message in the principal's scope; None where that is all of them."""
    visible = visible_ids(principal)
    return None if visible is None else fetch_values(_COUNTED, [visible])


def _with_counts(stored: Sequence[StoredGroup], principal: Principal) -> list[GroupRow]:
    rows = _counted_in_scope(stored, principal)
    counts = by_state_of_each("group_id", [row.id for row in rows], principal)
    trends = _trends([row.fingerprint for row in rows], principal)
    return [
        GroupRow(
            **{field.name: getattr(row, field.name) for field in fields(StoredGroup)},
            counts=counts[row.id],
            trend=trends[row.fingerprint],
        )
        for row in rows
    ]


def _counted_in_scope(rows: Sequence[StoredGroup], principal: Principal) -> Sequence[StoredGroup]:
    """Return the groups with what is in scope of their failures only; each failure is an attempt."""
    scope, parameters = scope_condition(principal)
    if scope == "TRUE":
        return rows
    counted = fetch_rows(
        "SELECT t.fingerprint, count(*), min(t.finished_at), max(t.finished_at) FROM attempt t"  # noqa: S608
        f" JOIN message m ON m.id = t.message_id AND {scope}"
        " WHERE t.outcome <> 'delivered' AND t.fingerprint = ANY(%s) GROUP BY 1",
        [*parameters, [row.fingerprint for row in rows]],
    )
    found = {fingerprint: (n, first_at, last_at) for fingerprint, n, first_at, last_at in counted}
    totals = [(row, *found.get(row.fingerprint, (0, row.first_at, row.last_at))) for row in rows]
    return [replace(row, failures=n, first_at=first_at, last_at=last_at) for row, n, first_at, last_at in totals]


def _trends(fingerprints: list[str], principal: Principal) -> dict[str, tuple[int, ...]]:
    scope, parameters = scope_condition(principal)
    join = "" if scope == "TRUE" else f" JOIN message m ON m.id = t.message_id AND {scope}"
    hours = fetch_rows(
        "SELECT t.fingerprint, floor(extract(epoch FROM now() - t.finished_at) / 3600)::int,"  # noqa: S608
        f" count(*) FROM attempt t{join} WHERE t.outcome <> 'delivered' AND t.fingerprint = ANY(%s)"
        f" AND t.finished_at > now() - interval '{TREND_HOURS} hours' AND t.finished_at <= now() GROUP BY 1, 2",
        [*parameters, fingerprints],
    )
    found = {fingerprint: [0] * TREND_HOURS for fingerprint in fingerprints}
    for fingerprint, hours_ago, n in hours:
        if 0 <= hours_ago < TREND_HOURS:
            found[fingerprint][TREND_HOURS - 1 - hours_ago] += n
    return {fingerprint: tuple(counts) for fingerprint, counts in found.items()}
