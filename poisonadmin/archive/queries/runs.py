"""Runs of the archive, legal holds and erasures, as lists and one by one."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Page, fetch_page, window
from poisonadmin.core.queries.rows import columns, fetch_by_id, fetch_one, known
from poisonadmin.core.queries.sql import Sql


@dataclass(frozen=True)
class ArchiveRunRow:
    """A run of the archive. `files`, `bytes`, `messages`: what of it is in the archive now; of a dry run none.

    `payloads_removed`: of how many messages, live and archived. `totals`: rows and bytes by table; of a dry run
    `addresses`, messages by address and state, and `payloads`, those that would lose their payloads. `progress`: from 0
    to 1. `error`: why it waits, or why it failed. `manifest`: its manifest's path in the archive; null until it is
    done.
    """

    id: int
    state: str
    as_of: datetime
    is_dry_run: bool
    progress: float
    files: int
    bytes: int
    messages: int
    payloads_removed: int
    totals: Mapping[str, Any]
    error: str | None
    job_id: int | None
    manifest: str | None
    requested_by: str
    requested_at: datetime
    ended_at: datetime | None

    def counted(self) -> dict[str, list[tuple[str, int]]]:
        """Return what a dry run has counted by address, in their order: `messages`, and `payloads` to be removed."""
        messages = {address: sum(states.values()) for address, states in self.totals.get("addresses", {}).items()}
        return {"messages": sorted(messages.items()), "payloads": sorted(self.totals.get("payloads", {}).items())}

    def counts(self) -> dict[str, int]:
        """Return the sums of `counted`."""
        return {what: sum(n for _, n in by_address) for what, by_address in self.counted().items()}


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
class ErasureRow:
    """An erasure. `filter` is emptied when it is done, for it may name a person. `totals`: `erased`, and `left_alone`,
    because they are under way or the legal holds `held_by` name them. `job_id`: of the job that shows how far it is."""

    id: int
    filter: Mapping[str, Any]
    reason: str
    state: str
    totals: Mapping[str, Any]
    error: str | None
    job_id: int | None
    requested_by: str
    requested_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True)
class ArchiveSize:
    """The size of the archive: messages, files that count, and their bytes."""

    messages: int
    files: int
    bytes: int


_RUNS = """
SELECT * FROM (SELECT r.id, r.state, r.as_of, r.is_dry_run,
       CASE WHEN r.ended_at IS NOT NULL THEN 1.0 WHEN r.cut_off = 0 THEN 0.0
            ELSE LEAST(0.999, LEAST(r.planned, unmoved.after_id)::float8 / r.cut_off) END AS progress,
       f.files, f.bytes, f.messages, r.payloads_removed, r.totals, r.error, r.job_id,
       CASE WHEN r.state = 'done' AND NOT r.is_dry_run THEN 'run=' || r.id || '/manifest.json' END AS manifest,
       r.requested_by, r.requested_at, r.ended_at
FROM archive_run r CROSS JOIN LATERAL (
    SELECT count(*) AS files, coalesce(sum(bytes), 0)::bigint AS bytes,
           coalesce(sum(rows) FILTER (WHERE table_name = 'messages'), 0)::bigint AS messages
    FROM archive_file WHERE run_id = r.id AND is_current) AS f CROSS JOIN LATERAL (
    SELECT min(after_id) AS after_id FROM archive_piece
    WHERE run_id = r.id AND state IN ('planned', 'written')) AS unmoved
) AS run WHERE TRUE
"""
_HOLDS = Sql("SELECT {columns} FROM legal_hold WHERE TRUE", columns=columns(LegalHoldRow, "legal_hold"))
_ERASURES = Sql("SELECT {columns} FROM erasure WHERE TRUE", columns=columns(ErasureRow, "erasure"))
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
    return fetch_page(ArchiveRunRow, _RUNS, [], window(cursor, limit))


def get_run(run_id: int, *, principal: Principal) -> ArchiveRunRow:
    """Return a run. Errors: `NotAllowed`, `NotFound`."""
    require_overview(principal)
    found = fetch_by_id(ArchiveRunRow, f"{_RUNS} AND id = %s", run_id)
    return known(found, f"archive run {run_id}")


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
    return fetch_page(ErasureRow, _ERASURES, page=window(cursor, limit))


def get_erasure(erasure_id: int, *, principal: Principal) -> ErasureRow:
    """Return an erasure. Errors: `NotAllowed`, `NotFound`."""
    require_overview(principal)
    principal.require(Permission.CONFIGURE)
    return known(fetch_by_id(ErasureRow, f"{_ERASURES} AND id = %s", erasure_id), f"erasure {erasure_id}")
