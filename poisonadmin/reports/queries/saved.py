"""Saved reports: one's own, and those that others share."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.rows import Versioned, columns, fetch, fetch_one, known
from poisonadmin.core.queries.scope import own_or_shared
from poisonadmin.core.queries.sql import Sql, all_of, raw
from poisonadmin.reports.domain.asked import SavedReportSettings


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


_LAST = """
SELECT (params ->> 'saved_id')::bigint AS saved_id, max(coalesce(former_id, id)) AS id FROM run
WHERE kind = 'report' AND position IS NOT NULL GROUP BY 1
"""
_SELECT = partial(
    Sql,
    """SELECT s.id, {settings}, s.owner, s.asked, s.next_at, s.last_error, last.id AS last_report_id, s.version,
        s.updated_at
    FROM saved_report s LEFT JOIN ({last}) AS last ON last.saved_id = s.id WHERE {seen}""",
    settings=columns(SavedReportSettings, "s"),
    last=raw(_LAST),
)
# By which session or token a user saved it makes no difference to who sees every address.
_OF_USER = partial(
    Sql,
    """s.owner_account = {user}
    OR s.owner_account IN (SELECT 'token ' || t.id FROM api_token t WHERE 'user ' || t.user_id = {user})""",
)


def _seen(principal: Principal) -> Sql:
    account, owner = principal.account, principal.name
    own = Sql("s.owner_account = {account} AND s.owner = {owner}", account=account, owner=owner)
    return own_or_shared(principal, own, or_of_user=_OF_USER(user=principal.user or None))


def list_saved_reports(*, principal: Principal) -> list[SavedReportRow]:
    """Return the principal's saved reports and the shared ones of others, by name."""
    principal.require(Permission.EXPORT)
    return fetch(SavedReportRow, _SELECT(seen=_seen(principal)) + Sql("ORDER BY s.name, s.id"))


def get_saved_report(saved_id: int, *, principal: Principal) -> SavedReportRow:
    """Return the saved report; raise NotFound, also for another's that is not shared."""
    principal.require(Permission.EXPORT)
    this = all_of([Sql("s.id = {id}", id=min(saved_id, MAX_ID)), _seen(principal)])
    return known(fetch_one(SavedReportRow, _SELECT(seen=this)), f"saved report {saved_id}")
