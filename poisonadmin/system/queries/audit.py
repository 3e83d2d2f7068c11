"""Who did what, when and why; newest first."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, window
from poisonadmin.core.queries.rows import bounded, fetch

_KEY = Key(("u.id",), (int,))


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
    page = window(cursor, limit, _KEY)
    conditions = {
        "u.actor = %s": only.actor,
        "u.action = %s": only.action,
        "u.object_type = %s": only.object_type,
        "u.object_id = %s": only.object_id,
        "u.at >= %s": only.after,
        "u.at < %s": only.before,
        "(u.actor) = %s": None if principal.sees_everything else principal.name,
    }
    given = {sql: value for sql, value in conditions.items() if value is not None}
    with bounded():
        rows = fetch(
            AuditRow,
            "SELECT u.id, u.at, u.actor, u.action, u.object_type, u.object_id, u.note, u.details, u.request_id"  # noqa: S608
            f" FROM audit u WHERE {' AND '.join(['TRUE', *given])} AND {page.condition} {page.order}",
            [*given.values(), *page.parameters],
        )
    return page.page(rows, lambda row: (row.id,))
