"""Saved reports: one's own, and those that others share.

A filter can name addresses: who is limited to some sees none of others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.rows import Versioned, fetch


@dataclass(frozen=True)
class SavedReportRow(Versioned):
    """A report under a name. `asked`: kind, filter, columns, period, time zone, groups and format.

    `days`: its period is so many whole days before a run; None: the period of `asked`. `schedule`: five cron fields in
    its time zone. `channel`, `to`: how others are told of a run of the schedule. `last_error`: why the latest one
    was refused. `last_report_id`: its latest run.
    """

    id: int
    name: str
    owner: str
    is_shared: bool
    asked: Mapping[str, Any]
    days: int | None
    schedule: str | None
    next_at: datetime | None
    channel: str | None
    to: Sequence[str]
    last_error: str | None
    last_report_id: int | None
    version: int
    updated_at: datetime


_SELECT = """
SELECT s.id, name, owner, is_shared, s.asked, days, schedule, next_at, channel, send_to AS "to", last_error,
       (SELECT max(id) FROM report WHERE saved_id = s.id) AS last_report_id, version, updated_at
FROM saved_report s
"""


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
    if not found:
        raise NotFound(f"There is no saved report {saved_id}.")
    return found[0]
