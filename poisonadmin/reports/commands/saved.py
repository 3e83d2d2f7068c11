"""Reports under a name: saved, removed, and run by their schedules with the rights that their owners have then.

The notice that one is ready has a link and the checksum, and no rows. It is made with the report; the outbox of alerts
(alerts/commands/send.py) sends it until it is taken.
"""

import json
import secrets as random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import transaction
from django.urls import reverse

from poisonadmin.alerts.channels.registry import CHANNELS
from poisonadmin.alerts.commands.rules import new_webhook_id
from poisonadmin.alerts.domain.conditions import one_line
from poisonadmin.alerts.domain.kinds import REPORT_CHANNELS, ChannelKind
from poisonadmin.alerts.domain.notices import SECRET_BYTES, NoticeType, secret_text
from poisonadmin.core.commands.configured import remove_own, save_own
from poisonadmin.core.commands.schedules import next_run, rights_of_owner, run_each_due
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError, error_text
from poisonadmin.core.domain.settings import InvalidValue, checked
from poisonadmin.core.queries.rows import database_time
from poisonadmin.reports.commands.requests import request_report
from poisonadmin.reports.domain.asked import AskedReport, Period, SavedReportSettings, audited, from_json
from poisonadmin.reports.domain.columns import InvalidReport
from poisonadmin.reports.queries.live import report_filter
from poisonadmin.reports.queries.reports import SavedReportRow, get_saved_report
from poisonadmin.reports.queries.rows import require_export
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.runs.queries.runs import StoredRun, find_run
from poisonadmin.store.models.alert import AlertDelivery
from poisonadmin.store.models.report import SavedReport
from poisonadmin.store.models.run import LongRun


def last_days(days: int, at: datetime, asked: AskedReport) -> AskedReport:
    """Return the report of the last whole days before `at`, in its time zone.

    Midnights are those of the clock there, also where a day has 23 hours.
    """
    zone = ZoneInfo(asked.time_zone)
    until = at.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    since = (until.replace(tzinfo=None) - timedelta(days=days)).replace(tzinfo=zone)
    return replace(asked, period=Period(since, until, asked.period.by))


def check_saved_report(kept: SavedReportSettings, asked: AskedReport) -> SavedReportSettings:
    """Return what is kept of a saved report that may be so; raise InvalidReport, InvalidFilter."""
    kept = replace(kept, schedule=kept.schedule or None, channel=kept.channel or None)
    return checked(
        kept,
        InvalidReport,
        also={"filter": lambda: report_filter(asked), "schedule": lambda: _next_run(kept, asked, datetime.now(UTC))},
        instead={"to": lambda: _places(kept)},
    )


def _next_run(kept: SavedReportSettings | SavedReport, asked: AskedReport, after: datetime) -> datetime | None:
    return next_run(kept.schedule, after, asked.time_zone, example="0 7 * * 1") if kept.schedule else None


def _places(kept: SavedReportSettings) -> list[str]:
    if not kept.channel:
        if kept.to:
            raise InvalidValue("needs a channel.")
        return []
    if kept.channel not in REPORT_CHANNELS:
        raise InvalidReport("channel", f"must be one of {', '.join(REPORT_CHANNELS)}.")
    if not kept.schedule:
        raise InvalidReport("schedule", "is required to have others told.")
    return CHANNELS[ChannelKind(kept.channel)].check(kept.to)


def save_report(
    name: str, asked: AskedReport, *, principal: Principal, expected_version: int | None = None, **more: Any
) -> tuple[int, str | None]:
    """Keep a report under a name, in place of the principal's own of this name; return its id, and the secret of a new
    webhook, which is not shown again.

    To share takes the permission to decide, to have others told the one to configure. `more`: those of
    `SavedReportSettings`. Errors: `NotAllowed`, `InvalidReport`, `InvalidFilter`, `AlreadyExists`,
    `PreconditionFailed`.
    """
    require_export(asked, principal)
    kept = SavedReportSettings(name=name, **more)
    if kept.is_shared:
        principal.require(Permission.DECIDE)
    if kept.channel:
        principal.require(Permission.CONFIGURE)
    kept = check_saved_report(kept, asked)
    is_signed = kept.channel is not None and CHANNELS[ChannelKind(kept.channel)].is_signed
    secret = secret_text(random.token_bytes(SECRET_BYTES))

    def write(before: SavedReport | None) -> dict[str, Any]:
        had = before.secrets if before else []
        return {
            "next_at": _next_run(kept, asked, database_time()),
            "owner_account": principal.account,
            "last_error": None,
            "secrets": [secret] if is_signed and not had else had,
        }

    row = save_own(
        SavedReport,
        "saved report",
        {**vars(kept), "asked": asked.as_json()},
        principal=principal,
        refuse=InvalidReport,
        expected_version=expected_version,
        write=write,
        shortened={"asked": audited},
    )
    return row.id, secret if secret in row.secrets else None


def require_owner(row: SavedReportRow, principal: Principal) -> None:
    """Raise NotAllowed for who is not the owner of a saved report."""
    if row.owner not in principal.own_names:
        raise NotAllowed(f"The saved report {row.name} is {row.owner}'s; save it under a name of yours.")


def remove_saved_report(saved_id: int, *, principal: Principal) -> None:
    """Remove a saved report of one's own; an administrator removes shared ones too. Its reports stay.

    Errors: `NotAllowed`, `NotFound`.
    """
    found = get_saved_report(saved_id, principal=principal)
    first = ("DELETE FROM alert_delivery WHERE saved_id = %s",)
    remove_own("saved_report", "saved report", found, principal=principal, first=first)


def run_saved_report(saved_id: int, *, principal: Principal) -> int:
    """Ask for a saved report now, for who asks and with their rights; return the report's id. Nobody else is told.

    Errors: `NotAllowed`, `NotFound`, `InvalidFilter`, `TooManyRuns`.
    """
    found = get_saved_report(saved_id, principal=principal)
    asked = from_json(found.asked)
    if found.days is not None:
        asked = last_days(found.days, database_time(), asked)
    return request_report(asked, principal=principal)


class StillBeingMade(PoisonAdminError):
    """Raised when a schedule is due before its last report is made."""

    code = "report_being_made"
    status = 409


def run_saved_due() -> list[int]:
    """Ask for the saved reports that are due by their schedules; return the reports' ids.

    Call under `single_flight(Tick.SAVED_REPORTS)`. One that is refused says why, and keeps no other from its turn.
    """
    return run_each_due(SavedReport, _run, failed=_failed, time_zone=lambda row: str(row.asked["time_zone"]))


def _run(row: SavedReport) -> int | None:
    error, report_id = None, None
    try:
        with transaction.atomic():  # nothing of a run that is refused stays
            if LongRun.objects.filter(kind=KindName.REPORT, params__saved_id=row.id, ended_at=None).exists():
                raise StillBeingMade("Its last run is still being made, so this one was left out.")
            report_id = _request(row, database_time())
    except PoisonAdminError as refused:
        error = refused.detail
    SavedReport.objects.filter(id=row.id).update(last_error=error)
    return report_id


def _failed(row: SavedReport, error: Exception) -> None:
    SavedReport.objects.filter(id=row.id).update(last_error=error_text(error))


def _request(row: SavedReport, now: datetime) -> int:
    acting = rights_of_owner(row.owner_account, row.owner)
    if row.channel:
        acting.require(Permission.CONFIGURE)
    asked = from_json(row.asked)
    if row.days is not None:
        asked = last_days(row.days, now, asked)
    return request_report(asked, principal=acting, saved_id=row.id)


def note_ready(report_id: int) -> None:
    """Have others told that a report is ready, where a saved one says so. Call in the transaction that ends it."""
    run = find_run(KindName.REPORT, report_id)
    assert run is not None
    saved = SavedReport.objects.filter(id=run.params["saved_id"], channel__isnull=False).first()
    if saved is not None:
        AlertDelivery.objects.create(saved=saved, webhook_id=new_webhook_id(), body=_body(saved, run))


def _body(saved: SavedReport, run: StoredRun) -> str:
    """Return the JSON that is sent, in the form of alerts: a receiver and a mail show it as they show those."""
    assert run.result is not None
    rows, sha256 = run.result["rows"], run.result["sha256"]
    at = None if run.ended_at is None else run.ended_at.isoformat(timespec="seconds")
    shown = {
        "id": str(run.id),
        "kind": "report",
        "title": one_line(f"Report {saved.name}: {rows:,} rows, SHA-256 {sha256}", 300),
        "url": f"{settings.PUBLIC_URL}{reverse('reports-one', args=[run.id])}",
        "facts": {
            "report": str(run.id),
            "kind": run.params["asked"]["kind"],
            "format": run.params["asked"]["format"],
            "rows": rows,
            "sha256": sha256,
            "expires_at": run.result["file_until"],
        },
        "opened_at": at,
        "resolved_at": None,
    }
    document = {
        "type": str(NoticeType.REPORT),
        "timestamp": at,
        "data": {"rule": saved.name, "installation": settings.ENVIRONMENT_NAME, "alerts": [shown], "more": 0},
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
