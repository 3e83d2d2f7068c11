"""Restart jobs, the messages that one would decide on next, and their runs with the ledgers of their operations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from poisonadmin.core.domain.access import SYSTEM, Permission, Principal
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, NEWEST_FIRST, Count, Page, fetch_page, window
from poisonadmin.core.queries.rows import Versioned, bounded, columns, fetch, fetch_by_id, known
from poisonadmin.core.queries.sql import Sql, all_of, name
from poisonadmin.decisions.operations.domain.lifecycle import Ledger
from poisonadmin.decisions.operations.queries.operations import operations_of_runs
from poisonadmin.decisions.queries.refusals import CRASHED_NOTHING
from poisonadmin.decisions.restart_jobs.domain import RestartJobSettings
from poisonadmin.messages.domain.states import State
from poisonadmin.search.domain.filters import parse_filter, require_values
from poisonadmin.search.domain.payload_words import require_plain
from poisonadmin.search.queries.lists import capped_count
from poisonadmin.search.queries.live import compile_filter
from poisonadmin.search.queries.meanings import not_searched

COUNTED = 10_000


@dataclass(frozen=True, kw_only=True)
class RestartJobRow(RestartJobSettings, Versioned):
    """A saved filter whose runs are operations. `filter`: parameters of `GET /messages/`.

    `schedule`: cron fields, UTC; None: it runs on request only. `limit`: how many messages a run takes at most, the
    first in `order`. `canary`: each operation tries some first. `last_*`: its latest run. `is_running`: an operation of
    it still has messages to begin with, and runs are skipped. `person`: the user whose it is, or whose token's.
    """

    id: int
    next_at: datetime | None
    last_at: datetime | None
    last_outcome: str | None
    last_detail: str | None
    last_operation_id: int | None
    is_running: bool
    owner: str
    person: str
    version: int
    updated_at: datetime


# What keeps the next run from beginning. Messages that failed and wait for their next attempt do not: an approval may
# wait so for days. With a rate, deliveries that are due do, also while their address is paused: two runs would go at
# twice the rate.
GOING = partial(
    Sql,
    """
SELECT operation.id, operation.state FROM operation
WHERE ended_at IS NULL AND operation.restart_job_id = {job} AND (
    operation.state IN ('waiting_for_sign_off', 'paused', 'halted', 'cancelling')
    OR operation.state = 'running' AND (walked < operation.count OR operation.rate_per_second IS NOT NULL AND EXISTS (
        SELECT FROM lane WHERE lane.operation_id = operation.id AND next_due <= now()))
) ORDER BY operation.id
""",
)
_JOBS = Sql(
    """
SELECT job.id, {settings},
       CASE WHEN is_enabled THEN next_at END AS next_at, run.at AS last_at, run.outcome AS last_outcome,
       run.detail AS last_detail, run.operation_id AS last_operation_id,
       EXISTS ({going}) AS is_running, owner,
       coalesce((SELECT 'user ' || t.user_id FROM api_token t WHERE 'token ' || t.id = owner_account), owner_account)
           AS person, version, updated_at
FROM restart_job AS job
     LEFT JOIN LATERAL (SELECT * FROM restart_run WHERE restart_job_id = job.id ORDER BY id DESC LIMIT 1) AS run ON TRUE
""",
    settings=columns(RestartJobSettings, "job"),
    going=GOING(job=name("job.id")),
)


def list_restart_jobs(*, principal: Principal) -> list[RestartJobRow]:
    """Return the restart jobs by name; none to who is limited to some addresses."""
    principal.require(Permission.READ)
    found = fetch(RestartJobRow, f"{_JOBS} ORDER BY name") if principal.sees_everything else []
    return [row for row in found if _may_see(row, principal)]


def get_restart_job(job_id: int, *, principal: Principal) -> RestartJobRow:
    """Return the restart job; raise NotFound."""
    principal.require(Permission.READ)
    found = fetch_by_id(RestartJobRow, f"{_JOBS} WHERE job.id = %s", job_id) if principal.sees_everything else None
    return known(found if found and _may_see(found, principal) else None, f"restart job {job_id}")


def _may_see(row: RestartJobRow, principal: Principal) -> bool:
    """Return whether the reader may: how many messages somebody else's filter finds tells what is masked for the
    reader."""
    return principal.has_made(row.person) or not not_searched(parse_filter(row.filter), principal)


def restart_filter(params: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the filter of a restart job's selections: what its parameters say, of the messages in NDLV.

    Raise InvalidFilter, also for a state other than NDLV, and for terms about payloads.
    """
    if any(text.upper() != State.NDLV for text in params.get("state", ())):
        raise InvalidFilter("state", "A restart job decides on messages in NDLV, and no others.")
    narrowed = {name: list(texts) for name, texts in params.items()} | {"state": [str(State.NDLV)]}
    require_values(narrowed)
    require_plain([term.field for term in parse_filter(narrowed).terms])
    return narrowed


def restartable(job_id: int, *, include_blacklisted: bool, max_restarts: int) -> Sql:
    """Return what must hold of a message `m` of the filter, so that the job may decide on it."""
    is_left = Sql(
        "NOT EXISTS (SELECT FROM restart WHERE restart_job_id = {job} AND message_id = m.id AND times >= {most})",
        job=job_id,
        most=max_restarts,
    )
    return is_left if include_blacklisted else all_of([is_left, CRASHED_NOTHING])


def count_restartable(job: RestartJobRow) -> Count:
    """Return how many messages a run of the job could select now, counting no further than 10,000, or its limit."""
    where = compile_filter(parse_filter(restart_filter(job.filter)), SYSTEM)
    may_be = restartable(job.id, include_blacklisted=job.include_blacklisted, max_restarts=job.max_restarts)
    with bounded():
        found = capped_count(all_of([where.whole, may_be]), COUNTED)
    return Count(job.limit, capped=False) if job.limit is not None and found.n >= job.limit else found


@dataclass(frozen=True)
class RestartRunRow:
    """A run of a restart job, and its operation: `state`, `count`, `ledger` and `ended_at` are the operation's.

    `asked_by`: the person who asked for the run; None where the schedule did. `detail`: why it began no operation.
    """

    id: int
    at: datetime
    asked_by: str | None
    outcome: str
    detail: str | None
    operation_id: int | None
    state: str | None = None
    count: int | None = None
    ledger: Ledger | None = None
    ended_at: datetime | None = None


_RUNS = Sql("SELECT id, at, asked_by, outcome, detail, operation_id FROM restart_run")


def list_runs(
    job_id: int, *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[RestartRunRow]:
    """Return a page of the job's runs, newest first; none to who is limited to some addresses."""
    principal.require(Permission.READ)
    page = window(cursor, limit, NEWEST_FIRST)
    if not principal.sees_everything:
        return Page([], None, None)
    with bounded():
        found = fetch_page(RestartRunRow, _RUNS + Sql("WHERE restart_job_id = {id}", id=job_id), page=page)
        return Page(_with_operations(found.results, principal), found.next, found.previous)


def get_run(run_id: int, *, principal: Principal) -> RestartRunRow:
    """Return the run; raise NotFound."""
    principal.require(Permission.READ)
    found = fetch_by_id(RestartRunRow, f"{_RUNS} WHERE id = %s", run_id) if principal.sees_everything else None
    return _with_operations([known(found, f"run {run_id}")], principal)[0]


def _with_operations(runs: Sequence[RestartRunRow], principal: Principal) -> list[RestartRunRow]:
    ids = [run.operation_id for run in runs if run.operation_id is not None]
    operations = operations_of_runs(ids, principal=principal)
    return [
        replace(run, state=begun.state, count=begun.count, ledger=begun.ledger, ended_at=begun.ended_at)
        if (begun := operations.get(run.operation_id or 0))
        else run
        for run in runs
    ]
