"""Figures for a monitoring system: what is late, stuck, or waits for a decision."""

from dataclasses import dataclass
from typing import Any

from poisonadmin.core.queries.rows import bounded, fetch, fetch_rows
from poisonadmin.core.queries.sql import Sql
from poisonadmin.messages.domain.states import Confirming
from poisonadmin.messages.queries.counts import CONFIRMING
from poisonadmin.system.queries.nodes import ALIVE

CAP = 10_000


@dataclass(frozen=True)
class SystemMetrics:
    """Counts of messages go to 10,000; ages are in seconds, 0 where there is none."""

    due: int
    overdue: int
    oldest_due_seconds: float
    stuck: int
    oldest_undecided_seconds: float
    nodes_alive: int
    unfolded_deltas: int
    unanswered: int
    miscounted: int


_METRICS = Sql(
    """WITH waiting AS (
      SELECT m.due_at FROM lane l
      CROSS JOIN LATERAL (SELECT due_at FROM message WHERE lane_id = l.id AND state = 'TBDL' AND due_at <= now()
                            AND due_at >= l.next_due ORDER BY due_at LIMIT {cap}) m
      WHERE l.is_open AND l.next_due <= now() LIMIT {cap})
    SELECT count(*) AS due,
      count(*) FILTER (WHERE due_at < now() - interval '10 s') AS overdue,
      coalesce(extract(epoch FROM now() - min(due_at)), 0)::float8 AS oldest_due_seconds,
      (SELECT count(*) FROM claim c JOIN claim_shard s ON s.claim_id = c.id
         LEFT JOIN node n ON n.claim_id = c.id AND n.shard = s.shard
         CROSS JOIN LATERAL unnest(s.message_ids) AS taken (id)
         JOIN message m ON m.id = taken.id AND m.state = 'DLNG' AND m.claim_id = c.id
         WHERE c.is_open AND coalesce(n.lease_until, c.lease_until) < now() - interval '10 s') AS stuck,
      coalesce((SELECT extract(epoch FROM now() - min(undecided_at)) FROM message
         WHERE undecided_at IS NOT NULL), 0)::float8 AS oldest_undecided_seconds,
      (SELECT count(*) FROM node n WHERE {alive}) AS nodes_alive,
      (SELECT count(*) FROM counter_delta) AS unfolded_deltas,
      (SELECT count(*) FROM (SELECT FROM confirmation c WHERE {unanswered} LIMIT {cap}) AS found)
        AS unanswered,
      (SELECT coalesce(sum(wrong), 0)::bigint FROM counter_check) AS miscounted
    FROM waiting""",
    cap=CAP,
    alive=ALIVE,
    unanswered=CONFIRMING[Confirming.UNANSWERED],
)


def system_metrics() -> SystemMetrics:
    """Return the figures as they are now."""
    with bounded():
        return fetch(SystemMetrics, _METRICS)[0]


def worker_silences() -> list[tuple[str, float]]:
    """Return the name of each Spark worker of the last day, and how many seconds ago its heartbeat was."""
    rows = fetch_rows("SELECT name, extract(epoch FROM now() - heartbeat_at)::float8 FROM worker ORDER BY 1")
    return [(str(name), float(seconds)) for name, seconds in rows]


def recent_jobs() -> list[tuple[Any, ...]]:
    """Return (kind, state, count) of the jobs that were created within the last hour or have not ended."""
    return fetch_rows(
        "SELECT kind, state, count(*) FROM run WHERE id > (SELECT coalesce(max(id), 0) - 10000 FROM run)"
        " AND (created_at > now() - interval '1 hour' OR ended_at IS NULL) GROUP BY 1, 2 ORDER BY 1, 2"
    )
