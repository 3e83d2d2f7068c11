"""The bystanders: messages that shared a node with one that crashed it, and what became of them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.address_ids import visible_ids
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, window
from poisonadmin.core.queries.rows import bounded, fetch
from poisonadmin.delivery.queries.crashes import CrashRow
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.counts import ByState, empty
from poisonadmin.messages.queries.lists import COLUMNS, JOINS, MessageRow

_KEY = Key(("m.id",), (int,))
Place = tuple[int, int]


@dataclass(frozen=True)
class Others:
    """How many messages shared the node, by the state that each is in now; only those that the reader may see.

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


@dataclass(frozen=True)
class _Share:
    claim_id: int
    shard: int
    state: str
    n: int
    blacklisted: int


def others_on(places: Collection[Place], *, principal: Principal) -> dict[Place, Others]:
    """Return for each (claim, shard) how its messages stand now; a place that is no longer on record is left out."""
    principal.require(Permission.READ)
    scope, parameters = _scope(principal)
    rows = fetch(
        _Share,
        f"""SELECT s.claim_id, s.shard, m.state, count(*) AS n, count(m.blacklisted_at) AS blacklisted
            FROM unnest(%s::bigint[], %s::int[]) AS place (claim_id, shard)
            JOIN claim_shard s ON s.claim_id = place.claim_id AND s.shard = place.shard
            CROSS JOIN LATERAL unnest(s.message_ids) AS taken (id)
            CROSS JOIN LATERAL (SELECT * FROM message WHERE message.id = taken.id OFFSET 0) m WHERE {scope}
            GROUP BY 1, 2, 3""",  # noqa: S608
        [[claim_id for claim_id, _ in places], [shard for _, shard in places], *parameters],
    )
    found: dict[Place, Others] = {}
    for row in rows:
        place = (row.claim_id, row.shard)
        known = found.get(place, Others(empty()))
        found[place] = Others(known.by_state | {row.state: row.n}, known.blacklisted + row.blacklisted)
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
    page = window(cursor, limit, _KEY)
    scope, parameters = _scope(principal)
    wanted = "m.state = ANY(%s)" if states else "TRUE"
    with bounded():
        rows = fetch(
            MessageRow,
            f"""SELECT {COLUMNS} FROM (
                  SELECT m.* FROM message m WHERE m.id <> %s AND m.id = ANY(
                    (SELECT message_ids FROM claim_shard WHERE claim_id = %s AND shard = %s)::bigint[])
                    AND {scope} AND {wanted} AND {page.condition} {page.order}) m {JOINS} {page.order}""",  # noqa: S608
            [
                crash.message_id,
                crash.claim_id,
                crash.shard,
                *parameters,
                *([list(states)] if states else []),
                *page.parameters,
            ],
        )
    return page.page(rows, lambda row: (row.id,))


def _scope(principal: Principal) -> tuple[str, list[Any]]:
    ids = visible_ids(principal)
    return ("TRUE", []) if ids is None else ("m.address_id = ANY(%s)", [ids])
