"""Requested runs as they are stored, and the fields that every kind shows of its runs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from typing import Any

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.paging import Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import fetch_one, fetch_values
from poisonadmin.core.queries.sql import Sql, all_of
from poisonadmin.runs.domain.kinds import KindName, RunState

OPEN = Sql("state IN ('queued', 'running', 'cancelling')")
# A turn may begin: nobody's is under way, or its worker is the one that asks.
DUE = Sql(
    "{open} AND position IS NOT NULL AND (state <> 'queued' OR resumes_at IS NULL OR resumes_at <= now())", open=OPEN
)
_COLUMNS = partial(
    Sql,
    """coalesce(former_id, id) AS id, id AS run_id, kind, state, {params} AS params, phase, done, total, result,
    position, error, requested_by, account, patterns, tries, created_at, started_at, ended_at, expires_at, turn_at""",
)
COLUMNS = _COLUMNS(params=Sql("params"))
KEPT = Sql("position IS NOT NULL AND (ended_at IS NULL OR expires_at IS NULL OR expires_at > now())")
_NEWEST = Key(("coalesce(former_id, id)",), (int,), fields=("id",))
_ONE = partial(
    Sql,
    "SELECT {columns} FROM run WHERE coalesce(former_id, id) = {id} AND kind = {kind} AND {kept}",
    columns=COLUMNS,
    kept=KEPT,
)
_LATEST = partial(
    Sql,
    "SELECT {columns} FROM run WHERE kind = {kind} AND {same} AND {kept} ORDER BY created_at DESC, id DESC LIMIT 1",
    columns=COLUMNS,
    kept=KEPT,
)


@dataclass(frozen=True)
class RunFields:
    """A run: its state, how far it is, and its times; `error`: why it failed, or has to wait."""

    id: int
    state: str
    phase: str | None
    done: int
    total: int | None
    error: str | None
    requested_by: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    expires_at: datetime | None

    @property
    def is_over(self) -> bool:
        """True when the run has ended."""
        return self.ended_at is not None


@dataclass(frozen=True)
class StoredRun(RunFields):
    """A requested run as it is stored (store/models/run.py). `id`: in paths and in the audit log; `run_id`: among the
    runs of all kinds."""

    run_id: int
    kind: str
    params: Mapping[str, Any]
    result: Mapping[str, Any] | None
    position: Mapping[str, Any]
    account: str
    patterns: Sequence[Sequence[str]]
    tries: int
    turn_at: datetime | None

    @property
    def shown(self) -> dict[str, Any]:
        """The values of `RunFields`, for the row of a kind."""
        return {field.name: getattr(self, field.name) for field in fields(RunFields)}

    def is_of(self, principal: Principal) -> bool:
        """Return whether the run was requested by this account, or by the person behind it."""
        return principal.has_made(self.account)


def find_run(kind: KindName, run_id: int) -> StoredRun | None:
    """Return the run of a kind with this id in paths, unless it has expired."""
    return fetch_one(StoredRun, _ONE(id=run_id, kind=str(kind))) if 0 < run_id <= MAX_ID else None


def list_runs_of(kind: KindName, *, cursor: str | None, limit: int, without: Sequence[str] = ()) -> Page[StoredRun]:
    """Return a page of the runs of a kind that have not expired, newest first, each without some of its parameters."""
    found = Sql(
        "SELECT {columns} FROM run WHERE kind = {kind} AND {kept}",
        columns=_COLUMNS(params=Sql("params - {without}::text[]", without=list(without))),
        kind=str(kind),
        kept=KEPT,
    )
    return fetch_page(StoredRun, found, page=window(cursor, limit, _NEWEST))


def latest_run(kind: KindName, params: Mapping[str, Any], *, of: Principal | None = None) -> StoredRun | None:
    """Return the newest run of a kind with these parameters, unless it has expired.

    `of`: a run of this person, who was in the same scope then.
    """
    same = with_params(params)
    if of is not None:
        same = all_of([same, requested_by(of.person, of)])
    return fetch_one(StoredRun, _LATEST(kind=str(kind), same=same))


def with_params(params: Mapping[str, Any]) -> Sql:
    """Return the condition that a run has these parameters, among others."""
    return all_of(
        Sql("params -> {name}::text = {value}::jsonb", name=name, value=json.dumps(value))
        for name, value in params.items()
    )


def requested_by(account: str, principal: Principal) -> Sql:
    """Return the condition that a run was requested by this account, in the scope that the principal has."""
    return Sql("account = {account} AND patterns = {scope}::jsonb", account=account, scope=patterns_json(principal))


def patterns_json(principal: Principal) -> str:
    """Return the address patterns of a principal as a run keeps them."""
    return json.dumps([list(some) for some in principal.patterns])


def due_kinds() -> set[str]:
    """Return the kinds of which a run can have a turn now: one query, since workers ask it often."""
    return set(fetch_values(Sql("SELECT DISTINCT kind FROM run WHERE {due}", due=DUE)))


def is_open(run_id: int) -> bool:
    """Return whether a worker still has to do with the run."""
    states = [str(RunState.RUNNING), str(RunState.CANCELLING)]
    return bool(fetch_values("SELECT TRUE FROM run WHERE id = %s AND state = ANY(%s)", [run_id, states]))
