"""The work of reports, a wave at a time: rows into parts, then the parts into the file.

How far a report is stands in its run, and what is read in its parts, so a worker that is cut off is followed by another
one. A part is whole when it has its name, and it is read again when the run does not count it. The file is made of the
parts from the beginning; a worker that is ended meanwhile begins with that again, and reads nothing twice.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

from django.db import transaction

from poisonadmin.archive.commands.ownership import ForeignArchive, require_own_archive
from poisonadmin.core.commands import audit
from poisonadmin.core.commands.authentication import principal_of_account
from poisonadmin.core.commands.locks import shared
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Principal
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import bounded, fetch_values
from poisonadmin.messages.queries.id_ranges import next_ranges
from poisonadmin.reports.commands import files
from poisonadmin.reports.commands.parts import make_file, write_part
from poisonadmin.reports.commands.requests import FILE_KEPT, REPORT
from poisonadmin.reports.commands.saved import note_ready
from poisonadmin.reports.domain.asked import AskedReport, from_json
from poisonadmin.reports.domain.kinds import Grain
from poisonadmin.reports.domain.reading import Reading
from poisonadmin.reports.queries.archived import archive_version, archived_days, archived_on
from poisonadmin.reports.queries.live import as_may_be_read, live_where, range_statements
from poisonadmin.reports.queries.rows import SECONDS, require_export
from poisonadmin.runs.commands.engine import RunTurn, RunWork
from poisonadmin.runs.queries.runs import StoredRun
from poisonadmin.search.queries.id_bounds import id_bounds
from poisonadmin.store.models.run import LongRun

Collect = Callable[[Reading], Any]
"""Reads a wave and returns it as an Arrow table. Passed in: what reads (workers) imports this package."""

RANGE_MESSAGES = 10_000
# A payload's beginning is so much larger than a row.
RANGE_PAYLOADS = 1_000
RANGES_A_WAVE = 16
_OPEN = "SELECT coalesce(former_id, id) FROM run WHERE ended_at IS NULL AND coalesce(former_id, id) = ANY(%s)"
# Of the bar of progress: a day of the archive is read about as fast as so many ids.
_IDS_A_DAY = 100_000


@dataclass
class _Position:
    """The position of a report: live messages up to the id `after`, then `days` of the archive; `parts` so far."""

    after: int
    until: int
    days: list[str]
    archive: str
    parts: int = 0

    @property
    def is_read(self) -> bool:
        return self.after >= self.until and not self.days


# Files that are being made, by run. They end with this process, and are begun again from the parts.
_being_made: dict[int, "_Making"] = {}


@dataclass
class _Making:
    """A file that is being made of the parts of a position, and how many rows of it are written."""

    file: Iterator[int]
    position: _Position
    rows: int = 0


def work(collect: Collect) -> RunWork:
    """Return the work of reports."""
    return RunWork(REPORT, partial(_carry_out, collect), clean_up=_clean_up)


def give_up_ended() -> None:
    """Let go of the files of reports that were ended while they were made, and of drafts on this machine."""
    if _being_made:
        ids = list(_being_made)
        still_open = LongRun.objects.filter(id__in=ids, ended_at=None).values_list("id", flat=True)
        for run_id in set(ids) - set(still_open):
            _give_up(run_id)
    if drafts := files.with_drafts():
        for report_id in set(drafts) - set(fetch_values(_OPEN, [drafts])):
            files.remove_drafts(report_id)


def _give_up(run_id: int) -> None:
    making = _being_made.pop(run_id, None)
    if making is not None:
        making.file.close()  # type: ignore[attr-defined]


def _clean_up(turn: RunTurn) -> None:
    _give_up(turn.run.run_id)
    # Where the archive does not answer the run ends all the same: what is left goes with what has expired.
    with suppress(ForeignArchive, OSError):
        require_own_archive()
        files.remove(turn.run.id)


def _carry_out(collect: Collect, turn: RunTurn) -> None:
    asked, principal = from_json(turn.run.params["asked"]), _acting(turn.run)
    require_export(asked, principal)
    asked = as_may_be_read(asked, principal)
    position = _Position(**turn.run.position) if turn.run.position else None
    while position is None or not position.is_read:
        # Between one look at the archive and the reading of its rows, or of those that are not there, nothing moves.
        with shared(Lock.TABLES) as may_read:
            if not may_read:
                turn.report("waiting for the archive")
                return
            if position is None or position.archive != archive_version():
                position = _begin(turn, asked, principal)
            done = turn.run.done
            if not position.is_read:
                done += _read_wave(turn, asked, principal, position, collect)
        turn.store(position=vars(position), phase=REPORT.first_phase, done=done)
        if turn.must_pause():
            return
    _go_on_writing(turn, asked, position)


def _acting(run: StoredRun) -> Principal:
    """Return who requested it, with the rights of now. Errors: `NotAllowed`, also where the scope has changed since."""
    found = principal_of_account(run.account) if run.account else SYSTEM
    if found is None:
        raise NotAllowed(f"The account or token of {run.requested_by} is not in force.")
    if [list(some) for some in found.patterns] != run.patterns:
        raise NotAllowed(f"{run.requested_by} is limited to other addresses than when the report was asked for.")
    return found


def _begin(turn: RunTurn, asked: AskedReport, principal: Principal) -> _Position:
    """Return the position from which a report is read, at its beginning; what was read before is no more."""
    require_own_archive()
    files.remove(turn.run.id)
    days = [day.isoformat() for day in archived_days(asked)]
    first, last = 0, turn.run.params["cut_off"]
    with bounded(SECONDS):
        where = live_where(asked, principal)
        if where.times:
            bounds = id_bounds(where.times)
            if not bounds.elsewhere:
                first, last = max(bounds.first - 1, 0), min(bounds.last, last)
    turn.store(done=0, total=max(last - first, 1) + len(days) * _IDS_A_DAY)
    # What is read whole has one wave, also of no messages.
    is_whole = asked.of_kind.grain is Grain.POISON
    return _Position(-1 if is_whole else first, 0 if is_whole else last, days, archive_version())


def _read_wave(turn: RunTurn, asked: AskedReport, principal: Principal, position: _Position, collect: Collect) -> int:
    """Read a wave into a part, and move the position; return how much of the total is done with it."""
    if position.after < position.until:
        return _read_live(turn, asked, principal, position, collect)
    archived = archived_on(date.fromisoformat(position.days.pop(0)), asked, principal)
    _keep(turn, position, collect(Reading(asked, archived=archived)))
    return _IDS_A_DAY


def _read_live(turn: RunTurn, asked: AskedReport, principal: Principal, position: _Position, collect: Collect) -> int:
    if asked.of_kind.grain is Grain.POISON:
        until, ranges = position.until, []
    else:
        messages = RANGE_PAYLOADS if asked.shows_payload else RANGE_MESSAGES
        ranges = next_ranges(position.after, position.until, messages=messages, most=RANGES_A_WAVE)
        until = ranges[-1].until
    with bounded(SECONDS):
        statements = range_statements(asked, principal, ranges)
    _keep(turn, position, collect(Reading(asked, statements)))
    read = until - max(position.after, 0)
    position.after = until
    return read


def _keep(turn: RunTurn, position: _Position, found: Any) -> None:
    """Write the rows of a wave as a part, whole or not at all."""
    if found.num_rows:
        _put(turn, write_part(turn.run.id, position.parts, found))
        position.parts += 1


def _put(turn: RunTurn, draft: Path) -> None:
    """Put a draft in its place, unless another worker has the report by now. Errors: `TurnEnded`."""
    turn.store()
    files.put(turn.run.id, draft)


def _go_on_writing(turn: RunTurn, asked: AskedReport, position: _Position) -> None:
    """Go on with the file, and end the report when it is whole."""
    run = turn.run
    making = _being_made.get(run.run_id)
    if making is None or making.position != position:
        # Another worker has begun the report anew meanwhile, and its parts are others.
        _give_up(run.run_id)
        making = _being_made[run.run_id] = _Making(make_file(run.id, asked, position.parts), position)
    try:
        for rows in making.file:
            making.rows = rows
            if turn.must_pause():
                turn.store(phase=f"writing the file: {rows:,} rows")
                return
    except BaseException:
        _being_made.pop(run.run_id, None)
        raise
    _being_made.pop(run.run_id, None)
    _put(turn, files.draft_of(run.id, files.name_of(asked.format)))
    _finish(turn, asked, making.rows)


def _finish(turn: RunTurn, asked: AskedReport, rows: int) -> None:
    """End the report, in one transaction with what says so to others; the parts go when that stands."""
    run = turn.run
    content = files.content_of(run.id, asked.format)
    made = {"rows": rows, "bytes": content.size_bytes, "sha256": files.sha256_of(content)}
    file_until = datetime.now(UTC) + FILE_KEPT
    with transaction.atomic():
        turn.finish({**made, "file_until": file_until.isoformat(timespec="seconds")}, done=run.total)
        details = {**made, "columns": list(asked.columns)}
        audit.record(run.requested_by, "report.made", "report", str(run.id), details=details)
        note_ready(run.id)
    files.remove_parts(run.id)
