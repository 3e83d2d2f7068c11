"""The audit log, newest first."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, NEWEST_FIRST, Page, fetch_page, window
from poisonadmin.core.queries.rows import bounded, columns
from poisonadmin.core.queries.sql import all_given


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
            "actor = {value}": only.actor,
            "action = {value}": only.action,
            "object_type = {value}": only.object_type,
            "object_id = {value}": only.object_id,
            "at >= {value}": only.after,
            "at < {value}": only.before,
            "(actor) = {value}": None if principal.sees_everything else principal.name,
        }
    )
    with bounded():
        sql = f"SELECT {columns(AuditRow, 'audit')} FROM audit WHERE {where}"  # noqa: S608
        return fetch_page(AuditRow, sql, parameters, page)
