"""Saved reports: one's own, and those that others share.

A filter can name addresses: who is limited to some sees none of others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.rows import Versioned, columns, fetch, known
from poisonadmin.reports.domain.saved import SavedReportSettings


@dataclass(frozen=True, kw_only=True)
class SavedReportRow(SavedReportSettings, Versioned):
    """A report under a name. `asked`: kind, filter, columns, period, time zone, groups and format.

    `days`: its period is so many whole days before a run; None: the period of `asked`. `schedule`: five cron fields in
    its time zone. `channel`, `to`: how others are told of a run of the schedule. `last_error`: why the latest one
    was refused. `last_report_id`: its latest run.
    """

    id: int
    owner: str
    asked: Mapping[str, Any]
    next_at: datetime | None
    last_error: str | None
    last_report_id: int | None
    version: int
    updated_at: datetime


_SELECT = f"""
SELECT s.id, {columns(SavedReportSettings, "s")}, owner, s.asked, next_at, last_error,
       (SELECT max(id) FROM report WHERE saved_id = s.id) AS last_report_id, version, updated_at
FROM saved_report s
"""  # noqa: S608  (constants)


# By which session or token a user saved it makes no difference to who sees every address.
_SEEN = """
(s.owner_account = %s AND s.owner = %s OR %s AND (s.is_shared OR s.owner_account = %s OR s.owner_account IN (
    SELECT 'token ' || t.id FROM api_token t WHERE 'user ' || t.user_id = %s)))
"""


def _seen(principal: Principal) -> list[Any]:
    user = principal.user or None
    return [principal.account, principal.name, principal.sees_everything, user, user]


def list_saved_reports(*, principal: Principal) -> list[SavedReportRow]:
    """Return the principal's saved reports and the shared ones of others, by name."""
    principal.require(Permission.EXPORT)
    return fetch(SavedReportRow, f"{_SELECT} WHERE {_SEEN} ORDER BY name, id", _seen(principal))


def get_saved_report(saved_id: int, *, principal: Principal) -> SavedReportRow:
    """Return the saved report; raise NotFound, also for another's that is not shared."""
    principal.require(Permission.EXPORT)
    found: list[SavedReportRow] = []
    if 0 < saved_id <= MAX_ID:
        found = fetch(SavedReportRow, f"{_SELECT} WHERE s.id = %s AND {_SEEN}", [saved_id, *_seen(principal)])
    return known(found[0] if found else None, f"saved report {saved_id}")
