"""Runs of the archive, done piece by piece by whoever can (Spark).

A piece is planned, written to files by a task, read back, and pruned (pruning.py). How far a run is stands in its rows,
so that it goes on after any crash: what was not noted is written again under another name, and the files that nobody
noted are removed at the end.
"""

import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from django.conf import settings
from django.db import transaction
from django.db.models import Max, Q
from django.db.models.functions import Now

from poisonadmin.archive.commands.holds import note_held
from poisonadmin.archive.commands.leftovers import forget_figures, forget_words
from poisonadmin.archive.commands.manifest import manifest, totals_of
from poisonadmin.archive.commands.pruning import PieceChanged, prune
from poisonadmin.archive.domain.chosen import CHOSEN
from poisonadmin.archive.domain.pieces import PieceOrder, WriteOrder, WrittenPiece
from poisonadmin.archive.domain.place import manifest_path, run_directory
from poisonadmin.archive.domain.runs import ArchiveRunState, PieceState
from poisonadmin.core.commands import jobs
from poisonadmin.core.commands.job_work import SECONDS_AFTER_ERROR, TURN_SECONDS, job_of, working_on
from poisonadmin.core.commands.jobs import JobHeartbeat
from poisonadmin.core.commands.transaction_retry import retried
from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.messages.queries.id_ranges import next_ranges
from poisonadmin.store.models.archive import ArchiveFile, ArchivePiece, ArchiveRun
from poisonadmin.store.models.job import JobKind
from poisonadmin.store.models.regrouping import Regrouping

PIECE_MESSAGES = 25_000
PIECES_A_WAVE = 4
_PHASE = "archiving"
_COUNT = f"""
SELECT a.name, m.state, count(*) {CHOSEN} GROUP BY 1, 2
"""


class ArchiveStore(Protocol):
    """What keeps the files. Passed in: what writes (workers) imports this package."""

    def write(self, order: WriteOrder, pieces: Sequence[PieceOrder]) -> Mapping[int, WrittenPiece]:
        """Write the pieces and read them back."""

    def put(self, path: str, content: bytes) -> None:
        """Put a small file, whole or not at all."""

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files, also such as are gone."""

    def listed(self, directory: str) -> list[str]:
        """Return the paths of all files below a directory of the archive."""


def archive_due(
    store: ArchiveStore,
    *,
    worker: str,
    keeper: JobHeartbeat | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
    seconds: float = TURN_SECONDS,
) -> None:
    """Go on with the run that is asked for, for about `seconds`. Call under `single_flight(Tick.ARCHIVE)`.

    While failures are regrouped it waits: what is noted of a failure in the database does not hold in a file.
    """
    if Regrouping.objects.filter(finished_at=None).exists():
        return
    run = ArchiveRun.objects.filter(Q(waits_until=None) | Q(waits_until__lte=Now()), ended_at=None).first()
    if run is None:
        return
    until = time.monotonic() + seconds
    params = {"archive_run": run.id, "dry_run": run.is_dry_run}
    job_id = job_of(run, JobKind.ARCHIVE, worker=worker, params=params, phase=_PHASE, total=run.cut_off)
    with working_on(job_id, fail=partial(_fail, run, job_id), keeper=keeper, is_stopping=is_stopping):
        _Turn(run, job_id, store, lambda: is_stopping() or time.monotonic() >= until).go_on()


def _fail(run: ArchiveRun, job_id: int, error: str) -> None:
    jobs.fail(job_id, error=error)
    ArchiveRun.objects.filter(id=run.id).update(
        waits_until=Now() + timedelta(seconds=SECONDS_AFTER_ERROR), error=error[:4000]
    )


class _Turn:
    """What a worker does of a run until it must pause."""

    def __init__(self, run: ArchiveRun, job_id: int, store: ArchiveStore, must_pause: Callable[[], bool]) -> None:
        self._run = run
        self._job_id = job_id
        self._store = store
        self._must_pause = must_pause
        self._cutoffs = json.dumps(run.cutoffs)

    def go_on(self) -> None:
        """Write and prune pieces until the run is over."""
        while not self._must_pause():
            if ArchiveRun.objects.filter(id=self._run.id, is_cancelling=True).exists():
                self._drop_written()
                self._end(ArchiveRunState.CANCELLED)
                return
            if self._run.is_dry_run:
                is_over = self._count_some()
            else:
                pieces = list(self._open_pieces()) or self._plan()
                is_over = not pieces
                if pieces and not self._archive(pieces):
                    return
            jobs.move(self._job_id, phase=_PHASE, done=self._run.planned, total=self._run.cut_off)
            if is_over:
                self._finish()
                return

    def _open_pieces(self) -> Iterable[ArchivePiece]:
        states = (PieceState.PLANNED, PieceState.WRITTEN)
        return ArchivePiece.objects.filter(run=self._run, state__in=states).order_by("number")

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

    def _archive(self, pieces: Sequence[ArchivePiece]) -> bool:
        """Archive the pieces, in a wave; return False when somebody reads the tables just now."""
        planned = [piece for piece in pieces if piece.state == PieceState.PLANNED]
        if planned:
            self._write(planned)
        for piece in ArchivePiece.objects.filter(id__in=[one.id for one in pieces], state=PieceState.WRITTEN):
            try:
                if not retried(partial(prune, piece, self._cutoffs)):
                    return False
            except PieceChanged:
                self._forget_files(piece)
        return True

    def _write(self, pieces: Sequence[ArchivePiece]) -> None:
        held_by = {}
        for piece in pieces:
            with transaction.atomic():
                held_by[piece.id] = note_held(piece.after_id, piece.until_id)
        order = WriteOrder(settings.ARCHIVE, self._run.id, self._cutoffs)
        # Also a task of a worker that is gone may still write: no two tries have one name.
        asked = [
            PieceOrder(piece.id, piece.after_id, piece.until_id, f"{piece.number}-{secrets.token_hex(4)}")
            for piece in pieces
        ]
        for piece_id, written in self._store.write(order, asked).items():
            _note(self._run, piece_id, written, held_by[piece_id])

    def _forget_files(self, piece: ArchivePiece) -> None:
        """Have a piece that has changed meanwhile written anew."""
        paths = list(ArchiveFile.objects.filter(piece=piece).values_list("path", flat=True))
        with transaction.atomic():
            ArchivePiece.objects.filter(id=piece.id, state=PieceState.WRITTEN).update(state=PieceState.PLANNED)
            ArchiveFile.objects.filter(piece=piece, is_current=False).delete()
        self._store.remove(paths)

    def _drop_written(self) -> None:
        for piece in ArchivePiece.objects.filter(run=self._run, state=PieceState.WRITTEN):
            self._forget_files(piece)

    def _count_some(self) -> bool:
        ranges = next_ranges(self._run.planned, self._run.cut_off, messages=PIECE_MESSAGES, most=PIECES_A_WAVE)
        if not ranges:
            return True
        values = {"after": self._run.planned, "until": ranges[-1].until, "cutoffs": self._cutoffs}
        by_address: dict[str, dict[str, int]] = self._run.totals.setdefault("addresses", {})
        with transaction.atomic():
            note_held(values["after"], values["until"])  # type: ignore[arg-type]
            for address, state, count in fetch_rows(_COUNT, values):
                states = by_address.setdefault(address, {})
                states[state] = states.get(state, 0) + count
            self._run.planned = ranges[-1].until
            ArchiveRun.objects.filter(id=self._run.id).update(totals=self._run.totals, planned=self._run.planned)
        return False

    def _finish(self) -> None:
        if not self._run.is_dry_run:
            forget_words()
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
                jobs.cancel(self._job_id)
            else:
                jobs.succeed(self._job_id, counts=_counts(totals), done=self._run.planned)


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


def _counts(totals: Mapping[str, Any]) -> dict[str, int]:
    if "addresses" in totals:
        return {"messages": sum(sum(states.values()) for states in totals["addresses"].values())}
    return {table: sums["rows"] for table, sums in totals.items()}
