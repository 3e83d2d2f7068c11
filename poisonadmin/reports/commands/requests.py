"""Requests for reports, their cancellation, their downloads, and the removal of files that have expired."""

import platform
from contextlib import ExitStack
from datetime import timedelta

from poisonadmin.archive.commands.ownership import require_own_archive
from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError, first_line
from poisonadmin.core.domain.exports import FileFormat
from poisonadmin.core.queries.rows import QueryTooExpensive, StoredBytes, fetch_values
from poisonadmin.reports.commands import files
from poisonadmin.reports.domain.asked import AskedReport, audited
from poisonadmin.reports.queries.archived import archived_days, archived_where
from poisonadmin.reports.queries.live import live_where
from poisonadmin.reports.queries.reports import get_report
from poisonadmin.reports.queries.rows import ReportRows, require_export, rows_at_once
from poisonadmin.runs.commands.requests import cancel_run, request_run
from poisonadmin.runs.domain.kinds import KindName, RunKind

FILE_KEPT = timedelta(days=7)
# `params`: `asked` as reports/domain/asked.py says; `saved_id`, the saved report whose schedule requested it, null for
# none; `shows_payload`; `cut_off`, the id that no message is above. `position`: live messages up to the id `after` of
# those up to `until` are read, then the archive's `days`, into so many `parts`, while the archive was as `archive`
# says. `done` of `total`: ids of live messages, and a number for each day of the archive. `result`, of the file:
# `rows`, `bytes`, `sha256`, and `file_until`, when it is removed.
REPORT = RunKind(
    KindName.REPORT,
    noun="report",
    audited_as="report.{}",
    audited_object="report",
    first_phase="reading rows",
    # Who sees a report may cancel it.
    cancelled_by=Permission.EXPORT,
    max_open=20,
    kept=timedelta(days=90),
    is_personal=True,
    slice_seconds=3.0,
)

_MADE_BY = "SELECT worker FROM run WHERE kind = 'report' AND coalesce(former_id, id) = %s"
_NEWEST = "SELECT coalesce(max(id), 0) FROM message"
_WITH_FILES = """
SELECT coalesce(former_id, id) FROM run
WHERE kind = 'report' AND position IS NOT NULL AND coalesce(former_id, id) = ANY(%s)
    AND (ended_at IS NULL
         OR state = 'succeeded' AND expires_at > now() AND (result ->> 'file_until')::timestamptz > now())
"""


class ReportOver(PoisonAdminError):
    """Raised when a report is to be downloaded that has no file: it is not made yet, or it is removed."""

    code = "report_over"
    status = 409


class ReportElsewhere(PoisonAdminError):
    """Raised when a report has a file, and it is not where this machine has the archive."""

    code = "report_elsewhere"
    status = 503

    def __init__(self, report_id: int, error: OSError) -> None:
        worker = fetch_values(_MADE_BY, [report_id])[0]
        super().__init__(
            f"{worker} made the file of report {report_id}, and {platform.node()}, which answers, does not reach it "
            f"({first_line(error)}): the web process and the worker need the same POISONADMIN_ARCHIVE."
        )


def rows_now(asked: AskedReport, *, principal: Principal) -> ReportRows | None:
    """Return the rows of a report in JSON where they are few, and live; None where a job has to make it.

    Who takes rows out stands in the audit log. Errors: `NotAllowed`, `InvalidFilter`.
    """
    require_export(asked, principal)
    if asked.format is not FileFormat.JSON or archived_days(asked):
        return None
    try:
        found = rows_at_once(asked, principal=principal)
    except QueryTooExpensive:
        return None
    if not found.is_whole:
        return None
    audit.record(
        principal.name,
        "report.read",
        "report",
        str(asked.kind),
        details={**audited(asked.as_json()), "rows": len(found.rows)},
    )
    return found


def request_report(asked: AskedReport, *, principal: Principal, saved_id: int | None = None) -> int:
    """Have a report made by a Spark job; return its id. `saved_id`: of the saved report whose schedule requests it.

    Errors: `NotAllowed`, `InvalidFilter`, also for what archived messages cannot be asked for where the period reaches
    them, `TooManyRuns`.
    """
    require_export(asked, principal)
    if not principal.account and principal is not SYSTEM and principal.name != SYSTEM.name:
        raise NotAllowed("A report is made for an account.")
    live_where(asked, principal)
    if archived_days(asked):
        archived_where(asked, principal)
    params = {
        "asked": asked.as_json(),
        "saved_id": saved_id,
        "shows_payload": asked.shows_payload,
        "cut_off": fetch_values(_NEWEST)[0],
    }
    details = audited(params["asked"])
    return request_run(REPORT, params, principal=principal, account=principal.account, details=details).id


def cancel_report(report_id: int, *, principal: Principal) -> None:
    """Cancel a report that is being made. Errors: `NotAllowed`, `NotFound`, `RunEnded`."""
    get_report(report_id, principal=principal)
    cancel_run(REPORT, report_id, principal=principal)


def download_of(report_id: int, *, principal: Principal) -> tuple[StoredBytes, str]:
    """Return the content of a report's file and the name under which it is saved, and write down who takes it.

    Errors: `NotAllowed`, `NotFound`, `ReportOver`, `ReportElsewhere`.
    """
    row = get_report(report_id, principal=principal)
    if row.result is None or not row.has_file:
        raise ReportOver(f"The report {report_id} is {row.state} and has no file to download.")
    try:
        content = files.content_of(report_id, FileFormat(row.asked["format"]))
        if content.size_bytes != row.result.bytes:
            raise OSError(f"what is there has {content.size_bytes:,} bytes, not {row.result.bytes:,}")
    except OSError as error:
        raise ReportElsewhere(report_id, error) from error
    details = {**audited(row.asked), "rows": row.result.rows, "sha256": row.result.sha256}
    audit.record(principal.name, "report.downloaded", "report", str(report_id), details=details)
    return content, f"{row.kind}-{report_id}.{row.asked['format']}"


def remove_expired_files() -> list[int]:
    """Remove the files of reports that have expired, and of all that have none to show; return whose these were.

    Killed at any line, the next run removes what is left: files go by the states of their reports.
    """
    # Listed before their reports are asked for: one that is made meanwhile is not among them.
    found = files.with_files()
    if removed := sorted(set(found) - set(with_valid_files(found))):
        require_own_archive()
    with ExitStack() as each_also_when_another_fails:
        for report_id in removed:
            each_also_when_another_fails.callback(files.remove, report_id)
    return removed


def with_valid_files(found: list[int]) -> list[int]:
    """Return those that are reports with a file that has not expired, or with one that is made."""
    return fetch_values(_WITH_FILES, [found])
