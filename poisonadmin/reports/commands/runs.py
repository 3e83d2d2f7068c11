"""Making the files of reports, a wave at a time: rows into parts, then the parts into the file.

How far a report is stands in its row, and what is read in its parts, so a job that is cut off goes on where it was. A
part is whole when it has its name, and it is read again when the row does not count it. The file is made of the parts
from the beginning; a worker that is ended meanwhile begins with that again, and reads nothing twice.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

from django.db import connection, transaction

from poisonadmin.core.commands import audit
from poisonadmin.core.commands.authentication import principal_of_account
from poisonadmin.core.commands.locks import shared
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Principal
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import bounded
from poisonadmin.messages.queries.id_ranges import next_ranges
from poisonadmin.reports.commands import files
from poisonadmin.reports.commands.notices import note_ready
from poisonadmin.reports.commands.parts import make_file, write_part
from poisonadmin.reports.commands.requests import KEPT_HOURS
from poisonadmin.reports.domain.asked import AskedReport, from_json
from poisonadmin.reports.domain.kinds import Grain
from poisonadmin.reports.domain.reading import Reading
from poisonadmin.reports.queries.archived import archive_version, archived_days, archived_on
from poisonadmin.reports.queries.live import live_where, range_statements
from poisonadmin.reports.queries.reports import patterns_json
from poisonadmin.reports.queries.rows import SECONDS, require_export
from poisonadmin.runs.commands import worker_runs
from poisonadmin.runs.commands.job_work import TURN_SECONDS, job_of, working_on
from poisonadmin.runs.commands.worker_runs import RunHeartbeat
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.search.queries.id_bounds import id_bounds
from poisonadmin.store.models.report import RequestedReport

Collect = Callable[[Reading], Any]
"""Reads a wave and returns it as an Arrow table. Passed in: what reads (workers) imports this package."""

RANGE_MESSAGES = 10_000
# A payload's beginning is so much larger than a row.
RANGE_PAYLOADS = 1_000
RANGES_A_WAVE = 16
# A report gives way to others.
SLICE_SECONDS = 3.0
_FIRST_PHASE = "reading rows"

# The accounts take turns, each with the oldest of its reports.
_TAKE = """
UPDATE report SET state = 'running', moved_at = now() WHERE id = (
    SELECT min(id) FROM report AS r WHERE state IN ('queued', 'running') GROUP BY account
    ORDER BY (SELECT max(moved_at) FROM report AS former WHERE former.account = r.account) NULLS FIRST, 1 LIMIT 1)
RETURNING id
"""
_STORE = """
UPDATE report SET place = %s::jsonb, done = %s, total = %s, moved_at = now() WHERE id = %s AND state = 'running'
"""
_READY = f"""
UPDATE report SET state = 'ready', rows = %s, bytes = %s, sha256 = %s, ended_at = now(), done = total,
                  expires_at = now() + interval '{KEPT_HOURS} hours', place = '{{}}'
WHERE id = %s AND state = 'running'
"""  # noqa: S608
_FAIL = """
UPDATE report SET state = 'failed', error = %s, ended_at = now() WHERE id = %s AND state IN ('queued', 'running')
"""


@dataclass
class _Place:
    """The progress of a report: live messages up to the id `after`, then `days` of the archive; `parts` so far."""

    after: int
    until: int
    days: list[str]
    archive: str
    parts: int = 0

    @property
    def is_read(self) -> bool:
        return self.after >= self.until and not self.days


# Files that are being made, by report. They end with this process, and are begun again from the parts.
_being_made: dict[int, "_Making"] = {}


@dataclass
class _Making:
    """A file that is being made, and how many rows of it are written."""

    file: Iterator[int]
    rows: int = 0

    def give_up(self) -> None:
        """Let go of the file."""
        self.file.close()  # type: ignore[attr-defined]


def is_any_due() -> bool:
    """Return whether a report is asked for, or the file of one that was cancelled is open: one query."""
    return bool(_being_made) or RequestedReport.objects.filter(state__in=["queued", "running"]).exists()


def report_due(
    collect: Collect,
    *,
    worker: str,
    heartbeat: RunHeartbeat | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
    seconds: float = TURN_SECONDS,
) -> None:
    """Go on with the reports that are asked for, in turns of a few seconds each, for about `seconds`.

    Call under `single_flight(Tick.REPORT)`.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until and not is_stopping():
        row = _take()
        if row is None:
            return
        job_id = job_of(row, KindName.REPORT, worker=worker, params={"report_id": row.id}, phase=_FIRST_PHASE)
        slice_end = min(until, time.monotonic() + SLICE_SECONDS)
        with working_on(job_id, fail=partial(_end, row, job_id), heartbeat=heartbeat, is_stopping=is_stopping):
            if not _go_on(row, job_id, collect, lambda end=slice_end: is_stopping() or time.monotonic() >= end):  # type: ignore[misc]
                return


def _take() -> RequestedReport | None:
    """Return the open report whose turn it is."""
    with connection.cursor() as cursor:
        cursor.execute(_TAKE)
        found = cursor.fetchone()
    _forget_others()
    return RequestedReport.objects.get(id=found[0]) if found else None


def _forget_others() -> None:
    """Give up the files of reports that were cancelled."""
    if _being_made:
        still = set(
            RequestedReport.objects.filter(id__in=list(_being_made), state="running").values_list("id", flat=True)
        )
        for report_id in set(_being_made) - still:
            _being_made.pop(report_id).give_up()
            files.remove(report_id)


def _go_on(row: RequestedReport, job_id: int, collect: Collect, must_pause: Callable[[], bool]) -> bool:
    """Go on with a report until it is made or must pause; return whether others may have a turn."""
    asked, principal = from_json(row.asked), _acting(row)
    require_export(asked, principal)
    place = _Place(**row.place) if row.place else None
    while place is None or not place.is_read:
        # Between one look at the archive and the reading of its rows, or of those that are not there, nothing moves.
        with shared(Lock.TABLES) as may_read:
            if not may_read:
                worker_runs.move(job_id, phase="waiting for the archive", done=row.done)
                return False
            if place is None or place.archive != archive_version():
                place = _begin(row, asked, principal)
            if not place.is_read:
                _read_wave(row, asked, principal, place, collect)
        if not _store(row, place):
            return _cancelled(row, job_id)
        worker_runs.move(job_id, phase=_FIRST_PHASE, done=row.done, total=row.total)
        if must_pause():
            return True
    return _go_on_writing(row, job_id, asked, place, must_pause)


def _acting(row: RequestedReport) -> Principal:
    """Return who asked, with the rights of now. Errors: `NotAllowed`, also where the scope has changed since."""
    found = principal_of_account(row.account) if row.account else SYSTEM
    if found is None:
        raise NotAllowed(f"The account or token of {row.requested_by} is not in force.")
    if patterns_json(found) != patterns_json_of(row):
        raise NotAllowed(f"{row.requested_by} is limited to other addresses than when the report was asked for.")
    return found


def patterns_json_of(row: RequestedReport) -> str:
    """Return what who asked for a report was limited to."""
    return patterns_json(Principal("", SYSTEM.role, frozenset(), tuple(tuple(some) for some in row.patterns)))


def _begin(row: RequestedReport, asked: AskedReport, principal: Principal) -> _Place:
    """Return the place from which a report is read, from its beginning; what was read before is no more."""
    files.remove(row.id)
    files.make_directory(row.id)
    days = [day.isoformat() for day in archived_days(asked)]
    first, last = 0, row.cut_off
    with bounded(SECONDS):
        where = live_where(asked, principal)
        if where.times:
            bounds = id_bounds(where.times)
            if not bounds.elsewhere:
                first, last = max(bounds.first - 1, 0), min(bounds.last, row.cut_off)
    row.total = max(last - first, 1) + sum(_weight(one) for one in days)
    row.done = 0
    # What is read whole has one wave, also of no messages.
    is_whole = asked.of_kind.grain is Grain.POISON
    return _Place(-1 if is_whole else first, 0 if is_whole else last, days, archive_version())


def _weight(_day: str) -> int:
    # Of the bar of progress: a day of the archive is read about as fast as so many ids.
    return 100_000


def _read_wave(row: RequestedReport, asked: AskedReport, principal: Principal, place: _Place, collect: Collect) -> None:
    if place.after < place.until:
        _read_live(row, asked, principal, place, collect)
        return
    day = place.days.pop(0)
    archived = archived_on(date.fromisoformat(day), asked, principal)
    _keep(row, place, collect(Reading(asked, archived=archived)))
    row.done += _weight(day)


def _read_live(row: RequestedReport, asked: AskedReport, principal: Principal, place: _Place, collect: Collect) -> None:
    if asked.of_kind.grain is Grain.POISON:
        until, ranges = place.until, []
    else:
        messages = RANGE_PAYLOADS if asked.shows_payload else RANGE_MESSAGES
        ranges = next_ranges(place.after, place.until, messages=messages, most=RANGES_A_WAVE)
        until = ranges[-1].until
    with bounded(SECONDS):
        statements = range_statements(asked, principal, ranges)
    _keep(row, place, collect(Reading(asked, statements)))
    row.done += until - max(place.after, 0)
    place.after = until


def _keep(row: RequestedReport, place: _Place, found: Any) -> None:
    """Write the rows of a wave as a part, whole or not at all."""
    if not found.num_rows:
        return
    write_part(row.id, place.parts, found)
    place.parts += 1


def _store(row: RequestedReport, place: _Place) -> bool:
    """Write down how far the report is; return whether it is still wanted."""
    with connection.cursor() as cursor:
        cursor.execute(_STORE, [json.dumps(vars(place)), row.done, row.total, row.id])
        return bool(cursor.rowcount)


def _cancelled(row: RequestedReport, job_id: int) -> bool:
    making = _being_made.pop(row.id, None)
    if making is not None:
        making.give_up()
    files.remove(row.id)
    worker_runs.cancel(job_id)
    return True


def _go_on_writing(
    row: RequestedReport, job_id: int, asked: AskedReport, place: _Place, must_pause: Callable[[], bool]
) -> bool:
    """Go on with the file, and end the report when it is whole."""
    making = _being_made.setdefault(row.id, _Making(make_file(row.id, asked, place.parts)))
    try:
        for rows in making.file:
            making.rows = rows
            if must_pause():
                if not _store(row, place):
                    return _cancelled(row, job_id)
                phase = f"writing the file: {making.rows:,} rows"
                worker_runs.move(job_id, phase=phase, done=row.done, total=row.total)
                return True
    except BaseException:
        _being_made.pop(row.id, None)
        raise
    _being_made.pop(row.id, None)
    return _finish(row, job_id, asked, making.rows)


def _finish(row: RequestedReport, job_id: int, asked: AskedReport, rows: int) -> bool:
    """Let the report be ready, in one transaction with what says so to others; the parts go when that stands."""
    path = files.file_of(row.id, asked.format)
    sha256, size = files.sha256_of(path), path.stat().st_size
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_READY, [rows, size, sha256, row.id])
        if cursor.rowcount:
            details = {"rows": rows, "bytes": size, "sha256": sha256, "columns": list(asked.columns)}
            audit.record(row.requested_by, "report.made", "report", str(row.id), details=details)
            worker_runs.succeed(job_id, counts={"rows": rows}, done=row.total)
            note_ready(row.id)
    if not cursor.rowcount:
        return _cancelled(row, job_id)
    files.remove_parts(row.id)
    return True


def _end(row: RequestedReport, job_id: int, error: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_FAIL, [error[:4000], row.id])
    _being_made.pop(row.id, None)
    files.remove(row.id)
    worker_runs.fail(job_id, error=error)
