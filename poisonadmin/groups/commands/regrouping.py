"""Regrouping: all stored failures get the fingerprints that the rules of this version make of them.

Spark counts which failures change, a wave at a time; then what becomes of the groups is decided at once; then failures
move, some messages at a time. It goes on after any crash, and deliveries go on beside it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from django.db import connection, transaction
from django.db.models import Max

from poisonadmin.archive.domain.pieces import PieceState
from poisonadmin.core.commands import locks
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.groups.commands.regroup_groups import NOTHING_READ, decide_on_groups
from poisonadmin.groups.commands.regroup_moves import bring_along, give_aliases, move_failures
from poisonadmin.groups.domain.regroup_plan import FailureMove, RegroupedFailure
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.messages.queries.archived_index import files_of_pieces
from poisonadmin.messages.queries.id_ranges import next_ranges
from poisonadmin.runs.commands.engine import RunTurn, RunWork
from poisonadmin.runs.commands.requests import request_run
from poisonadmin.runs.domain.kinds import KindName, RunKind
from poisonadmin.runs.queries.runs import StoredRun
from poisonadmin.store.models.archive import ArchivePiece
from poisonadmin.store.models.message import Message

# `params`: `cut_off`, the last message that is regrouped. `position`: `surveyed` and `archive_surveyed`, the last
# message and piece of the archive whose failures have been counted (RegroupMove); `is_decided`: all have been, and what
# becomes of the groups is decided (groups/domain/regroup_plan.py); `moved_until` and `archive_moved`, the last message
# and piece whose failures have their fingerprints. `result`: failures `read` and `changed`; until the end also
# `dissolved`, groups with those that have their failures from then on, and `former`, groups that stand for fingerprints
# that no group has any more. A turn of the archive never goes on beside one of these: it moves messages.
REGROUPING = RunKind(
    KindName.REGROUP,
    noun="regrouping",
    audited_as="regrouping.{}",
    audited_object="regrouping",
    first_phase="reading failures",
    cancelled_by=None,
    max_tries=None,
    resumes_after=timedelta(minutes=1),
    alone_with="archive",
)


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


def request_regrouping(*, actor: str) -> StoredRun:
    """Have all failures grouped anew; return the regrouping that is under way, where there is one."""
    params = {"cut_off": Message.objects.aggregate(last=Max("id"))["last"] or 0}
    return request_run(REGROUPING, params, principal=replace(SYSTEM, name=actor), reuse={})


def work(failures: FailureReader) -> RunWork:
    """Return the work of regroupings."""
    return RunWork(REGROUPING, lambda turn: _RegroupingTurn(turn, failures).go_on())


class _RegroupingTurn:
    """A worker's turn with a regrouping: steps that return whether they are at their end, or must pause."""

    def __init__(self, turn: RunTurn, failures: FailureReader) -> None:
        self._turn = turn
        self._failures = failures
        self._cut_off: int = turn.run.params["cut_off"]

    def go_on(self) -> None:
        """Take step after step, each from where it was left."""
        if all(step() for step in (self.survey, self.decide, self.move, self.move_archived)):
            result = self._result
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(_REMOVE_FORMER, [result["former"]])
                cursor.execute("DELETE FROM regroup_move")
                self._turn.finish({name: result[name] for name in NOTHING_READ}, done=result["changed"])

    @property
    def _result(self) -> Mapping[str, Any]:
        return self._turn.run.result or NOTHING_READ

    @property
    def _is_decided(self) -> bool:
        return bool(self._turn.run.position.get("is_decided"))

    def _reached(self, progress: str) -> int:
        reached: int = self._turn.run.position.get(progress, 0)
        return reached

    def survey(self) -> bool:
        """Count which failures change, live and archived."""
        if self._is_decided:
            return True
        while (surveyed := self._reached("surveyed")) < self._cut_off:
            if self._turn.must_pause():
                return False
            ranges = next_ranges(surveyed, self._cut_off, messages=RANGE_MESSAGES, most=RANGES_A_WAVE)
            self._note(self._failures.survey(ranges), surveyed=ranges[-1].until)
        return self._each_piece("archive_surveyed", self._survey_piece)

    def _survey_piece(self, piece_id: int, files: Sequence[str]) -> None:
        self._note(self._failures.survey((), files), is_archived=True, archive_surveyed=piece_id)

    def _note(self, moves: Sequence[FailureMove], *, is_archived: bool = False, **progress: int) -> None:
        read = self._result["read"] + sum(one.n for one in moves)
        changed = self._result["changed"] + sum(one.n for one in moves if one.was != one.fingerprint)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.executemany(_NOTE, [(is_archived, *one) for one in sorted(moves, key=lambda one: one.message_id)])
            self._advance(result={"read": read, "changed": changed}, done=read, **progress)

    def decide(self) -> bool:
        """Decide what becomes of the groups."""
        if not self._is_decided:
            self._turn.report("deciding on groups")
            decide_on_groups(self._turn)
        return True

    def move(self) -> bool:
        """Move live failures and their messages."""
        self._turn.report("moving failures")
        for dissolved, stays in self._dissolved.items():
            while bring_along(dissolved, stays):
                if self._turn.must_pause():
                    return False
        while (moved_until := self._reached("moved_until")) < self._cut_off:
            ranges = next_ranges(moved_until, self._cut_off, messages=MOVED_RANGE_MESSAGES, most=MOVED_RANGES_A_WAVE)
            for moved in move_failures(self._failures.changes(ranges)):
                self._turn.store(done=self._turn.run.done + moved)
                if self._turn.must_pause():
                    return False
            self._advance(moved_until=ranges[-1].until)
        return True

    def move_archived(self) -> bool:
        """Give aliases to archived failures that differ from most others of their former fingerprint."""
        self._turn.report("moving archived failures")
        is_split = fetch_values(_IS_SPLIT)[0]
        return not (is_split or self._dissolved) or self._each_piece(
            "archive_moved", partial(self._move_piece, is_split=is_split)
        )

    def _move_piece(self, piece_id: int, files: Sequence[str], *, is_split: bool) -> None:
        if is_split:
            give_aliases(self._failures.changes((), files))
        dissolved = self._dissolved
        with connection.cursor() as cursor:
            cursor.execute(_BRING_ARCHIVED, [list(dissolved), list(dissolved.values()), piece_id])
        self._advance(archive_moved=piece_id)

    @property
    def _dissolved(self) -> dict[int, int]:
        return {int(group): stays for group, stays in self._result["dissolved"].items()}

    def _each_piece(self, progress: str, work: Callable[[int, Sequence[str]], None]) -> bool:
        """Do the work for each piece of the archive that is left, with its files of attempts, while nobody writes."""
        left = {"state": PieceState.ARCHIVED, "id__gt": self._reached(progress)}
        with locks.shared(Lock.TABLES) as is_shared:
            for piece_id in ArchivePiece.objects.filter(**left).order_by("id").values_list("id", flat=True):
                if self._turn.must_pause() or not is_shared:
                    return False
                work(piece_id, files_of_pieces([piece_id], "attempts"))
        return True

    def _advance(self, *, result: dict[str, int] | None = None, done: int | None = None, **progress: int) -> None:
        self._turn.store(position={**self._turn.run.position, **progress}, result=result, done=done)
