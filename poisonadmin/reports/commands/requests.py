"""Asking for a report, cancelling one, and removing the files of those that have expired."""

from collections.abc import Sequence

from django.db import connection, transaction
from django.db.models import Max
from django.db.models.functions import Now

from poisonadmin.core.commands import audit
from poisonadmin.core.commands.transaction_retry import retried
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.queries.rows import QueryTooExpensive, StoredBytes, fetch_values
from poisonadmin.reports.commands import files
from poisonadmin.reports.domain.asked import OPEN, AskedReport, ReportFormat, ReportState
from poisonadmin.reports.queries.archived import archived_days, archived_where
from poisonadmin.reports.queries.live import live_where
from poisonadmin.reports.queries.reports import get_report
from poisonadmin.reports.queries.rows import ReportRows, require_export, rows_at_once
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.report import RequestedReport, SavedReport

MAX_OPEN = 20
KEPT_HOURS = 7 * 24


class TooManyReports(PoisonAdminError):
    """Raised when an account asks for more reports while as many as it may have are being made."""

    code = "too_many_reports"
    status = 429


class ReportOver(PoisonAdminError):
    """Raised when a report is to be cancelled, or downloaded, that is over or has no file."""

    code = "report_over"
    status = 409


def rows_now(asked: AskedReport, *, principal: Principal) -> ReportRows | None:
    """Return the rows of a report in JSON where they are few, and live; None where a job has to make it.

    Who takes rows out stands in the audit log. Errors: `NotAllowed`, `InvalidFilter`.
    """
    require_export(asked, principal)
    if asked.format is not ReportFormat.JSON or archived_days(asked):
        return None
    try:
        found = rows_at_once(asked, principal=principal)
    except QueryTooExpensive:
        return None
    if not found.is_whole:
        return None
    audit.record(
        principal.name, "report.read", "report", str(asked.kind), details={**asked.as_json(), "rows": len(found.rows)}
    )
    return found


def request_report(asked: AskedReport, *, principal: Principal, saved: SavedReport | None = None) -> int:
    """Have a report made by a Spark job; return its id.

    Errors: `NotAllowed`, `InvalidFilter`, also for what archived messages cannot be asked for where the period reaches
    them, `TooManyReports`.
    """
    require_export(asked, principal)
    if not principal.account and principal is not SYSTEM and principal.name != SYSTEM.name:
        raise NotAllowed("A report is made for an account.")
    live_where(asked, principal)
    if archived_days(asked):
        archived_where(asked, principal)

    def request() -> int:
        with transaction.atomic():
            _require_room(principal)
            row = RequestedReport.objects.create(
                kind=asked.kind,
                asked=asked.as_json(),
                saved=saved,
                shows_payload=asked.shows_payload,
                cut_off=Message.objects.aggregate(last=Max("id"))["last"] or 0,
                requested_by=principal.name,
                account=principal.account,
                patterns=[list(some) for some in principal.patterns],
            )
            audit.record(principal.name, "report.requested", "report", str(row.id), details=asked.as_json())
        return int(row.id)

    return retried(request)


def _require_room(principal: Principal) -> None:
    open_count = RequestedReport.objects.filter(account=principal.account, state__in=_texts(OPEN)).count()
    if open_count >= MAX_OPEN:
        raise TooManyReports(f"{open_count} reports of this account are being made; wait for one, or cancel one.")


def cancel_report(report_id: int, *, principal: Principal) -> None:
    """End a report that is being made. Errors: `NotAllowed`, `NotFound`, `ReportOver`."""
    row = get_report(report_id, principal=principal)
    with transaction.atomic():
        changed = RequestedReport.objects.filter(id=report_id, state__in=_texts(OPEN)).update(
            state=str(ReportState.CANCELLED), ended_at=Now()
        )
        if not changed:
            raise ReportOver(f"The report {report_id} is {row.state}; there is nothing to cancel.")
        audit.record(principal.name, "report.cancelled", "report", str(report_id))


def download_of(report_id: int, *, principal: Principal) -> tuple[StoredBytes, str]:
    """Return the content of a report's file and the name under which it is saved, and write down who takes it.

    Errors: `NotAllowed`, `NotFound`, `ReportOver`.
    """
    row = get_report(report_id, principal=principal)
    path = files.file_of(report_id, ReportFormat(row.asked["format"]))
    if row.state != ReportState.READY or not path.exists():
        raise ReportOver(f"The report {report_id} is {row.state} and has no file to download.")
    details = {**row.asked, "rows": row.rows, "sha256": row.sha256}
    audit.record(principal.name, "report.downloaded", "report", str(report_id), details=details)
    return files.content_of(path), f"{row.kind}-{report_id}.{row.asked['format']}"


_EXPIRED = """
UPDATE report SET state = 'expired' WHERE state = 'ready' AND expires_at <= now() RETURNING id
"""
# Long after anything was done with them; their requests stay in the audit log.
_FORGET = """
DELETE FROM report WHERE state IN ('expired', 'failed', 'cancelled') AND requested_at < now() - interval '90 days'
"""


def remove_expired_reports() -> list[int]:
    """Remove the files of reports that have expired, and of all that have none to show; return what has expired.

    Killed at any line, the next run removes what is left: files go by the states of their reports.
    """
    with connection.cursor() as cursor:
        cursor.execute(_EXPIRED)
        expired = [row[0] for row in cursor.fetchall()]
        cursor.execute(_FORGET)
    root = files.directory_of(0).parent
    # Listed before their reports are asked for: one that is made meanwhile is not among them.
    found = [int(one.name) for one in root.iterdir() if one.name.isdecimal()] if root.is_dir() else []
    open_or_ready = "state IN ('queued', 'running', 'ready')"
    kept = fetch_values(f"SELECT id FROM report WHERE id = ANY(%s) AND {open_or_ready}", [found])  # noqa: S608
    for report_id in set(found) - set(kept):
        files.remove(report_id)
    return expired


def _texts(states: Sequence[ReportState]) -> list[str]:
    return [str(state) for state in states]
