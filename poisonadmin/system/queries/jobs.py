"""Jobs, newest first. They belong to no address: only a principal without a limit sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, MAX_ID, Key, Page, window
from poisonadmin.core.queries.rows import fetch, fetch_one

_KEY = Key(("j.id",), (int,))


@dataclass(frozen=True)
class JobRow:
    """One run of Spark or Celery work. `runs` of `max_runs` have begun; `counts` is what it came to."""

    id: int
    kind: str
    state: str
    params: Mapping[str, Any]
    phase: str | None
    done: int
    total: int | None
    counts: Mapping[str, Any]
    error: str | None
    runs: int
    max_runs: int
    worker: str | None
    requested_by: str
    created_at: datetime
    started_at: datetime | None
    heartbeat_at: datetime | None
    finished_at: datetime | None


_SELECT = """SELECT j.id, j.kind, j.state, j.params, j.phase, j.done, j.total, j.counts, j.error, j.runs, j.max_runs,
 j.worker, j.requested_by, j.created_at, j.started_at, j.heartbeat_at, j.finished_at FROM job j"""


def list_jobs(
    *,
    principal: Principal,
    kinds: Sequence[str] = (),
    states: Sequence[str] = (),
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Page[JobRow]:
    """Return one page of the jobs of these kinds and states; all where none is given."""
    principal.require(Permission.READ)
    page = window(cursor, limit, _KEY)
    if not principal.sees_everything:
        return Page([], None, None)
    conditions, parameters = ["TRUE"], []
    for column, values in (("kind", kinds), ("state", states)):
        if values:
            conditions.append(f"j.{column} = ANY(%s)")
            parameters.append(list(values))
    rows = fetch(
        JobRow,
        f"{_SELECT} WHERE {' AND '.join(conditions)} AND {page.condition} {page.order}",
        [*parameters, *page.parameters],
    )
    return page.page(rows, lambda row: (row.id,))


def get_job(job_id: int, *, principal: Principal) -> JobRow:
    """Return the job; raise NotFound."""
    principal.require(Permission.READ)
    found = None
    if principal.sees_everything and 0 < job_id <= MAX_ID:
        found = fetch_one(JobRow, f"{_SELECT} WHERE j.id = %s", [job_id])
    if found is None:
        raise NotFound(f"There is no job {job_id}.")
    return found
