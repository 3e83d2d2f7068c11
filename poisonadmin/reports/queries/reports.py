"""Reports that were asked for, by those who may see them, and reports that are saved under a name."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.masking import masks_of
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, count_rows, window
from poisonadmin.core.queries.rows import Versioned, columns, fetch, fetch_one, known
from poisonadmin.core.queries.scope import own_or_shared
from poisonadmin.core.queries.sql import Sql, all_given, all_of, raw
from poisonadmin.reports.domain.asked import SavedReportSettings
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.runs.queries.runs import KEPT, RunFields, patterns_json


@dataclass(frozen=True)
class ReportFile:
    """The file of a report, which is removed after `file_until`."""

    rows: int
    bytes: int
    sha256: str
    file_until: datetime


@dataclass(frozen=True)
class ReportRow(RunFields):
    """A report that was asked for. `done` of `total`: what is read of it. `result`: null before it has succeeded.

    `asked`: the kind, filter, columns, period, time zone, groups and format. `saved_id`, `saved_name`: the saved report
    that it is a run of.
    """

    asked: Mapping[str, Any]
    saved_id: int | None
    saved_name: str | None
    result: ReportFile | None

    @property
    def kind(self) -> str:
        """The kind of report."""
        return str(self.asked["kind"])

    @property
    def has_file(self) -> bool:
        """True when there is a file to be downloaded."""
        return self.result is not None and self.result.file_until > datetime.now(UTC)


_ID = "coalesce(r.former_id, r.id)"
_KEY = Key((_ID,), (int,), fields=("id",))
_SELECT = partial(
    Sql,
    """SELECT {id} AS id, r.state, r.phase, r.done, r.total, r.error, r.requested_by, r.created_at, r.started_at,
        r.ended_at, r.expires_at, r.params -> 'asked' AS asked, s.id AS saved_id, s.name AS saved_name, r.result
    FROM run r LEFT JOIN saved_report s ON s.id = (r.params ->> 'saved_id')::bigint
    WHERE r.kind = {kind} AND {kept} AND {which}""",
    id=raw(_ID),
    kind=str(KindName.REPORT),
    kept=KEPT,
)
# By which session or token a user asked makes no difference.
_OF_USER = partial(
    Sql,
    """(r.account = {person}
        OR r.account IN (SELECT 'token ' || t.id FROM api_token t WHERE 'user ' || t.user_id = {person}))""",
)
_OF_POISONADMIN = partial(Sql, "(r.account = '' AND r.requested_by = {name})")
# Each limit of the principal is one of the report's. A token may be limited to fewer addresses than its user, and who
# asked may be so since.
_WITHIN = partial(
    Sql,
    """NOT EXISTS (SELECT FROM jsonb_array_elements({patterns}::jsonb) AS own
            WHERE NOT EXISTS (SELECT FROM jsonb_array_elements(r.patterns) AS its WHERE its = own))""",
)


def _seen(principal: Principal) -> Sql:
    """Return the condition that the principal may see a report."""
    own = _OF_USER(person=principal.person) if principal.account else _OF_POISONADMIN(name=principal.name)
    # A file is made for who asked for it.
    sees_all = principal.sees_everything and not masks_of(principal)
    shared = Sql("{own} OR s.is_shared AND {sees_all}", own=own, sees_all=sees_all)
    within = _WITHIN(patterns=patterns_json(principal))
    is_blind = None if principal.may(Permission.READ_PAYLOAD) else False
    return all_of([shared, within, all_given({"(r.params ->> 'shows_payload')::boolean = {value}": is_blind})])


def list_reports(*, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT) -> Page[ReportRow]:
    """Return a page of the reports that the principal may see, newest first."""
    principal.require(Permission.EXPORT)
    page, found = window(cursor, limit, _KEY), _SELECT(which=_seen(principal))
    rows = fetch(dict, Sql("{found} AND {place} {order}", found=found, place=page.where, order=page.order))
    return page.page([_row(one) for one in rows], lambda: count_rows(found))


def get_report(report_id: int, *, principal: Principal) -> ReportRow:
    """Return the report; raise NotFound, also for one of others."""
    principal.require(Permission.EXPORT)
    which = all_of([Sql("{column} = {id}", column=raw(_ID), id=min(report_id, MAX_ID)), _seen(principal)])
    return _row(known(fetch_one(dict, _SELECT(which=which)), f"report {report_id}"))


def _row(values: Mapping[str, Any]) -> ReportRow:
    result = values["result"]
    if result is not None:
        result = ReportFile(**{**result, "file_until": datetime.fromisoformat(result["file_until"])})
    return ReportRow(**{**values, "result": result})


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


_LAST = Sql(
    """SELECT (params ->> 'saved_id')::bigint AS saved_id, max(coalesce(former_id, id)) AS id FROM run
    WHERE kind = 'report' AND {kept} GROUP BY 1""",
    kept=KEPT,
)
_SAVED = partial(
    Sql,
    """SELECT s.id, {settings}, s.owner, s.asked, s.next_at, s.last_error, last.id AS last_report_id, s.version,
        s.updated_at
    FROM saved_report s LEFT JOIN ({last}) AS last ON last.saved_id = s.id WHERE {seen}""",
    settings=columns(SavedReportSettings, "s"),
    last=_LAST,
)
# By which session or token a user saved it makes no difference to who sees every address.
_SAVED_BY_USER = partial(
    Sql,
    """s.owner_account = {user}
    OR s.owner_account IN (SELECT 'token ' || t.id FROM api_token t WHERE 'user ' || t.user_id = {user})""",
)


def _seen_saved(principal: Principal) -> Sql:
    of_user = _SAVED_BY_USER(user=principal.user or None)
    own = Sql(
        "s.owner = ANY({owners}) AND (s.owner_account = {account} OR {of_user})",
        owners=principal.own_names,
        account=principal.account,
        of_user=of_user,
    )
    return own_or_shared(principal, own, or_of_user=of_user)


def list_saved_reports(*, principal: Principal) -> list[SavedReportRow]:
    """Return the principal's saved reports and the shared ones of others, by name."""
    principal.require(Permission.EXPORT)
    return fetch(SavedReportRow, _SAVED(seen=_seen_saved(principal)) + Sql("ORDER BY s.name, s.id"))


def get_saved_report(saved_id: int, *, principal: Principal) -> SavedReportRow:
    """Return the saved report; raise NotFound, also for another's that is not shared."""
    principal.require(Permission.EXPORT)
    this = all_of([Sql("s.id = {id}", id=min(saved_id, MAX_ID)), _seen_saved(principal)])
    return known(fetch_one(SavedReportRow, _SAVED(seen=this)), f"saved report {saved_id}")
