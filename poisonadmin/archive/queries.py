"""Runs of the archive, legal holds and erasures, as lists and one by one; and the times until which messages are
archived, address by address, as policies say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.archive_place import manifest_path
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Page, fetch_page, window
from poisonadmin.core.queries.rows import columns, fetch_by_id, fetch_one, fetch_rows, known
from poisonadmin.core.queries.sql import Sql
from poisonadmin.policies.queries import policy_index
from poisonadmin.runs.domain.kinds import KindName, RunState
from poisonadmin.runs.queries.runs import RunFields, StoredRun, find_run, list_runs_of
from poisonadmin.store.models.lane import Address

Cutoffs = list[dict[str, int | str | None]]


def cutoffs(as_of: datetime) -> Cutoffs:
    """Return for each address the last `state_at` of what is to be archived at `as_of`; also of what loses its payload,
    with the days and the pattern of the policy that say so.

    An address that keeps everything is not among them.
    """
    index = policy_index()
    found: Cutoffs = []
    for address_id, name in Address.objects.order_by("id").values_list("id", "name"):
        resolved = index.resolve(name)
        policy = resolved.policy
        kept = {
            "delivered": _before(as_of, policy.keep_delivered_days),
            "failed": _before(as_of, policy.keep_failed_days),
            "payload": _before(as_of, policy.keep_payload_days),
        }
        if any(kept.values()):
            by = {
                "payload_days": policy.keep_payload_days,
                "payload_policy": resolved.origins["keep_payload_days"].pattern,
            }
            found.append({"address_id": address_id} | kept | by)
    return found


def _before(as_of: datetime, days: int | None) -> str | None:
    return None if days is None else (as_of - timedelta(days=days)).isoformat()


@dataclass(frozen=True)
class ArchiveRunResult:
    """The messages and payloads that a run has archived and removed, or, where it is a dry run, would archive and
    remove. `messages`: null until it is known. `messages_at`, `payloads_at`: of a dry run, by address (and state)."""

    messages: int | None = None
    payloads: int = 0
    messages_at: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    payloads_at: Mapping[str, int] = field(default_factory=dict)

    def counted(self) -> dict[str, list[tuple[str, int]]]:
        """Return what a dry run has counted by address, in their order: `messages`, and `payloads` to be removed."""
        messages = {address: sum(states.values()) for address, states in self.messages_at.items()}
        return {"messages": sorted(messages.items()), "payloads": sorted(self.payloads_at.items())}


@dataclass(frozen=True)
class ArchiveRunRow(RunFields):
    """A run of the archive. `done` of `total`: ids of messages that are looked at. `files`, `bytes`, `messages`, and
    `tables`, which has rows and bytes by table: what of it is in the archive now; of a dry run none. `manifest`: its
    manifest's path in the archive; null until it has succeeded. `job_id`: its id among the runs of all kinds.
    """

    as_of: datetime
    is_dry_run: bool
    files: int
    bytes: int
    messages: int
    tables: Mapping[str, Mapping[str, int]]
    manifest: str | None
    job_id: int
    result: ArchiveRunResult


@dataclass(frozen=True)
class LegalHoldRow:
    """A legal hold; `filter` as `GET /messages/` takes it. It is in force until `lifted_at`."""

    id: int
    filter: Mapping[str, Any]
    reason: str
    created_by: str
    created_at: datetime
    lifted_by: str | None
    lifted_at: datetime | None
    lift_reason: str | None


@dataclass(frozen=True)
class ErasureResult:
    """Counts of messages: erased, and left alone, because they are under way or these legal holds name them."""

    erased: int
    left_alone: int
    held_by: Sequence[int]


@dataclass(frozen=True)
class ErasureRow(RunFields):
    """An erasure. `done`: messages erased so far. `filter` is emptied when it has succeeded, for it may name a person.
    `result`: null until then. `job_id`: its id among the runs of all kinds."""

    filter: Mapping[str, Any]
    reason: str
    job_id: int
    result: ErasureResult | None


@dataclass(frozen=True)
class ArchiveSize:
    """The size of the archive: messages, files that count, and their bytes."""

    messages: int
    files: int
    bytes: int


_FILES = """
SELECT run_id, table_name, count(*), coalesce(sum(rows), 0)::bigint, coalesce(sum(bytes), 0)::bigint
FROM archive_file WHERE run_id = ANY(%s) AND is_current GROUP BY 1, 2 ORDER BY 1, 2
"""
_HOLDS = Sql("SELECT {columns} FROM legal_hold WHERE TRUE", columns=columns(LegalHoldRow, "legal_hold"))
_SIZE = """
SELECT (SELECT count(*) FROM archived_message) AS messages, count(*) AS files, coalesce(sum(bytes), 0)::bigint AS bytes
FROM archive_file WHERE is_current
"""


def require_overview(principal: Principal) -> None:
    """Do nothing for who sees every address; raise NotAllowed: what the archive holds is about all of them."""
    principal.require(Permission.READ)
    if not principal.sees_everything:
        raise NotAllowed("The archive is about all addresses; this account is limited to some.")


def list_runs(*, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT) -> Page[ArchiveRunRow]:
    """Return the runs, newest first. Errors: `NotAllowed`, `InvalidCursor`."""
    require_overview(principal)
    page = list_runs_of(KindName.ARCHIVE, cursor=cursor, limit=limit, without=["cutoffs"])
    return Page(_with_files(page.results), page.next, page.previous, page.counting)


def get_run(run_id: int, *, principal: Principal) -> ArchiveRunRow:
    """Return a run. Errors: `NotAllowed`, `NotFound`."""
    require_overview(principal)
    (found,) = _with_files([known(find_run(KindName.ARCHIVE, run_id), f"archive run {run_id}")])
    return found


def _with_files(runs: Sequence[StoredRun]) -> list[ArchiveRunRow]:
    tables: dict[int, dict[str, dict[str, int]]] = {run.id: {} for run in runs}
    for run_id, table, files, rows, size in fetch_rows(_FILES, [list(tables)]):
        tables[run_id][table] = {"files": files, "rows": rows, "bytes": size}
    return [_archive_run(run, tables[run.id]) for run in runs]


def _archive_run(run: StoredRun, tables: Mapping[str, Mapping[str, int]]) -> ArchiveRunRow:
    has_manifest = run.state == RunState.SUCCEEDED and not run.params["is_dry_run"]
    return ArchiveRunRow(
        **run.shown,
        as_of=datetime.fromisoformat(run.params["as_of"]),
        is_dry_run=run.params["is_dry_run"],
        files=sum(one["files"] for one in tables.values()),
        bytes=sum(one["bytes"] for one in tables.values()),
        messages=tables["messages"]["rows"] if "messages" in tables else 0,
        tables=tables,
        manifest=manifest_path(run.id) if has_manifest else None,
        job_id=run.run_id,
        result=ArchiveRunResult(**(run.result or {})),
    )


def archive_size(*, principal: Principal) -> ArchiveSize:
    """Return how much the archive holds. Errors: `NotAllowed`."""
    require_overview(principal)
    found = fetch_one(ArchiveSize, _SIZE)
    assert found is not None
    return found


def list_holds(*, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT) -> Page[LegalHoldRow]:
    """Return the legal holds, newest first, also those that were lifted. Errors: `NotAllowed`, `InvalidCursor`."""
    require_overview(principal)
    principal.require(Permission.CONFIGURE)
    return fetch_page(LegalHoldRow, _HOLDS, page=window(cursor, limit))


def get_hold(hold_id: int, *, principal: Principal) -> LegalHoldRow:
    """Return a legal hold. Errors: `NotAllowed`, `NotFound`."""
    require_overview(principal)
    principal.require(Permission.CONFIGURE)
    return known(fetch_by_id(LegalHoldRow, f"{_HOLDS} AND id = %s", hold_id), f"legal hold {hold_id}")


def list_erasures(*, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT) -> Page[ErasureRow]:
    """Return the erasures, newest first. Errors: `NotAllowed`, `InvalidCursor`."""
    require_overview(principal)
    principal.require(Permission.CONFIGURE)
    page = list_runs_of(KindName.ERASE, cursor=cursor, limit=limit)
    return Page([_erasure(run) for run in page.results], page.next, page.previous, page.counting)


def get_erasure(erasure_id: int, *, principal: Principal) -> ErasureRow:
    """Return an erasure. Errors: `NotAllowed`, `NotFound`."""
    require_overview(principal)
    principal.require(Permission.CONFIGURE)
    return _erasure(known(find_run(KindName.ERASE, erasure_id), f"erasure {erasure_id}"))


def _erasure(run: StoredRun) -> ErasureRow:
    result = None if run.result is None else ErasureResult(**run.result)
    asked = {name: run.params[name] for name in ("filter", "reason")}
    return ErasureRow(**run.shown, **asked, job_id=run.run_id, result=result)
