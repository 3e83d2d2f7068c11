"""Restart jobs, and which messages one would approve next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import SYSTEM, Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.filter_values import InvalidFilter
from poisonadmin.core.queries.paging import Count
from poisonadmin.core.queries.rows import Versioned, bounded, fetch, fetch_by_id, fetch_values
from poisonadmin.delivery.domain.outcome import Outcome
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.filter_sql import compile_filter
from poisonadmin.messages.queries.filters import MessageFilter, parse_filter
from poisonadmin.messages.queries.lists import capped_count

COUNTED = 10_000


@dataclass(frozen=True)
class RestartJobRow(Versioned):
    """A schedule that approves NDLV messages. `filter`: parameters of `GET /messages/`. `schedule`: cron fields, UTC.

    `is_running`: its latest run, whose counts `last_counts` are, is not at its end.
    """

    id: int
    name: str
    schedule: str
    filter: Mapping[str, list[str]]
    include_blacklisted: bool
    max_restarts: int
    is_enabled: bool
    next_at: datetime | None
    last_at: datetime | None
    last_counts: Mapping[str, Any]
    is_running: bool
    owner: str
    version: int
    updated_at: datetime


_SELECT = """SELECT id, name, schedule, filter, include_blacklisted, max_restarts, is_enabled,
 CASE WHEN is_enabled THEN next_at END AS next_at, last_at, last_counts, run_after_id IS NOT NULL AS is_running, owner,
 version, updated_at FROM restart_job"""


def list_restart_jobs(*, principal: Principal) -> list[RestartJobRow]:
    """Return the restart jobs by name; none to who is limited to some addresses."""
    principal.require(Permission.READ)
    return fetch(RestartJobRow, f"{_SELECT} ORDER BY name") if principal.sees_everything else []


def get_restart_job(job_id: int, *, principal: Principal) -> RestartJobRow:
    """Return the restart job; raise NotFound."""
    principal.require(Permission.READ)
    found = fetch_by_id(RestartJobRow, f"{_SELECT} WHERE id = %s", job_id) if principal.sees_everything else None
    if found is None:
        raise NotFound(f"There is no restart job {job_id}.")
    return found


def restart_filter(params: Mapping[str, Sequence[str]]) -> MessageFilter:
    """Return the filter of a restart job: what its parameters say, of the messages that wait for a decision.

    Raise InvalidFilter, also for a state other than NDLV.
    """
    if any(text.upper() != State.NDLV for text in params.get("state", ())):
        raise InvalidFilter("state", "A restart job approves messages in NDLV, and no others.")
    return parse_filter({**params, "state": [State.NDLV]})


def restartable(
    job_id: int,
    message_filter: MessageFilter,
    *,
    include_blacklisted: bool,
    max_restarts: int,
    after_id: int,
    limit: int,
) -> list[int]:
    """Return up to `limit` ids beyond `after_id`, rising, of the messages that the job may still approve.

    Raise QueryTooExpensive.
    """
    sql, parameters = _restartable(job_id, message_filter, include_blacklisted, max_restarts)
    with bounded():
        return fetch_values(
            f"SELECT m.id FROM message m WHERE {sql} AND m.id > %s ORDER BY m.id LIMIT %s",  # noqa: S608
            [*parameters, after_id, limit],
        )


def count_restartable(job: RestartJobRow) -> Count:
    """Return how many messages a run of the job would look at now, counting no further than 10,000."""
    message_filter = restart_filter(job.filter)
    sql, parameters = _restartable(job.id, message_filter, job.include_blacklisted, job.max_restarts)
    with bounded():
        return capped_count(sql, parameters, COUNTED)


# A message may have crashed what processed it whatever it is NDLV for, also where its policy counts no crashes but as
# failures, and a consumer elsewhere may have (SAP-p).
_CRASHED_NOTHING = f"""m.reason IS DISTINCT FROM '{Reason.BLACKLISTED}' AND m.crash_count = 0
 AND NOT EXISTS (SELECT FROM attempt WHERE attempt.message_id = m.id AND outcome = '{Outcome.CRASHED}')
 AND NOT EXISTS (SELECT FROM poison_entry WHERE poison_entry.message_id = m.id AND crashes > 0)"""  # noqa: S608  (fragments are constants)


def _restartable(
    job_id: int, message_filter: MessageFilter, include_blacklisted: bool, max_restarts: int
) -> tuple[str, list[Any]]:
    where = compile_filter(message_filter, SYSTEM)
    conditions = [
        where.whole,
        "NOT EXISTS (SELECT FROM restart WHERE restart_job_id = %s AND message_id = m.id AND times >= %s)",
    ]
    if not include_blacklisted:
        conditions.append(_CRASHED_NOTHING)
    return " AND ".join(conditions), [*where.parameters, job_id, max_restarts]
