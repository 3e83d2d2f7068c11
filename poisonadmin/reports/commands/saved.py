"""Reports under a name: saved, removed, and run by their schedules with the rights that their owners have then."""

import secrets as random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from django.db import connection, transaction
from django.db.models.functions import Now

from poisonadmin.alerts.channels.registry import CHANNELS
from poisonadmin.alerts.domain.kinds import ChannelKind
from poisonadmin.alerts.domain.rules import InvalidAlertRule
from poisonadmin.alerts.domain.signatures import SECRET_BYTES, secret_text
from poisonadmin.core.commands import audit, locks
from poisonadmin.core.commands.authentication import principal_of_account
from poisonadmin.core.commands.transaction_retry import retried
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError, all_checked, require_version
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.domain.names import mistake_in
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.reports.commands.requests import request_report
from poisonadmin.reports.domain.asked import OPEN, AskedReport, Period, from_json
from poisonadmin.reports.domain.columns import InvalidReport
from poisonadmin.reports.queries.live import report_filter
from poisonadmin.reports.queries.rows import require_export
from poisonadmin.reports.queries.saved import SavedReportRow, get_saved_report
from poisonadmin.store.models.report import RequestedReport, SavedReport

MAX_NAME_CHARS = 100
MAX_SCHEDULE_CHARS = 100
MAX_DAYS = 800
MAX_SAVED = 100

_DUE = "SELECT id FROM saved_report WHERE next_at <= now() ORDER BY next_at, id"


def next_run(schedule: str, after: datetime, time_zone: str) -> datetime:
    """Return the first time after `after`, in UTC, at which five cron fields are due in a time zone.

    Errors: `InvalidReport` for what is no schedule, or one that is never due.

    >>> next_run("0 7 * * 1", datetime(2026, 3, 27, tzinfo=UTC), "Europe/Berlin").isoformat()
    '2026-03-30T05:00:00+00:00'
    """
    if not schedule.isascii() or len(schedule) > MAX_SCHEDULE_CHARS or len(schedule.split()) != 5:
        raise InvalidReport("schedule", "must be five cron fields, such as `0 7 * * 1`.")
    try:
        return next(CronSim(schedule, after.astimezone(ZoneInfo(time_zone)))).astimezone(UTC)
    except CronSimError as error:
        raise InvalidReport("schedule", f"is no schedule: {str(error).lower()}. It is five cron fields.") from None
    except StopIteration:
        raise InvalidReport("schedule", "is never due.") from None


def last_days(days: int, at: datetime, asked: AskedReport) -> AskedReport:
    """Return the report of the last whole days before `at`, in its time zone.

    Midnights are those of the clock there, also where a day has 23 hours.
    """
    zone = ZoneInfo(asked.time_zone)
    until = at.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    since = (until.replace(tzinfo=None) - timedelta(days=days)).replace(tzinfo=zone)
    return replace(asked, period=Period(since, until, asked.period.by))


def check_saved_report(
    name: str,
    asked: AskedReport,
    *,
    days: int | None = None,
    schedule: str | None = None,
    is_shared: bool = False,
    channel: str | None = None,
    to: Sequence[str] = (),
) -> dict[str, Any]:
    """Return what is kept of a saved report that may be so; raise InvalidReport, InvalidFilter."""
    found = all_checked(
        {
            "name": lambda: _check_name(name),
            "filter": lambda: report_filter(asked),
            "days": lambda: _check_days(days),
            "schedule": lambda: next_run(schedule, datetime.now(UTC), asked.time_zone) if schedule else None,
            "to": lambda: _places(channel, to, schedule),
        }
    )
    return {
        "asked": asked.as_json(),
        "days": days,
        "schedule": schedule or None,
        "is_shared": is_shared,
        "channel": channel or None,
        "send_to": found["to"],
    }


def _check_name(name: str) -> None:
    if (mistake := mistake_in(name, MAX_NAME_CHARS)) is not None:
        raise InvalidReport("name", mistake)


def _check_days(days: int | None) -> None:
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise InvalidReport("days", f"must be within 1..{MAX_DAYS}.")


def _places(channel: str | None, to: Sequence[str], schedule: str | None) -> list[str]:
    if not channel:
        if to:
            raise InvalidReport("to", "needs a channel.")
        return []
    if channel not in list(ChannelKind):
        raise InvalidReport("channel", f"must be one of {', '.join(ChannelKind)}.")
    if not schedule:
        raise InvalidReport("schedule", "is required to have others told.")
    try:
        return CHANNELS[ChannelKind(channel)].check(to)
    except InvalidAlertRule as error:
        raise InvalidReport(error.field, error.reason) from None


def save_report(
    name: str, asked: AskedReport, *, principal: Principal, expected_version: int | None = None, **more: Any
) -> tuple[int, str | None]:
    """Keep a report under a name, in place of the principal's own of this name; return its id, and the secret of a new
    webhook, which is not shown again.

    To share takes the permission to decide, to have others told the one to configure. `more`: those of
    `check_saved_report`. Errors: `NotAllowed`, `InvalidReport`, `InvalidFilter`, `AlreadyExists`, `PreconditionFailed`.
    """
    require_export(asked, principal)
    if more.get("is_shared"):
        principal.require(Permission.DECIDE)
    if more.get("channel"):
        principal.require(Permission.CONFIGURE)
    values = check_saved_report(name, asked, **more)

    def save() -> tuple[int, str | None]:
        with transaction.atomic(), connection.cursor() as cursor:
            locks.hold(cursor, Lock.CONFIGURATION)  # two who create the same name at once must not replace one another
            before = SavedReport.objects.filter(owner=principal.name, name=name).first()
            require_version(f"saved report {name}", before, expected_version)
            if before is None and SavedReport.objects.filter(owner=principal.name).count() >= MAX_SAVED:
                raise InvalidReport("name", f"you have {MAX_SAVED} saved reports; remove one first.")
            secret = _secret(values["channel"], before)
            more_values: dict[str, Any] = {
                "next_at": next_run(values["schedule"], _now(), asked.time_zone) if values["schedule"] else None,
                "owner_account": principal.account,
                "version": before.version + 1 if before else 1,
                "last_error": None,
                "updated_at": Now(),
            }
            if secret is not None:
                more_values["secrets"] = [secret]
            row, _ = SavedReport.objects.update_or_create(
                owner=principal.name, name=name, defaults=values | more_values
            )
            audit.record(principal.name, "saved_report.saved", "saved_report", name, details=values)
        return int(row.id), secret

    return retried(save)


def _secret(channel: str | None, before: SavedReport | None) -> str | None:
    """Return a secret for a webhook that has none yet."""
    if not channel or not CHANNELS[ChannelKind(channel)].is_signed or (before is not None and before.secrets):
        return None
    return secret_text(random.token_bytes(SECRET_BYTES))


def require_owner(row: SavedReportRow, principal: Principal) -> None:
    """Raise NotAllowed for who is not the owner of a saved report."""
    if row.owner != principal.name:
        raise NotAllowed(f"The saved report {row.name} is {row.owner}'s; save it under a name of yours.")


def remove_saved_report(saved_id: int, *, principal: Principal) -> None:
    """Remove a saved report of one's own; an administrator removes shared ones too. Its reports stay.

    Errors: `NotAllowed`, `NotFound`.
    """
    found = get_saved_report(saved_id, principal=principal)
    if found.owner != principal.name and not principal.may(Permission.CONFIGURE):
        raise NotAllowed(f"The saved report {found.name} is {found.owner}'s; only an administrator removes it besides.")

    def remove() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("UPDATE report SET saved_id = NULL WHERE saved_id = %s", [saved_id])
            cursor.execute("DELETE FROM alert_delivery WHERE saved_id = %s", [saved_id])
            cursor.execute("DELETE FROM saved_report WHERE id = %s RETURNING id", [saved_id])
            if cursor.fetchone():
                audit.record(principal.name, "saved_report.removed", "saved_report", found.name)

    retried(remove)


def run_saved_report(saved_id: int, *, principal: Principal) -> int:
    """Ask for a saved report now, for who asks and with their rights; return the report's id. Nobody else is told.

    Errors: `NotAllowed`, `NotFound`, `InvalidFilter`, `TooManyReports`.
    """
    found = get_saved_report(saved_id, principal=principal)
    asked = from_json(found.asked)
    if found.days is not None:
        asked = last_days(found.days, _now(), asked)
    return request_report(asked, principal=principal)


class StillBeingMade(PoisonAdminError):
    """Raised when a schedule is due before its last report is made."""

    code = "report_being_made"
    status = 409


def run_saved_due() -> list[int]:
    """Ask for the saved reports that are due by their schedules; return the reports' ids.

    Call under `single_flight(Tick.SAVED_REPORTS)`. One that is refused says why, and keeps no other from its turn.
    """
    made = [retried(lambda saved_id=saved_id: _run_if_due(saved_id)) for saved_id in fetch_values(_DUE)]  # type: ignore[misc]
    return [report_id for report_id in made if report_id is not None]


def _run_if_due(saved_id: int) -> int | None:
    with transaction.atomic():
        row = SavedReport.objects.select_for_update().filter(id=saved_id).first()
        now = _now()
        if row is None or row.next_at is None or row.next_at > now:
            return None
        error, report_id = None, None
        try:
            with transaction.atomic():  # nothing of a run that is refused stays
                if RequestedReport.objects.filter(saved=row, state__in=[str(state) for state in OPEN]).exists():
                    raise StillBeingMade("Its last run is still being made, so this one was left out.")
                report_id = _request(row, now)
        except PoisonAdminError as refused:
            error = refused.detail
        zone = str(row.asked["time_zone"])
        later = next_run(row.schedule or "", now, zone)
        SavedReport.objects.filter(id=saved_id).update(next_at=later, last_error=error)
    return report_id


def _request(row: SavedReport, now: datetime) -> int:
    acting = principal_of_account(row.owner_account) if row.owner_account else SYSTEM
    if acting is None:
        raise NotAllowed(f"The account or token of its owner, {row.owner}, is not in force.")
    if row.channel:
        acting.require(Permission.CONFIGURE)
    asked = from_json(row.asked)
    if row.days is not None:
        asked = last_days(row.days, now, asked)
    return request_report(asked, principal=acting, saved=row)


def _now() -> datetime:
    found: datetime = fetch_values("SELECT now()")[0]
    return found
