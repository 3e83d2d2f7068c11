"""Reports that were asked for: only who asked, or everybody for those of a shared one, with as wide a scope."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import fetch


@dataclass(frozen=True)
class ReportRow:
    """A report that was asked for. `progress`: from 0 to 1. `rows`, `bytes`, `sha256`: of its file, when it is ready.

    `asked`: the kind, filter, columns, period, time zone, groups and format. `saved_id`, `saved_name`: the saved report
    that it is a run of. The file is removed after `expires_at`.
    """

    id: int
    kind: str
    state: str
    asked: Mapping[str, Any]
    saved_id: int | None
    saved_name: str | None
    done: int
    total: int
    rows: int | None
    bytes: int | None
    sha256: str | None
    error: str | None
    job_id: int | None
    requested_by: str
    requested_at: datetime
    ended_at: datetime | None
    expires_at: datetime | None

    @property
    def progress(self) -> float:
        """The share of it that is read; all of it once it is ready."""
        if self.state in ("ready", "expired"):
            return 1.0
        return round(min(self.done / self.total, 0.99), 3) if self.total else 0.0


_KEY = Key(("r.id",), (int,))
_COLUMNS = ", ".join(
    "s.name AS saved_name" if name == "saved_name" else f"r.{name}" for name in ReportRow.__dataclass_fields__
)
_SELECT = f"SELECT {_COLUMNS} FROM report r LEFT JOIN saved_report s ON s.id = r.saved_id"  # noqa: S608  (constants)


# By which session or token a user asked makes no difference.
_OF_USER = "(r.account = %s OR r.account IN (SELECT 'token ' || t.id FROM api_token t WHERE 'user ' || t.user_id = %s))"
_OF_POISONADMIN = "(r.account = '' AND r.requested_by = %s)"
# Each limit of the principal is one of the report's. A token may be limited to fewer addresses than its user, and who
# asked may be so since.
_WITHIN = """
NOT EXISTS (SELECT FROM jsonb_array_elements(%s::jsonb) AS own
            WHERE NOT EXISTS (SELECT FROM jsonb_array_elements(r.patterns) AS its WHERE its = own))
"""


def _seen(principal: Principal) -> tuple[str, list[Any]]:
    """Return the condition that the principal may see a report, and its parameters."""
    own, values = (_OF_USER, [principal.person] * 2) if principal.account else (_OF_POISONADMIN, [principal.name])
    condition = f"({own} OR s.is_shared AND %s) AND {_WITHIN}"
    if not principal.may(Permission.READ_PAYLOAD):
        condition += " AND NOT r.shows_payload"
    return condition, [*values, principal.sees_everything, patterns_json(principal)]


def patterns_json(principal: Principal) -> str:
    """Return what a principal is limited to, as a report keeps it."""
    return json.dumps([list(some) for some in principal.patterns])


def list_reports(
    *, principal: Principal, saved_id: int | None = None, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[ReportRow]:
    """Return a page of the reports that the principal may see, newest first; of one saved report where it is given."""
    principal.require(Permission.EXPORT)
    condition, values = _seen(principal)
    if saved_id is not None:
        condition, values = f"{condition} AND r.saved_id = %s", [*values, saved_id]
    page = window(cursor, limit, _KEY)
    return fetch_page(ReportRow, f"{_SELECT} WHERE {condition}", values, page)


def get_report(report_id: int, *, principal: Principal) -> ReportRow:
    """Return the report; raise NotFound, also for one of others."""
    principal.require(Permission.EXPORT)
    condition, values = _seen(principal)
    found: list[ReportRow] = []
    if 0 < report_id <= MAX_ID:
        found = fetch(ReportRow, f"{_SELECT} WHERE r.id = %s AND {condition}", [report_id, *values])
    if not found:
        raise NotFound(f"There is no report {report_id}.")
    return found[0]
