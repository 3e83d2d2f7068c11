"""The runs of restart jobs, with the ledgers of their operations."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, NEWEST_FIRST, Page, fetch_page, window
from poisonadmin.core.queries.rows import bounded, columns, fetch_by_id, known
from poisonadmin.core.queries.sql import Sql
from poisonadmin.decisions.operations.domain.ledger import Ledger
from poisonadmin.decisions.operations.queries.operations import OperationDetail, operations_of_runs


@dataclass(frozen=True)
class _Run:
    id: int
    at: datetime
    asked_by: str | None
    outcome: str
    detail: str | None
    operation_id: int | None


@dataclass(frozen=True)
class RestartRunRow(_Run):
    """A run of a restart job, and its operation: `state`, `count`, `ledger` and `ended_at` are the operation's.

    `asked_by`: the person who asked for the run; None where the schedule did. `detail`: why it began no operation.
    """

    state: str | None = None
    count: int | None = None
    ledger: Ledger | None = None
    ended_at: datetime | None = None


_SELECT = Sql("SELECT {columns} FROM restart_run", columns=columns(_Run, "restart_run"))


def list_runs(
    job_id: int, *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[RestartRunRow]:
    """Return a page of the job's runs, newest first; none to who is limited to some addresses."""
    principal.require(Permission.READ)
    page = window(cursor, limit, NEWEST_FIRST)
    if not principal.sees_everything:
        return Page([], None, None)
    with bounded():
        found = fetch_page(_Run, _SELECT + Sql("WHERE restart_job_id = {id}", id=job_id), page=page)
        return Page(_with_operations(found.results, principal), found.next, found.previous)


def get_run(run_id: int, *, principal: Principal) -> RestartRunRow:
    """Return the run; raise NotFound."""
    principal.require(Permission.READ)
    found = fetch_by_id(_Run, f"{_SELECT} WHERE id = %s", run_id) if principal.sees_everything else None
    return _with_operations([known(found, f"run {run_id}")], principal)[0]


def _with_operations(runs: Sequence[_Run], principal: Principal) -> list[RestartRunRow]:
    ids = [run.operation_id for run in runs if run.operation_id is not None]
    operations = operations_of_runs(ids, principal=principal)
    return [_with_operation(run, operations.get(run.operation_id or 0)) for run in runs]


def _with_operation(run: _Run, operation: OperationDetail | None) -> RestartRunRow:
    if operation is None:
        return RestartRunRow(**vars(run))
    return RestartRunRow(
        **vars(run),
        state=operation.state,
        count=operation.count,
        ledger=operation.ledger,
        ended_at=operation.ended_at,
    )
