"""Runs of the archive, done piece by piece by whoever can (Spark).

A piece is planned, written to files by a task, read back, and pruned (pruning.py). How far a run is stands in its rows,
so that it goes on after any crash: what was not noted is written again under another name, and the files that nobody
noted are removed at the end.
"""

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from django.conf import settings
from django.db import transaction
from django.db.models import Max, Q, QuerySet
from django.db.models.functions import Now

from poisonadmin.archive.commands import payloads
from poisonadmin.archive.commands.dry_runs import count_some
from poisonadmin.archive.commands.figures import forget_figures, roll_up_failures
from poisonadmin.archive.commands.holds import note_held
from poisonadmin.archive.commands.left_out import remove_copies
from poisonadmin.archive.commands.leftovers import forget_words
from poisonadmin.archive.commands.manifest import manifest, totals_of
from poisonadmin.archive.commands.pruning import PieceChanged, prune
from poisonadmin.archive.commands.rewriting import FileStore
from poisonadmin.archive.domain.pieces import PieceOrder, WriteOrder, WrittenPiece
from poisonadmin.archive.domain.runs import ArchiveRunState, PieceState
from poisonadmin.core.commands.locks import retried
from poisonadmin.core.domain.archive_place import manifest_path, run_directory
from poisonadmin.messages.queries.id_ranges import next_ranges
from poisonadmin.runs.commands import worker_runs
from poisonadmin.runs.commands.job_work import SECONDS_AFTER_ERROR, TURN_SECONDS, job_of, working_on
from poisonadmin.runs.commands.worker_runs import RunHeartbeat
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.store.models.archive import ArchiveFile, ArchivePiece, ArchiveRun
from poisonadmin.store.models.regrouping import Regrouping

PIECE_MESSAGES = 25_000
PIECES_A_WAVE = 4
_PHASE = "archiving"
_PAYLOADS_A_STEP = 10_000


class ArchiveStore(FileStore, Protocol):
    """The store of the archive's files."""

    def write(self, order: WriteOrder, pieces: Sequence[PieceOrder]) -> Mapping[int, WrittenPiece]:
        """Write the pieces and read them back."""

    def listed(self, directory: str) -> list[str]:
        """Return the paths of all files below a directory of the archive."""


def is_any_due() -> bool:
    """Return whether a run is asked for and does not wait: one query, for who looks often."""
    return _due().exists()


def _due() -> QuerySet[ArchiveRun]:
    return ArchiveRun.objects.filter(Q(waits_until=None) | Q(waits_until__lte=Now()), ended_at=None)


def archive_due(
    store: ArchiveStore,
    *,
    worker: str,
    heartbeat: RunHeartbeat | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
    seconds: float = TURN_SECONDS,
) -> None:
    """Go on with the run that is asked for, for about `seconds`. Call under `single_flight(Tick.ARCHIVE)`.

    While failures are regrouped it waits: what is noted of a failure in the database does not hold in a file.
    """
    if Regrouping.objects.filter(finished_at=None).exists():
        return
    run = _due().first()
    if run is None:
        return
    until = time.monotonic() + seconds
    params = {"archive_run": run.id, "dry_run": run.is_dry_run}
    job_id = job_of(run, KindName.ARCHIVE, worker=worker, params=params, phase=_PHASE, total=run.cut_off)
    with working_on(job_id, fail=partial(_fail, run, job_id), heartbeat=heartbeat, is_stopping=is_stopping):
        _Turn(run, job_id, store, lambda: is_stopping() or time.monotonic() >= until).go_on()


def _fail(run: ArchiveRun, job_id: int, error: str) -> None:
    worker_runs.fail(job_id, error=error)
    ArchiveRun.objects.filter(id=run.id).update(
        waits_until=Now() + timedelta(seconds=SECONDS_AFTER_ERROR), error=error[:4000]
    )


class _Turn:
    """A worker's part of a run, until it must pause."""

    def __init__(self, run: ArchiveRun, job_id: int, store: ArchiveStore, must_pause: Callable[[], bool]) -> None:
        self._run = run
        self._job_id = job_id
        self._store = store
        self._must_pause = must_pause
        self._cutoffs = json.dumps(run.cutoffs)

    def go_on(self) -> None:
        """Remove payloads, and write and prune pieces, until the run is over."""
        while not self._must_pause():
            if ArchiveRun.objects.filter(id=self._run.id, is_cancelling=True).exists():
                self._drop_written()
                self._end(ArchiveRunState.CANCELLED)
                return
            is_over = count_some(self._run) if self._run.is_dry_run else self._step()
            if is_over is None:
                return
            worker_runs.move(self._job_id, phase=_PHASE, done=self._run.planned, total=self._run.cut_off)
            if is_over:
                self._finish()
                return

    def _step(self) -> bool | None:
        """Do some of it; return whether nothing is left, and None when somebody reads the tables just now.

        Payloads of live messages go first, so that no file gets them; those in files go last.
        """
        has_payloads = payloads.removes_payloads(self._run)
        if has_payloads and self._run.live_payloads < self._run.cut_off:
            reached = self._run.live_payloads
            for one in next_ranges(reached, self._run.cut_off, messages=_PAYLOADS_A_STEP, most=1):
                retried(partial(payloads.remove_live, self._run, one))
            return False
        written, planned = self._pieces(PieceState.WRITTEN), self._pieces(PieceState.PLANNED)
        # Not ever more while somebody reads the tables.
        if not planned and len(written) <= PIECES_A_WAVE:
            planned = self._plan()
        if written or planned:
            return False if self._archive(written, planned) else None
        if not has_payloads:
            return True
        if payloads.next_window(self._run) is None:
            return remove_copies(self._store, self._must_pause)
        return False if payloads.remove_archived(self._run, self._store, self._must_pause) else None

    def _pieces(self, state: PieceState) -> list[ArchivePiece]:
        return list(ArchivePiece.objects.filter(run=self._run, state=state).order_by("number"))

    def _plan(self) -> list[ArchivePiece]:
        ranges = next_ranges(self._run.planned, self._run.cut_off, messages=PIECE_MESSAGES, most=PIECES_A_WAVE)
        if not ranges:
            return []
        last = ArchivePiece.objects.filter(run=self._run).aggregate(last=Max("number"))["last"]
        first = 0 if last is None else last + 1
        with transaction.atomic():
            planned = [
                ArchivePiece.objects.create(run=self._run, number=first + n, after_id=one.after, until_id=one.until)
                for n, one in enumerate(ranges)
            ]
            ArchiveRun.objects.filter(id=self._run.id).update(planned=ranges[-1].until)
        self._run.planned = ranges[-1].until
        return planned

    def _archive(self, written: Sequence[ArchivePiece], planned: Sequence[ArchivePiece]) -> bool:
        """Prune what is written while the next pieces are; return False when somebody reads the tables just now."""
        held_by = {}
        for piece in planned:
            with transaction.atomic():
                held_by[piece.id] = note_held(piece.after_id, piece.until_id)
        order = WriteOrder(settings.ARCHIVE, self._run.id, self._cutoffs)
        # Also a task of a worker that is gone may still write: no two tries have one name.
        asked = [
            PieceOrder(piece.id, piece.after_id, piece.until_id, f"{piece.number}-{secrets.token_hex(4)}")
            for piece in planned
        ]
        with ThreadPoolExecutor(1) as beside:
            writing = beside.submit(self._store.write, order, asked)
            is_pruned = all(self._prune(piece) for piece in written)
        for piece_id, found in writing.result().items():
            _note(self._run, piece_id, found, held_by[piece_id])
        return is_pruned

    def _prune(self, piece: ArchivePiece) -> bool:
        try:
            return retried(partial(prune, piece, self._cutoffs))
        except PieceChanged:
            self._forget_files(piece)
            return True

    def _forget_files(self, piece: ArchivePiece) -> None:
        """Have a piece that has changed meanwhile written anew."""
        paths = list(ArchiveFile.objects.filter(piece=piece).values_list("path", flat=True))
        with transaction.atomic():
            ArchivePiece.objects.filter(id=piece.id, state=PieceState.WRITTEN).update(state=PieceState.PLANNED)
            ArchiveFile.objects.filter(piece=piece, is_current=False).delete()
        self._store.remove(paths)

    def _drop_written(self) -> None:
        for piece in self._pieces(PieceState.WRITTEN):
            self._forget_files(piece)

    def _finish(self) -> None:
        if not self._run.is_dry_run:
            forget_words()
            roll_up_failures()
            forget_figures()
            self._store.put(manifest_path(self._run.id), json.dumps(manifest(self._run), indent=1).encode())
            self._sweep()
        self._end(ArchiveRunState.DONE)

    def _sweep(self) -> None:
        """Remove what earlier tries left."""
        known = set(ArchiveFile.objects.filter(run=self._run).values_list("path", flat=True))
        known.add(manifest_path(self._run.id))
        self._store.remove(path for path in self._store.listed(run_directory(self._run.id)) if path not in known)

    def _end(self, state: ArchiveRunState) -> None:
        totals = self._run.totals if self._run.is_dry_run else totals_of(self._run.id)
        with transaction.atomic():
            ArchivePiece.objects.filter(run=self._run, state=PieceState.PLANNED).update(state=PieceState.EMPTY)
            ArchiveRun.objects.filter(id=self._run.id).update(state=state, ended_at=Now(), totals=totals, error=None)
            if state is ArchiveRunState.CANCELLED:
                worker_runs.cancel(self._job_id)
            else:
                worker_runs.succeed(self._job_id, counts=self._counts(totals), done=self._run.planned)

    def _counts(self, totals: Mapping[str, Any]) -> dict[str, int]:
        if self._run.is_dry_run:
            return {
                "messages": sum(sum(states.values()) for states in totals.get("addresses", {}).values()),
                "payloads": sum(totals.get("payloads", {}).values()),
            }
        removed = ArchiveRun.objects.values_list("payloads_removed", flat=True).get(id=self._run.id)
        return {table: sums["rows"] for table, sums in totals.items()} | {"payloads_removed": removed}


def _note(run: ArchiveRun, piece_id: int, written: WrittenPiece, held_by: Sequence[int]) -> None:
    """Note the files of a piece, and what the database had of it."""
    state = PieceState.WRITTEN if written.files else PieceState.EMPTY
    with transaction.atomic():
        changed = ArchivePiece.objects.filter(id=piece_id, state=PieceState.PLANNED).update(
            state=state, rows=written.versions, held_by=list(held_by)
        )
        if changed:
            ArchiveFile.objects.bulk_create(
                ArchiveFile(
                    run=run,
                    piece_id=piece_id,
                    table_name=file.table,
                    path=file.path,
                    day=file.day,
                    root=file.root,
                    rows=file.rows,
                    bytes=file.bytes,
                    sha256=file.sha256,
                    rows_sha256=file.rows_sha256,
                    first_id=file.first_id,
                    last_id=file.last_id,
                )
                for file in written.files
            )
