"""The blacklist: messages that crashed what processed them too often, and those under suspicion."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.masking import masked
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Count, Key, Page, count_rows, window
from poisonadmin.core.queries.rows import bounded, fetch, fetch_rows, fetch_values
from poisonadmin.core.queries.scope import scope_condition
from poisonadmin.core.queries.sql import EMPTY, TRUE, Sql, all_of
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.counts import ByState, empty
from poisonadmin.messages.queries.crashes import CRASHED, CrashRow, crashes_of
from poisonadmin.messages.queries.message_rows import COLUMNS, JOINS, MessageRow, messages_by_id
from poisonadmin.search.domain.filters import MessageFilter, Term
from poisonadmin.search.queries.lists import ORDERINGS, capped_count, total
from poisonadmin.search.queries.live import compile_filter

Place = tuple[int, int]


@dataclass(frozen=True)
class Others:
    """The numbers of messages that shared the node, by their states now; only those that the reader may see.

    `blacklisted` counts those that are blacklisted themselves.
    """

    by_state: ByState
    blacklisted: int = 0

    @property
    def count(self) -> int:
        """All of them."""
        return sum(self.by_state.values())

    @property
    def delivered(self) -> int:
        """Those that are delivered by now."""
        return self.by_state[State.DLVD]

    @property
    def under_way(self) -> int:
        """Those that wait for their delivery, or are being delivered."""
        return self.by_state[State.TBDL] + self.by_state[State.DLNG]

    @property
    def stopped(self) -> int:
        """Those that were stopped or given up without crashing anything: they failed, expired, …"""
        return self.by_state[State.NDLV] + self.by_state[State.FAIL] - self.blacklisted

    def without(self, message: MessageRow) -> "Others":
        """Return the same without one message."""
        is_blacklisted = message.state == State.NDLV and message.reason == Reason.BLACKLISTED
        return Others(
            self.by_state | {message.state: max(self.by_state[message.state] - 1, 0)},
            max(self.blacklisted - is_blacklisted, 0),
        )


def others_on(places: Collection[Place], *, principal: Principal) -> dict[Place, Others]:
    """Return for each (claim, shard) how its messages stand now; a place that is no longer on record is left out."""
    principal.require(Permission.READ)
    rows = fetch_rows(
        Sql(
            """SELECT s.claim_id, s.shard, m.state, count(*), count(m.blacklisted_at)
            FROM unnest({claims}::bigint[], {shards}::int[]) AS place (claim_id, shard)
            JOIN claim_shard s ON s.claim_id = place.claim_id AND s.shard = place.shard
            CROSS JOIN LATERAL unnest(s.message_ids) AS taken (id)
            CROSS JOIN LATERAL (SELECT * FROM message WHERE message.id = taken.id OFFSET 0) m WHERE {scope}
            GROUP BY 1, 2, 3""",
            claims=[claim_id for claim_id, _ in places],
            shards=[shard for _, shard in places],
            scope=scope_condition(principal),
        )
    )
    found: dict[Place, Others] = {}
    for claim_id, shard, state, n, blacklisted in rows:
        known = found.get((claim_id, shard), Others(empty()))
        found[claim_id, shard] = Others(known.by_state | {state: n}, known.blacklisted + blacklisted)
    return found


def list_others(
    crash: CrashRow,
    *,
    principal: Principal,
    states: Sequence[str] = (),
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Page[MessageRow]:
    """Return one page of the messages that shared the node with a crash, newest first."""
    principal.require(Permission.READ)
    page = window(cursor, limit, ORDERINGS["-id"])
    whole = Sql(
        """SELECT m.* FROM message m WHERE m.id <> {message} AND m.id = ANY(
        (SELECT message_ids FROM claim_shard WHERE claim_id = {claim} AND shard = {shard})::bigint[])
        AND {scope} AND {wanted}""",
        message=crash.message_id,
        claim=crash.claim_id,
        shard=crash.shard,
        scope=scope_condition(principal),
        wanted=Sql("m.state = ANY({states})", states=list(states)) if states else TRUE,
    )
    with bounded():
        rows = _messages(
            Sql("{whole} AND {place} {order}", whole=whole, place=page.where, order=page.order), page.order
        )
    return page.page(masked(rows, principal), lambda: count_rows(whole))


def _messages(found: Sql, order: Sql) -> list[MessageRow]:
    """Return the rows of a query of `message m`, as lists show them."""
    return fetch(
        MessageRow,
        Sql(
            "SELECT {columns} FROM ({found}) m {joins} {order}", columns=COLUMNS, found=found, joins=JOINS, order=order
        ),
    )


PAGE_ROWS = 25
EVERY = MessageFilter()
_BLACKLISTED = (Term("state", (State.NDLV,)), Term("reason", (Reason.BLACKLISTED,)))
_KEY = Key(("m.blacklisted_at", "m.id"), (datetime, int), fields=("state_at", "id"))
# Spelt as in the partial index `message_candidates`. Whoever reads it adds OFFSET 0, a fence: the planner does not know
# that most candidates are blacklisted, would count on many that wait, and walk all messages to find the first ones.
_CANDIDATES = Sql("SELECT m.* FROM message m WHERE m.candidate AND NOT m.is_undecided AND NOT m.is_given_up")


@dataclass(frozen=True)
class Crash:
    """A crash, and how those who shared the node with the message have fared; None where it was delivered alone."""

    row: CrashRow
    others: Others | None


@dataclass(frozen=True)
class Suspect:
    """A message and its last crashes, oldest first. `is_alone`: it is being delivered by itself now."""

    message: MessageRow
    crashes: tuple[Crash, ...]
    is_alone: bool = False


def list_blacklisted(
    message_filter: MessageFilter = EVERY, *, principal: Principal, cursor: str | None = None, limit: int = PAGE_ROWS
) -> Page[Suspect]:
    """Return one page of those that match, the latest first. Raise InvalidCursor, InvalidFilter, QueryTooExpensive."""
    principal.require(Permission.READ)
    page = window(cursor, limit, _KEY)
    with bounded():
        where = compile_filter(_besides_state(message_filter), principal)
        blacklisted = Sql(
            "SELECT m.* FROM message m WHERE m.blacklisted_at IS NOT NULL AND {where} AND {place} {order}",
            where=where.whole,
            place=page.where,
            order=page.order,
        )
        rows = _messages(blacklisted, page.order)
        found = page.page(rows)
        wanted = replace(message_filter, terms=(*message_filter.terms, *_BLACKLISTED))
        suspected = _with_crashes(found.results, principal)
        return Page(suspected, found.next, found.previous, lambda: total(wanted, principal=principal))


def suspects(ids: Sequence[int], *, principal: Principal) -> list[Suspect]:
    """Return these messages as the blacklist shows them, in whatever state they are now; at most 500."""
    with bounded():
        return _with_crashes(messages_by_id(ids, principal=principal), principal)


def count_newer(message_filter: MessageFilter = EVERY, *, principal: Principal, since: datetime) -> Count:
    """Return how many messages were blacklisted after `since`, counted no further than 100."""
    principal.require(Permission.READ)
    with bounded():
        where = compile_filter(_besides_state(message_filter), principal)
        return capped_count(all_of([Sql("m.blacklisted_at > {since}", since=since), where.whole]), 100)


def count_candidates(message_filter: MessageFilter = EVERY, *, principal: Principal) -> int:
    """Return how many candidates wait for their delivery, or are delivered, alone."""
    principal.require(Permission.READ)
    with bounded():
        found: int = fetch_values(
            Sql("SELECT count(*) FROM ({found}) m", found=_candidates(message_filter, principal))
        )[0]
    return found


def _candidates(message_filter: MessageFilter, principal: Principal) -> Sql:
    where = compile_filter(_besides_state(message_filter), principal)
    return Sql("{candidates} AND {where} OFFSET 0", candidates=_CANDIDATES, where=where.whole)


def candidates(message_filter: MessageFilter = EVERY, *, principal: Principal, limit: int) -> list[Suspect]:
    """Return the first candidates that wait for their delivery, or are delivered, alone; each with its last crash.

    The filter's state and reason are those of blacklisted messages, and left aside.
    """
    principal.require(Permission.READ)
    with bounded():
        first = Sql(
            "SELECT * FROM ({found}) m ORDER BY m.id LIMIT {limit}",
            found=_candidates(message_filter, principal),
            limit=limit,
        )
        rows = _messages(first, Sql("ORDER BY m.id"))
        crashes = crashes_of([row.id for row in rows], most=1)
        alone = fetch_values(
            "SELECT m.id FROM message m JOIN claim c ON c.id = m.claim_id AND c.is_isolation"
            " WHERE m.id = ANY(%s) AND m.state = 'DLNG'",
            [[row.id for row in rows]],
        )
    return [
        Suspect(
            row,
            tuple(Crash(crash, None) for crash in _readable(row, crashes, principal)),
            is_alone=row.id in alone,
        )
        for row in masked(rows, principal)
    ]


def has_ever_crashed(principal: Principal) -> bool:
    """Return whether any message that the principal may see has crashed what processed it, or was lost with a node."""
    principal.require(Permission.READ)
    join = (
        EMPTY
        if principal.sees_everything
        else Sql("JOIN message m ON m.id = t.message_id AND {scope}", scope=scope_condition(principal))
    )
    crashed = Sql("SELECT EXISTS (SELECT FROM attempt t {join} WHERE t.{crashed})", join=join, crashed=CRASHED)
    with bounded():
        return bool(fetch_values(crashed)[0])


def _besides_state(message_filter: MessageFilter) -> MessageFilter:
    """Return the filter without what all blacklisted messages have, which no index by crash names."""
    return replace(message_filter, terms=tuple(one for one in message_filter.terms if one not in _BLACKLISTED))


def _with_crashes(rows: Sequence[MessageRow], principal: Principal) -> list[Suspect]:
    crashes = crashes_of([row.id for row in rows])
    together = {
        (crash.claim_id, crash.shard)
        for some in crashes.values()
        for crash in some
        if crash.claim_id is not None and crash.shard is not None and not crash.is_alone
    }
    others = others_on(together, principal=principal)
    rows = masked(rows, principal)

    def crash_of(message: MessageRow, crash: CrashRow) -> Crash:
        everybody = others.get((crash.claim_id, crash.shard))  # type: ignore[arg-type]
        return Crash(crash, None if everybody is None else everybody.without(message))

    return [
        Suspect(
            row,
            tuple(crash_of(row, crash) for crash in _readable(row, crashes, principal)),
        )
        for row in rows
    ]


def _readable(row: MessageRow, crashes: Mapping[int, Sequence[CrashRow]], principal: Principal) -> list[CrashRow]:
    return masked(crashes[row.id], principal, row.address, row.original_address)
