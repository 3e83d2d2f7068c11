"""Processes that deliver, newest first; seen only by a principal without a limit, as jobs are."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, count_rows, window
from poisonadmin.core.queries.rows import bounded, fetch, fetch_one, fetch_rows, known
from poisonadmin.core.queries.sql import Sql, all_of
from poisonadmin.delivery.domain.lease import SILENT_SECONDS_AFTER_RESTART
from poisonadmin.messages.domain.outcomes import Outcome
from poisonadmin.messages.queries.crashes import CRASHED, CrashRow, crashes_on
from poisonadmin.messages.queries.message_rows import COLUMNS, JOINS, MessageRow

_KEY = Key(("n.id",), (int,))
SILENT = Sql("{seconds} * interval '1 s'", seconds=SILENT_SECONDS_AFTER_RESTART)
ALIVE = Sql("(n.ended_at IS NULL AND n.heartbeat_at > now() - {silent})", silent=SILENT)
LOST = Sql(
    """(n."end" = 'lost' OR (n.ended_at IS NULL AND n.heartbeat_at <= now() - {silent}))""",
    silent=SILENT,
)
SHOWN_MESSAGES = 10
LISTED_MESSAGES = 200


@dataclass(frozen=True)
class NodeRow:
    """One node. `delivering` counts what it holds and has not answered; `message_ids` are the first of those.

    `end`: clean, lost, fenced; None while it runs. `lost` counts what it had begun when it was lost, and
    `lost_message_ids` are the first of those; `crashes` counts the sandboxes that died on it. `candidate_id` is the
    candidate that it began last, alone.
    """

    id: int
    name: str
    host: str
    pid: int
    is_alive: bool
    started_at: datetime
    heartbeat_at: datetime
    ended_at: datetime | None
    end: str | None
    begun: int
    delivering: int
    message_ids: list[int]
    lost: int
    lost_message_ids: list[int]
    crashes: int
    candidate_id: int | None


@dataclass(frozen=True)
class NodeDetail:
    """A node with the messages that it holds, those that it had begun when it was lost, and the crashes that it saw.

    `unanswered`: what it was to deliver and left without a result, which went back. Each at most 200.
    """

    node: NodeRow
    holds: list[MessageRow]
    lost: list[CrashRow]
    crashes: list[CrashRow]
    unanswered: list[MessageRow]


# OFFSET 0 is a fence: to the planner hardly a message is DLNG, and it would read them all for each node.
_TAKEN = Sql(
    """CROSS JOIN LATERAL unnest(s.message_ids) AS taken (id)
    CROSS JOIN LATERAL (SELECT * FROM message WHERE message.id = taken.id OFFSET 0) m"""
)
_HELD = Sql("m.state = 'DLNG' AND m.claim_id = n.claim_id")
_UNANSWERED = Sql(
    "NOT EXISTS (SELECT FROM attempt t WHERE t.message_id = m.id AND t.claim_id = n.claim_id AND t.shard = n.shard)"
)


def _rows(chosen: Sql) -> Sql:
    """Return the statement that reads the nodes that another one has chosen."""
    # A node that runs no handler crashes nothing: its place in the partial index `attempt_crashes` is empty.
    return Sql(
        """SELECT n.id, n.name, n.host, n.pid, {alive} AS is_alive, n.started_at, n.heartbeat_at, n.ended_at, n."end",
         n.begun, coalesce(held.n, 0) AS delivering, coalesce(held.ids, ARRAY[]::bigint[]) AS message_ids,
         died.lost, died.ids AS lost_message_ids, died.crashes, n.start_mark AS candidate_id
        FROM ({chosen}) n
        LEFT JOIN LATERAL (
          SELECT count(*) AS n, (array_agg(m.id ORDER BY m.id))[1:{shown}] AS ids
          FROM claim_shard s {taken}
          WHERE n.ended_at IS NULL AND s.claim_id = n.claim_id AND s.shard = n.shard AND {held}
        ) held ON TRUE
        CROSS JOIN LATERAL (
          SELECT count(*) FILTER (WHERE outcome = 'node_lost') AS lost,
            count(*) FILTER (WHERE outcome = 'crashed') AS crashes,
            coalesce((array_agg(message_id ORDER BY message_id) FILTER (WHERE outcome = 'node_lost'))[1:{shown}],
                     ARRAY[]::bigint[]) AS ids
          FROM attempt WHERE claim_id = n.claim_id AND shard = n.shard AND {crashed}
        ) died""",
        alive=ALIVE,
        chosen=chosen,
        shown=SHOWN_MESSAGES,
        taken=_TAKEN,
        held=_HELD,
        crashed=CRASHED,
    )


def _taken_by(node_id: int, condition: Sql) -> list[MessageRow]:
    """Return the first messages that the node was to deliver and of which a condition holds."""
    left = Sql(
        """SELECT {columns} FROM (
          SELECT m.* FROM node n JOIN claim_shard s ON s.claim_id = n.claim_id AND s.shard = n.shard {taken}
          WHERE n.id = {id} AND {condition} ORDER BY m.id LIMIT {most}) m {joins} ORDER BY m.id""",
        columns=COLUMNS,
        taken=_TAKEN,
        id=node_id,
        condition=condition,
        most=LISTED_MESSAGES,
        joins=JOINS,
    )
    return fetch(MessageRow, left)


def list_nodes(
    *,
    principal: Principal,
    alive: bool | None = None,
    lost: bool | None = None,
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Page[NodeRow]:
    """Return one page; `alive`, `lost`: only those that are (True), or are not (False)."""
    principal.require(Permission.READ)
    page = window(cursor, limit, _KEY)
    if not principal.sees_everything:
        return Page([], None, None)
    wanted = ((ALIVE, alive), (LOST, lost))
    only = [one if is_so else Sql("NOT coalesce({it}, FALSE)", it=one) for one, is_so in wanted if is_so is not None]
    whole = Sql("SELECT n.* FROM node n WHERE {only}", only=all_of(only))
    chosen = Sql("{whole} AND {place} {order}", whole=whole, place=page.where, order=page.order)
    with bounded():
        rows = fetch(NodeRow, _rows(chosen) + page.order)
    return page.page(rows, lambda: count_rows(whole))


def get_node(node_id: int, *, principal: Principal) -> NodeDetail:
    """Return the node; raise NotFound."""
    principal.require(Permission.READ)
    chosen = Sql("SELECT n.* FROM node n WHERE n.id = {id}", id=node_id)
    is_seen = principal.sees_everything and 0 < node_id <= MAX_ID
    found = known(fetch_one(NodeRow, _rows(chosen)) if is_seen else None, f"node {node_id}")
    claim_id, shard = fetch_rows("SELECT claim_id, shard FROM node WHERE id = %s", [node_id])[0]

    def crashes(*outcomes: Outcome) -> list[CrashRow]:
        return crashes_on(claim_id, shard, outcomes=outcomes, most=LISTED_MESSAGES)

    with bounded():
        return NodeDetail(
            found,
            holds=_taken_by(node_id, _HELD) if found.ended_at is None else [],
            lost=crashes(Outcome.NODE_LOST),
            crashes=crashes(Outcome.CRASHED, Outcome.SUSPECTED),
            unanswered=_taken_by(node_id, _UNANSWERED) if found.ended_at else [],
        )
