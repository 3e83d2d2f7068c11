"""Jobs and the audit log, newest first. Jobs belong to no address: only a principal without a limit sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, NEWEST_FIRST, Page, fetch_page, window
from poisonadmin.core.queries.rows import all_given, bounded, columns, fetch_by_id, fetch_one
from poisonadmin.store.models.job import JobKind, JobState


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


@dataclass(frozen=True)
class RolledUp:
    """Many jobs in one line: how many, what they have done, and since when."""

    jobs: int
    messages: int
    since: datetime | None


_REDELIVERED = f"(kind = '{JobKind.REDELIVER}' AND state = '{JobState.SUCCEEDED}')"
_SELECT = f"SELECT {columns(JobRow, 'job')} FROM job"  # noqa: S608


def list_jobs(
    *,
    principal: Principal,
    kinds: Sequence[str] = (),
    states: Sequence[str] = (),
    is_rolled_up: bool = False,
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Page[JobRow]:
    """Return one page of the jobs of these kinds and states; all where none is given.

    `is_rolled_up` leaves out redeliveries that have succeeded, of which a quiet system has one a message.
    """
    principal.require(Permission.READ)
    page = window(cursor, limit, NEWEST_FIRST)
    if not principal.sees_everything:
        return Page([], None, None)
    where, parameters = all_given({"kind = ANY(%s)": list(kinds) or None, "state = ANY(%s)": list(states) or None})
    if is_rolled_up:
        where += f" AND NOT {_REDELIVERED}"
    with bounded():
        return fetch_page(JobRow, f"{_SELECT} WHERE {where}", parameters, page)


def redelivered_jobs(*, principal: Principal) -> RolledUp | None:
    """Return the redeliveries among the latest 10,000 jobs that have succeeded; None where there are none."""
    principal.require(Permission.READ)
    if not principal.sees_everything:
        return None
    with bounded():
        found = fetch_one(
            RolledUp,
            f"""SELECT count(*) AS jobs, coalesce(sum(done), 0)::bigint AS messages, min(created_at) AS since
                FROM job WHERE id > (SELECT coalesce(max(id), 0) - 10000 FROM job) AND {_REDELIVERED}""",  # noqa: S608
        )
    return found if found and found.jobs else None


def get_job(job_id: int, *, principal: Principal) -> JobRow:
    """Return the job; raise NotFound."""
    principal.require(Permission.READ)
    found = fetch_by_id(JobRow, f"{_SELECT} WHERE id = %s", job_id) if principal.sees_everything else None
    if found is None:
        raise NotFound(f"There is no job {job_id}.")
    return found


@dataclass(frozen=True)
class AuditFilter:
    """All that is given must hold."""

    actor: str | None = None
    action: str | None = None
    object_type: str | None = None
    object_id: str | None = None
    after: datetime | None = None
    before: datetime | None = None


@dataclass(frozen=True)
class AuditRow:
    """One deliberate act."""

    id: int
    at: datetime
    actor: str
    action: str
    object_type: str
    object_id: str
    note: str | None
    details: Mapping[str, Any]
    request_id: str | None


def list_audit(
    only: AuditFilter, *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[AuditRow]:
    """Return one page. A principal that is limited to some addresses sees its own acts only."""
    principal.require(Permission.READ)
    page = window(cursor, limit, NEWEST_FIRST)
    where, parameters = all_given(
        {
            "actor = %s": only.actor,
            "action = %s": only.action,
            "object_type = %s": only.object_type,
            "object_id = %s": only.object_id,
            "at >= %s": only.after,
            "at < %s": only.before,
            "(actor) = %s": None if principal.sees_everything else principal.name,
        }
    )
    with bounded():
        sql = f"SELECT {columns(AuditRow, 'audit')} FROM audit WHERE {where}"  # noqa: S608
        return fetch_page(AuditRow, sql, parameters, page)
