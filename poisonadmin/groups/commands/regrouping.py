"""Regrouping: all stored failures get the fingerprints that the rules of this version make of them.

Spark counts which failures change, a wave at a time; then what becomes of the groups is decided at once; then failures
move, some messages at a time. How far it is stands in its row, so it goes on after any crash, and deliveries go on
beside it.
"""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Protocol

from django.db import connection, transaction
from django.db.models import Max, Q, QuerySet
from django.db.models.functions import Now

from poisonadmin.archive.domain.runs import PieceState
from poisonadmin.core.commands import audit, locks
from poisonadmin.core.commands.locks import Tick
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.groups.commands.regroup_groups import decide_on_groups
from poisonadmin.groups.commands.regroup_moves import bring_along, give_aliases, move_failures
from poisonadmin.groups.domain.regroup_plan import FailureMove, RegroupedFailure
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.messages.queries.archived_index import files_of_pieces
from poisonadmin.messages.queries.id_ranges import next_ranges
from poisonadmin.runs.commands import worker_runs
from poisonadmin.runs.commands.job_work import SECONDS_AFTER_ERROR, TURN_SECONDS, job_of, working_on
from poisonadmin.runs.commands.worker_runs import RunHeartbeat
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.store.models.archive import ArchivePiece
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.regrouping import Regrouping

MustPause = Callable[[], bool]


class FailureReader(Protocol):
    """Reads failures of live messages by ranges, and of archived ones by files of `attempts`, and makes fingerprints
    of them. Passed in: what reads (workers) imports this package."""

    def survey(self, ranges: Sequence[IdRange], files: Sequence[str] = ()) -> Sequence[FailureMove]:
        """Return how many failures go from which fingerprint to which, or keep theirs."""

    def changes(self, ranges: Sequence[IdRange], files: Sequence[str] = ()) -> Sequence[RegroupedFailure]:
        """Return all failures of each message of which one is to have another fingerprint, a message at a time."""


RANGE_MESSAGES = 25_000
RANGES_A_WAVE = 16
# What moves is held in memory meanwhile.
MOVED_RANGE_MESSAGES = 5_000
MOVED_RANGES_A_WAVE = 4
_FIRST_PHASE = "reading failures"

_NOTE = """
INSERT INTO regroup_move (is_archived, was, fingerprint, n, title, error_class, message_id, attempt_number, finished_at,
                          last_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (was, fingerprint, is_archived) DO UPDATE SET
    n = regroup_move.n + excluded.n, last_at = GREATEST(regroup_move.last_at, excluded.last_at)
"""
# Whether archived failures of a former fingerprint go to others than most of its failures do.
_IS_SPLIT = """
SELECT EXISTS (
    SELECT FROM regroup_move AS one LEFT JOIN fingerprint_alias AS alias ON former = was AND alias.message_id IS NULL
    WHERE is_archived AND one.fingerprint <> coalesce(alias.fingerprint, was))
"""
_BRING_ARCHIVED = """
UPDATE archived_message SET group_id = one.into_id
FROM unnest(%s::bigint[], %s::bigint[]) AS one (id, into_id), archive_piece AS piece
WHERE group_id = one.id AND piece.id = %s AND archived_message.id > after_id AND archived_message.id <= until_id
"""
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
    failures: FailureReader,
    *,
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
        turn = _RegroupingTurn(run, job_id, failures, lambda: is_stopping() or time.monotonic() >= until)
        if all(step() for step in (turn.survey, turn.decide, turn.move, turn.move_archived)):
            _finish(run, job_id)


class _RegroupingTurn:
    """A worker's turn with a regrouping: steps that return whether they are at their end, or must pause."""

    def __init__(self, run: Regrouping, job_id: int, failures: FailureReader, must_pause: MustPause) -> None:
        self._run = run
        self._job_id = job_id
        self._failures = failures
        self._must_pause = must_pause

    def survey(self) -> bool:
        """Count which failures change, live and archived."""
        run = self._run
        while run.planned_at is None and run.surveyed < run.cut_off:
            if self._must_pause():
                return False
            ranges = next_ranges(run.surveyed, run.cut_off, messages=RANGE_MESSAGES, most=RANGES_A_WAVE)
            self._note(self._failures.survey(ranges), surveyed=ranges[-1].until)
        return run.planned_at is not None or self._each_piece("archive_surveyed", self._survey_piece)

    def _survey_piece(self, piece_id: int, files: Sequence[str]) -> None:
        self._note(self._failures.survey((), files), is_archived=True, archive_surveyed=piece_id)

    def _note(self, moves: Sequence[FailureMove], *, is_archived: bool = False, **progress: int) -> None:
        changed = sum(one.n for one in moves if one.was != one.fingerprint)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.executemany(_NOTE, [(is_archived, *one) for one in sorted(moves, key=lambda one: one.message_id)])
            self._advance(
                read=self._run.read + sum(one.n for one in moves), changed=self._run.changed + changed, **progress
            )
        worker_runs.move(self._job_id, phase=_FIRST_PHASE, done=self._run.read)

    def decide(self) -> bool:
        """Decide what becomes of the groups."""
        if self._run.planned_at is None:
            worker_runs.move(self._job_id, phase="deciding on groups")
            decide_on_groups(self._run.id)
            self._run.refresh_from_db()
        return True

    def move(self) -> bool:
        """Move live failures and their messages."""
        run = self._run
        for dissolved, stays in run.dissolved.items():
            while bring_along(int(dissolved), stays):
                if self._must_pause():
                    return False
        while run.moved_until < run.cut_off:
            ranges = next_ranges(run.moved_until, run.cut_off, messages=MOVED_RANGE_MESSAGES, most=MOVED_RANGES_A_WAVE)
            for moved in move_failures(self._failures.changes(ranges)):
                self._advance(moved=run.moved + moved)
                worker_runs.move(self._job_id, phase="moving failures", done=run.moved, total=run.changed)
                if self._must_pause():
                    return False
            self._advance(moved_until=ranges[-1].until)
        return True

    def move_archived(self) -> bool:
        """Give aliases to archived failures that differ from most others of their former fingerprint."""
        worker_runs.move(self._job_id, phase="moving archived failures", total=self._run.changed)
        is_split = fetch_values(_IS_SPLIT)[0]
        return not (is_split or self._run.dissolved) or self._each_piece(
            "archive_moved", partial(self._move_piece, is_split=is_split)
        )

    def _move_piece(self, piece_id: int, files: Sequence[str], *, is_split: bool) -> None:
        if is_split:
            give_aliases(self._failures.changes((), files))
        with connection.cursor() as cursor:
            cursor.execute(
                _BRING_ARCHIVED, [list(map(int, self._run.dissolved)), list(self._run.dissolved.values()), piece_id]
            )
        self._advance(archive_moved=piece_id)

    def _each_piece(self, progress: str, work: Callable[[int, Sequence[str]], None]) -> bool:
        """Do the work for each piece of the archive that is left, with its files of attempts, while nobody writes."""
        left = {"state": PieceState.ARCHIVED, "id__gt": getattr(self._run, progress)}
        # A turn of the archive that began before the regrouping was asked for still moves messages.
        with locks.single_flight(Tick.ARCHIVE) as alone, locks.shared(Lock.TABLES) as is_shared:
            for piece_id in ArchivePiece.objects.filter(**left).order_by("id").values_list("id", flat=True):
                if self._must_pause() or not (alone and is_shared):
                    return False
                work(piece_id, files_of_pieces([piece_id], "attempts"))
        return alone

    def _advance(self, **progress: int) -> None:
        Regrouping.objects.filter(id=self._run.id).update(**progress)
        vars(self._run).update(progress)


def _finish(run: Regrouping, job_id: int) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_REMOVE_FORMER, [run.former])
        cursor.execute("DELETE FROM regroup_move")
        Regrouping.objects.filter(id=run.id).update(finished_at=Now())
        worker_runs.succeed(job_id, counts={"read": run.read, "changed": run.changed}, done=run.changed)


def _fail(run: Regrouping, job_id: int, error: str) -> None:
    worker_runs.fail(job_id, error=error)
    Regrouping.objects.filter(id=run.id).update(waits_until=Now() + timedelta(seconds=SECONDS_AFTER_ERROR))
