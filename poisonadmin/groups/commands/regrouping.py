"""Regrouping: all stored failures get the fingerprints that the rules of this version make of them.

Whoever can (Spark) notes which failures change, a wave at a time; then what becomes of the groups is decided at once;
then failures move, some messages at a time. How far it is stands in its row, so it goes on after any crash, and
deliveries go on beside it.
"""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Protocol

from django.db import connection, transaction
from django.db.models import F, Max, Q, QuerySet
from django.db.models.functions import Now

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.groups.commands.regroup_groups import decide_on_groups
from poisonadmin.groups.commands.regroup_pieces import bring_along, move_piece
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.messages.queries.id_ranges import next_ranges
from poisonadmin.runs.commands import worker_runs
from poisonadmin.runs.commands.job_work import SECONDS_AFTER_ERROR, TURN_SECONDS, job_of, working_on
from poisonadmin.runs.commands.worker_runs import RunHeartbeat
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.regrouping import Regrouping

MustPause = Callable[[], bool]
Survey = Callable[[int, Sequence[IdRange]], tuple[int, int]]
"""Notes what changes in some ranges, for the regrouping of this id; returns how many failures were read, and how many
change. Passed in: what surveys (workers) imports this package."""


class ArchivedFailures(Protocol):
    """Failures in the files of the archive. Passed in: what keeps them (archive.commands) imports this module."""

    def survey(self, run: Regrouping, must_pause: MustPause) -> bool:
        """Note what changes in the archive; return False when it paused before the end."""

    def move(self, must_pause: MustPause) -> bool:
        """Give archived failures the fingerprints that are noted; return False when it paused before the end."""


RANGE_MESSAGES = 25_000
RANGES_A_WAVE = 16
_FIRST_PHASE = "reading failures"

_LEFT = "SELECT count(*) FROM regrouped_attempt"
# A group that stood for a former fingerprint goes when nothing has it: no failure, and no message of one since.
_REMOVE_FORMER = """
DELETE FROM failure_group g WHERE id = ANY(%s) AND failures = 0
AND NOT EXISTS (SELECT FROM attempt WHERE fingerprint = g.fingerprint AND outcome <> 'delivered')
AND NOT EXISTS (SELECT FROM message WHERE group_id = g.id)
"""


def request_regrouping(*, actor: str) -> Regrouping:
    """Have all failures grouped anew; return the regrouping that is under way, where there is one."""
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)
        under_way = Regrouping.objects.filter(finished_at=None).first()
        if under_way is not None:
            return under_way
        made = Regrouping.objects.create(
            cut_off=Message.objects.aggregate(last=Max("id"))["last"] or 0, requested_by=actor
        )
        audit.record(actor, "regrouping.requested", "regrouping", str(made.id))
    made.refresh_from_db()
    return made


def is_any_due() -> bool:
    """Return whether a regrouping is asked for and does not wait: one query, for who looks often."""
    return _due().exists()


def _due() -> QuerySet[Regrouping]:
    return Regrouping.objects.filter(Q(waits_until=None) | Q(waits_until__lte=Now()), finished_at=None)


def regroup_due(
    survey: Survey,
    *,
    archived: ArchivedFailures | None = None,
    worker: str,
    heartbeat: RunHeartbeat | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
    seconds: float = TURN_SECONDS,
) -> None:
    """Go on with the regrouping that is asked for, for about `seconds`. Call under `single_flight(Tick.REGROUP)`."""
    run = _due().first()
    if run is None:
        return
    until = time.monotonic() + seconds
    job_id = job_of(run, KindName.REGROUP, worker=worker, params={"regrouping": run.id}, phase=_FIRST_PHASE)
    with working_on(job_id, fail=partial(_fail, run, job_id), heartbeat=heartbeat, is_stopping=is_stopping):
        _go_on(run, job_id, survey, archived, lambda: is_stopping() or time.monotonic() >= until)


def _go_on(
    run: Regrouping, job_id: int, survey: Survey, archived: ArchivedFailures | None, must_pause: MustPause
) -> None:
    while run.planned_at is None:
        if must_pause():
            return
        if run.surveyed >= run.cut_off:
            if archived is not None and not archived.survey(run, must_pause):
                return
            worker_runs.move(job_id, phase="deciding on groups")
            decide_on_groups(run.id)
        else:
            ranges = next_ranges(run.surveyed, run.cut_off, messages=RANGE_MESSAGES, most=RANGES_A_WAVE)
            read, changed = survey(run.id, ranges)
            Regrouping.objects.filter(id=run.id).update(
                surveyed=ranges[-1].until, read=F("read") + read, changed=F("changed") + changed
            )
            worker_runs.move(job_id, phase=_FIRST_PHASE, done=run.read + read)
        run.refresh_from_db()
    left = fetch_values(_LEFT)[0]
    while moved := move_piece():
        left -= moved
        worker_runs.move(job_id, phase="moving failures", done=run.changed - left, total=run.changed)
        if must_pause():
            return
    for dissolved, stays in run.dissolved.items():
        while bring_along(int(dissolved), stays):
            if must_pause():
                return
    worker_runs.move(job_id, phase="moving archived failures", total=run.changed)
    if archived is None or archived.move(must_pause):
        _finish(run, job_id)


def _finish(run: Regrouping, job_id: int) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_REMOVE_FORMER, [run.former])
        cursor.execute("DELETE FROM regroup_move")
        Regrouping.objects.filter(id=run.id).update(finished_at=Now())
        worker_runs.succeed(job_id, counts={"read": run.read, "changed": run.changed}, done=run.changed)


def _fail(run: Regrouping, job_id: int, error: str) -> None:
    worker_runs.fail(job_id, error=error)
    Regrouping.objects.filter(id=run.id).update(waits_until=Now() + timedelta(seconds=SECONDS_AFTER_ERROR))
