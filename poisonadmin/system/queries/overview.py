"""Figures of the first page and for monitoring, each from something small: counters, lanes, partial indexes."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.core.queries.rows import bounded, fetch, fetch_rows, fetch_values
from poisonadmin.core.queries.scope import scope_condition, visible_ids
from poisonadmin.core.queries.sql import EMPTY, Sql
from poisonadmin.messages.domain.states import Confirming
from poisonadmin.messages.queries.counts import CONFIRMING, NOW
from poisonadmin.messages.queries.due import CAP, come_due
from poisonadmin.system.queries.nodes import ALIVE

_IS_OVERDUE = Sql("NOT is_held AND due_at < now() - interval '10 s'")

SECONDS_TO_READ = 3
# Span in seconds -> width of a bar in seconds: some sixty bars each.
SPANS = {900: 15, 3600: 60, 21_600: 300, 86_400: 1800}
# A row carries the time at which its transaction began; none that writes history lasts so long.
SETTLED_AFTER = timedelta(minutes=2)
REMEMBERED_CHARTS = 64


def undecided_count(principal: Principal) -> int:
    """Return how many messages wait for a decision."""
    principal.require(Permission.READ)
    count = Sql(
        "SELECT coalesce(sum(n), 0)::bigint FROM {now} WHERE state = 'NDLV' AND {scope}",
        now=NOW,
        scope=scope_condition(principal, "c.address_id"),
    )
    return int(fetch_values(count)[0])


@dataclass(frozen=True)
class Bucket:
    """The outcomes in one bar's width from `at`. `retried`: failed and waits for its next delivery.

    `decided`: how many no longer needed a decision.
    """

    at: datetime
    delivered: int = 0
    retried: int = 0
    undecided: int = 0
    failed: int = 0
    decided: int = 0


# (database, scope, width) -> the buckets that can no longer change: a page that asks again reads the newest only.
_past: OrderedDict[tuple[Any, ...], dict[datetime, Bucket]] = OrderedDict()


def outcomes_by_time(principal: Principal, *, span: int) -> list[Bucket]:
    """Return what became of messages in the last `span` seconds, bucket by bucket, empty ones included, oldest first.

    Raise InvalidFilter for another span than those offered, QueryTooExpensive when so much happened that counting it
    would take more than three seconds.
    """
    principal.require(Permission.READ)
    if span not in SPANS:
        raise InvalidFilter("span", f"The chart shows {', '.join(map(str, SPANS))} seconds.")
    step = timedelta(seconds=SPANS[span])
    ids = visible_ids(principal)
    key = (connection.settings_dict["NAME"], None if ids is None else tuple(ids), step)
    newest: datetime = fetch_values("SELECT date_bin(%s, now(), 'epoch')", [step])[0]
    slots = [newest - step * place for place in range(span // SPANS[span], -1, -1)]
    known = _past.get(key, {})
    since = next((slot for slot in slots if slot not in known), newest)
    found = {bucket.at: bucket for bucket in _read_buckets(ids, step, since)}
    buckets = [known.get(slot) or found.get(slot) or Bucket(slot) for slot in slots]
    _remember(key, {bucket.at: bucket for bucket in buckets if bucket.at + step <= newest - SETTLED_AFTER})
    return buckets


def backlog(buckets: Sequence[Bucket], principal: Principal) -> list[int]:
    """Return how many messages needed a decision at the end of each bucket, told back from how many do now."""
    left = undecided_count(principal)
    found = []
    for bucket in reversed(buckets):
        found.append(max(left, 0))
        left += bucket.decided - bucket.undecided
    return found[::-1]


def _read_buckets(ids: Sequence[int] | None, step: timedelta, since: datetime) -> list[Bucket]:
    in_scope = Sql("JOIN message m ON m.id = h.message_id AND m.address_id = ANY({ids})", ids=ids)
    with bounded(SECONDS_TO_READ):
        return fetch(
            Bucket,
            Sql(
                """SELECT date_bin({step}, h.at, 'epoch') AS at,
                       count(*) FILTER (WHERE to_state = 'DLVD') AS delivered,
                       count(*) FILTER (WHERE event = 'failed' AND to_state = 'TBDL') AS retried,
                       count(*) FILTER (WHERE to_state = 'NDLV' AND from_state IS DISTINCT FROM 'NDLV') AS undecided,
                       count(*) FILTER (WHERE to_state = 'FAIL') AS failed,
                       count(*) FILTER (WHERE from_state = 'NDLV' AND to_state <> 'NDLV') AS decided
                FROM history h {in_scope}
                WHERE h.at >= {since} AND h.event <> 'assigned'
                  AND (h.to_state IN ('DLVD', 'NDLV', 'FAIL') OR h.event = 'failed' OR h.from_state = 'NDLV')
                GROUP BY 1""",
                step=step,
                in_scope=EMPTY if ids is None else in_scope,
                since=since,
            ),
        )


def _remember(key: tuple[Any, ...], buckets: dict[datetime, Bucket]) -> None:
    _past[key] = buckets
    _past.move_to_end(key)
    while len(_past) > REMEMBERED_CHARTS:
        _past.popitem(last=False)


# One that is started again is silent for 10 to 20 s.
SILENT_WORKER_SECONDS = 30.0


@dataclass(frozen=True)
class SystemMetrics:
    """Counts of messages go to 10,000; ages are in seconds, 0 where there is none."""

    due: int
    overdue: int
    held: int
    oldest_due_seconds: float
    stuck: int
    oldest_undecided_seconds: float
    nodes_alive: int
    unfolded_deltas: int
    unanswered: int
    miscounted: int


_METRICS = Sql(
    """SELECT count(*) FILTER (WHERE NOT is_held) AS due, count(*) FILTER (WHERE {overdue}) AS overdue,
      least(count(*) FILTER (WHERE is_held), {cap}) AS held,
      coalesce(extract(epoch FROM now() - min(due_at) FILTER (WHERE NOT is_held)), 0)::float8 AS oldest_due_seconds,
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
    FROM ({come_due}) waiting""",
    overdue=_IS_OVERDUE,
    come_due=come_due(),
    cap=CAP,
    alive=ALIVE,
    unanswered=CONFIRMING[Confirming.UNANSWERED],
)


def system_metrics() -> SystemMetrics:
    """Return the figures as they are now."""
    with bounded():
        return fetch(SystemMetrics, _METRICS)[0]


def worker_silences() -> list[tuple[str, float]]:
    """Return the name of each worker, `kind@host`, and how many seconds ago it was at a tick."""
    rows = fetch_rows("SELECT name, extract(epoch FROM now() - heartbeat_at)::float8 FROM worker ORDER BY 1")
    return [(str(name), float(seconds)) for name, seconds in rows]


def silent_kinds() -> dict[str, float]:
    """Return the kinds of which no worker takes ticks any more, and for how many seconds none has.

    Where no worker at all does, the kind is empty: it is the beat that sends them.
    """
    kinds: dict[str, float] = {}
    for name, seconds in worker_silences():
        kind = name.partition("@")[0]
        kinds[kind] = min(seconds, kinds.get(kind, seconds))
    silent = {kind: seconds for kind, seconds in kinds.items() if seconds > SILENT_WORKER_SECONDS}
    return {"": min(silent.values())} if len(silent) == len(kinds) > 1 else silent


def recent_jobs() -> list[tuple[Any, ...]]:
    """Return (kind, state, count) of the jobs that were created within the last hour or have not ended."""
    return fetch_rows(
        "SELECT kind, state, count(*) FROM run WHERE id > (SELECT coalesce(max(id), 0) - 10000 FROM run)"
        " AND (created_at > now() - interval '1 hour' OR ended_at IS NULL) GROUP BY 1, 2 ORDER BY 1, 2"
    )
