"""Runs of all kinds as jobs, newest first. They belong to no address: only a principal without a limit sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, NEWEST_FIRST, Page, fetch_page, window
from poisonadmin.core.queries.rows import bounded, fetch_one, known
from poisonadmin.core.queries.sql import Sql, all_given, all_of, name, names
from poisonadmin.runs.domain.kinds import PRIVATE_ERRORS, KindName, RunState
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


_REDELIVERED = Sql("kind = {kind} AND state = {state}", kind=str(KindName.REDELIVER), state=str(RunState.SUCCEEDED))
# Of kinds whose parameters name no message and no person all is shown. The database leaves out the rest of the others:
# a run of the archive has hundreds of kilobytes.
_SHOWN = partial(
    Sql,
    """CASE WHEN kind = ANY({whole}) THEN coalesce({values}, '{{}}') ELSE (
        SELECT coalesce(jsonb_object_agg(key, value), '{{}}') FROM jsonb_each({values})
        WHERE jsonb_typeof(value) IN ('number', 'boolean')) END AS {values}""",
    whole=[str(KindName.REDELIVER), str(KindName.INGEST)],
)
_SELECT = partial(
    Sql,
    """SELECT {columns}, {params}, {result}, CASE WHEN kind = ANY({private}) THEN NULL ELSE error END AS error
    FROM run WHERE {which}""",
    columns=names(one.name for one in fields(JobRow) if one.name not in ("params", "result", "error")),
    private=[str(kind) for kind in PRIVATE_ERRORS],
    params=_SHOWN(values=name("params")),
    result=_SHOWN(values=name("result")),
)


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
    which = all_given({"kind = ANY({value})": list(kinds) or None, "state = ANY({value})": list(states) or None})
    if is_rolled_up:
        which = all_of([which, Sql("NOT ({redelivered})", redelivered=_REDELIVERED)])
    with bounded():
        return fetch_page(JobRow, _SELECT(which=which), page=page)


def redelivered_jobs(*, principal: Principal) -> RolledUp | None:
    """Return the redeliveries among the latest 10,000 jobs that have succeeded; None where there are none."""
    principal.require(Permission.READ)
    if not principal.sees_everything:
        return None
    with bounded():
        found = fetch_one(
            RolledUp,
            Sql(
                """SELECT count(*) AS jobs, coalesce(sum(done), 0)::bigint AS messages, min(created_at) AS since
                FROM run WHERE id > (SELECT coalesce(max(id), 0) - 10000 FROM run) AND {redelivered}""",
                redelivered=_REDELIVERED,
            ),
        )
    return found if found and found.jobs else None


def get_job(job_id: int, *, principal: Principal) -> JobRow:
    """Return the job; raise NotFound."""
    principal.require(Permission.READ)
    is_known = principal.sees_everything and 0 < job_id <= MAX_ID
    found = fetch_one(JobRow, _SELECT(which=Sql("id = {id}", id=job_id))) if is_known else None
    return known(found, f"job {job_id}")
