"""Runs of all kinds as jobs, newest first. They belong to no address: only a principal without a limit sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, NEWEST_FIRST, Page, fetch_page, window
from poisonadmin.core.queries.rows import bounded, columns, fetch_by_id, fetch_one
from poisonadmin.core.queries.sql import all_given
from poisonadmin.runs.domain.kinds import KindName, RunState
from poisonadmin.runs.queries.runs import RunFields


@dataclass(frozen=True)
class JobRow(RunFields):
    """A run of any kind. `params` and `result` of a requested run are its numbers only: the rest may be seen where it
    was requested. `tries`: turns that have begun since it last got on."""

    kind: str
    params: Mapping[str, Any]
    result: Mapping[str, Any]
    tries: int
    worker: str | None
    heartbeat_at: datetime | None


@dataclass(frozen=True)
class RolledUp:
    """Many jobs in one line: how many, what they have done, and since when."""

    jobs: int
    messages: int
    since: datetime | None


_REDELIVERED = f"(kind = '{KindName.REDELIVER}' AND state = '{RunState.SUCCEEDED}')"
_SELECT = f"SELECT {columns(JobRow, 'run')} FROM run"  # noqa: S608

# Kinds whose parameters name no message and no person.
_SHOWN_WHOLE = (KindName.REDELIVER, KindName.INGEST)


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
    where, parameters = all_given(
        {"kind = ANY({value})": list(kinds) or None, "state = ANY({value})": list(states) or None}
    )
    if is_rolled_up:
        where += f" AND NOT {_REDELIVERED}"
    with bounded():
        found = fetch_page(JobRow, f"{_SELECT} WHERE {where}", parameters, page)
    return replace(found, results=[_numbers_only(one) for one in found.results])


def redelivered_jobs(*, principal: Principal) -> RolledUp | None:
    """Return the redeliveries among the latest 10,000 jobs that have succeeded; None where there are none."""
    principal.require(Permission.READ)
    if not principal.sees_everything:
        return None
    with bounded():
        found = fetch_one(
            RolledUp,
            f"""SELECT count(*) AS jobs, coalesce(sum(done), 0)::bigint AS messages, min(created_at) AS since
                FROM run WHERE id > (SELECT coalesce(max(id), 0) - 10000 FROM run) AND {_REDELIVERED}""",  # noqa: S608
        )
    return found if found and found.jobs else None


def get_job(job_id: int, *, principal: Principal) -> JobRow:
    """Return the job; raise NotFound."""
    principal.require(Permission.READ)
    found = fetch_by_id(JobRow, f"{_SELECT} WHERE id = %s", job_id) if principal.sees_everything else None
    if found is None:
        raise NotFound(f"There is no job {job_id}.")
    return _numbers_only(found)


def _numbers_only(job: JobRow) -> JobRow:
    if job.kind in _SHOWN_WHOLE:
        return replace(job, result=job.result or {})
    return replace(job, params=_numbers(job.params), result=_numbers(job.result or {}))


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if isinstance(value, int | float)}
