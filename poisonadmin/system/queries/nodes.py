"""Processes that deliver, newest first; seen only by a principal without a limit, as jobs are."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, count_rows, window
from poisonadmin.core.queries.rows import bounded, fetch, fetch_by_id, fetch_rows
from poisonadmin.delivery.domain.lease import SILENT_SECONDS_AFTER_RESTART
from poisonadmin.messages.domain.outcome import Outcome
from poisonadmin.messages.queries.crashes import CRASHED, CrashRow, crashes_on
from poisonadmin.messages.queries.message_rows import COLUMNS, JOINS, MessageRow

_KEY = Key(("n.id",), (int,))
SILENT = f"interval '{SILENT_SECONDS_AFTER_RESTART} s'"
ALIVE = f"(n.ended_at IS NULL AND n.heartbeat_at > now() - {SILENT})"
LOST = f"""(n."end" = 'lost' OR (n.ended_at IS NULL AND n.heartbeat_at <= now() - {SILENT}))"""
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
_TAKEN = """CROSS JOIN LATERAL unnest(s.message_ids) AS taken (id)
  CROSS JOIN LATERAL (SELECT * FROM message WHERE message.id = taken.id OFFSET 0) m"""
_HELD = "m.state = 'DLNG' AND m.claim_id = n.claim_id"
_UNANSWERED = (
    "NOT EXISTS (SELECT FROM attempt t WHERE t.message_id = m.id AND t.claim_id = n.claim_id AND t.shard = n.shard)"
)

# A node that runs no handler crashes nothing: its place in the partial index `attempt_crashes` is empty.
_ROWS = f"""SELECT n.id, n.name, n.host, n.pid, {ALIVE} AS is_alive, n.started_at, n.heartbeat_at, n.ended_at, n."end",
 n.begun, coalesce(held.n, 0) AS delivering, coalesce(held.ids, ARRAY[]::bigint[]) AS message_ids,
 died.lost, died.ids AS lost_message_ids, died.crashes, n.start_mark AS candidate_id
FROM ({{chosen}}) n
LEFT JOIN LATERAL (
  SELECT count(*) AS n, (array_agg(m.id ORDER BY m.id))[1:{SHOWN_MESSAGES}] AS ids
  FROM claim_shard s {_TAKEN}
  WHERE n.ended_at IS NULL AND s.claim_id = n.claim_id AND s.shard = n.shard AND {_HELD}
) held ON TRUE
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE outcome = 'node_lost') AS lost, count(*) FILTER (WHERE outcome = 'crashed') AS crashes,
    coalesce((array_agg(message_id ORDER BY message_id) FILTER (WHERE outcome = 'node_lost'))[1:{SHOWN_MESSAGES}],
             ARRAY[]::bigint[]) AS ids
  FROM attempt WHERE claim_id = n.claim_id AND shard = n.shard AND {CRASHED}
) died"""  # noqa: S608  (fragments are constants)

_LEFT = f"""SELECT {COLUMNS} FROM (
  SELECT m.* FROM node n JOIN claim_shard s ON s.claim_id = n.claim_id AND s.shard = n.shard
  {_TAKEN}
  WHERE n.id = %s AND {{condition}} ORDER BY m.id LIMIT {LISTED_MESSAGES}) m {JOINS} ORDER BY m.id"""  # noqa: S608


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
    conditions = [
        condition if wanted else f"NOT coalesce({condition}, FALSE)"
        for condition, wanted in ((ALIVE, alive), (LOST, lost))
        if wanted is not None
    ]
    whole = f"SELECT n.* FROM node n WHERE {' AND '.join(['TRUE', *conditions])}"  # noqa: S608
    chosen = f"{whole} AND {page.condition} {page.order}"
    with bounded():
        rows = fetch(NodeRow, f"{_ROWS.format(chosen=chosen)} {page.order}", page.parameters)
    return page.page(rows, lambda: count_rows(whole, []))


def get_node(node_id: int, *, principal: Principal) -> NodeDetail:
    """Return the node; raise NotFound."""
    principal.require(Permission.READ)
    found = None
    if principal.sees_everything:
        found = fetch_by_id(NodeRow, _ROWS.format(chosen="SELECT n.* FROM node n WHERE n.id = %s"), node_id)
    if found is None:
        raise NotFound(f"There is no node {node_id}.")
    claim_id, shard = fetch_rows("SELECT claim_id, shard FROM node WHERE id = %s", [node_id])[0]

    def crashes(*outcomes: Outcome) -> list[CrashRow]:
        return crashes_on(claim_id, shard, outcomes=outcomes, most=LISTED_MESSAGES)

    with bounded():
        return NodeDetail(
            found,
            holds=fetch(MessageRow, _LEFT.format(condition=_HELD), [node_id]) if found.ended_at is None else [],
            lost=crashes(Outcome.NODE_LOST),
            crashes=crashes(Outcome.CRASHED, Outcome.SUSPECTED),
            unanswered=fetch(MessageRow, _LEFT.format(condition=_UNANSWERED), [node_id]) if found.ended_at else [],
        )
