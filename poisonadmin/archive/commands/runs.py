"""Runs of the archive, done piece by piece by Spark.

A piece is planned, written to files by a task, read back, and pruned (pruning.py). A run goes on after any crash: what
was not noted is written again under another name, and the files that nobody noted are removed at the end.
A dry run counts what a run would archive, and whose payloads it would remove; it moves and removes none of it.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Max, Min, QuerySet, Sum

from poisonadmin.archive.commands import payloads, rewriting
from poisonadmin.archive.commands.figures import forget_figures, roll_up_failures
from poisonadmin.archive.commands.holds import note_held
from poisonadmin.archive.commands.ownership import ForeignArchive, require_own_archive
from poisonadmin.archive.commands.pruning import PieceChanged, prune
from poisonadmin.archive.commands.requests import ARCHIVE_RUN
from poisonadmin.archive.commands.rewriting import FileStore, remove_copies
from poisonadmin.archive.domain.pieces import CHOSEN, PieceOrder, PieceState, WriteOrder, WrittenPiece
from poisonadmin.core.commands.locks import retried
from poisonadmin.core.domain.archive_place import manifest_path, run_directory
from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.messages.queries.id_ranges import next_ranges
from poisonadmin.runs.commands.engine import RunTurn, RunWork
from poisonadmin.store.models.archive import ArchiveFile, ArchivePiece

PIECE_MESSAGES = 25_000
PIECES_A_WAVE = 4
_PAYLOADS_A_STEP = 10_000
_COUNTED_A_STEP = 100_000
_COUNT = f"SELECT a.name, m.state, count(*) {CHOSEN} GROUP BY 1, 2"
_FORGET_WORDS = """
DELETE FROM failure_words WHERE id > %(after)s AND id <= %(until)s AND NOT EXISTS (
    SELECT FROM unnest(message_ids) AS one (id) JOIN message ON message.id = one.id)
"""
_WORDS_A_PIECE = 20_000


class ArchiveStore(FileStore, Protocol):
    """The store of the archive's files."""

    def write(self, order: WriteOrder, pieces: Sequence[PieceOrder]) -> Mapping[int, WrittenPiece]:
        """Write the pieces and read them back."""

    def listed(self, directory: str) -> list[str]:
        """Return the paths of all files below a directory of the archive."""


def work(store: ArchiveStore) -> RunWork:
    """Return the work of runs of the archive."""
    return RunWork(
        ARCHIVE_RUN, lambda turn: _ArchiveTurn(turn, store).go_on(), lambda turn: _ArchiveTurn(turn, store).clean_up()
    )


class _ArchiveTurn:
    """A worker's turn with a run, until it must pause."""

    def __init__(self, turn: RunTurn, store: ArchiveStore) -> None:
        self._turn = turn
        self._store = store
        self._run_id = turn.run.id
        self._cut_off: int = turn.run.params["cut_off"]
        self._cutoffs = json.dumps(turn.run.params["cutoffs"])

    def go_on(self) -> None:
        """Remove payloads, and write and prune pieces, until the run is over."""
        is_dry_run = self._turn.run.params["is_dry_run"]
        require_own_archive()
        rewriting.remove_former(self._store)
        while not self._turn.must_pause():
            self._turn.report(done=self._done(), total=self._cut_off)
            is_over = _count_some(self._turn) if is_dry_run else self._step()
            if is_over is None:
                return
            if is_over:
                self._finish(is_dry_run=is_dry_run)
                return

    def clean_up(self) -> None:
        """Drop what is written and not archived, of a run that is cancelled."""
        with suppress(ForeignArchive):
            require_own_archive()
            self._remove_unfinished()
        self._end_pieces()

    def _remove_unfinished(self) -> None:
        for piece in self._pieces(PieceState.WRITTEN):
            self._forget_files(piece)
        rewriting.remove_former(self._store)
        self._sweep()

    def _done(self) -> int:
        """Return up to which message all has left the database that was to."""
        open_pieces = self._all_pieces().filter(state__in=(PieceState.PLANNED, PieceState.WRITTEN))
        unmoved: int | None = open_pieces.aggregate(first=Min("after_id"))["first"]
        planned: int = self._turn.run.position.get("planned", 0)
        return planned if unmoved is None else min(planned, unmoved)

    def _step(self) -> bool | None:
        """Do some of it; return whether nothing is left, and None when somebody reads the tables just now.

        Payloads of live messages go first, so that no file gets them; those in files go last.
        """
        has_payloads = payloads.removes_payloads(self._turn.run)
        reached = self._turn.run.position.get("live_payloads", 0)
        if has_payloads and reached < self._cut_off:
            for one in next_ranges(reached, self._cut_off, messages=_PAYLOADS_A_STEP, most=1):
                payloads.remove_live(self._turn, one)
            return False
        written, planned = self._pieces(PieceState.WRITTEN), self._pieces(PieceState.PLANNED)
        # Not ever more while somebody reads the tables.
        if not planned and len(written) <= PIECES_A_WAVE:
            planned = self._plan()
        if written or planned:
            return False if self._archive(written, planned) else None
        if not has_payloads:
            return True
        if payloads.next_window(self._turn.run) is None:
            return remove_copies(self._store, self._turn.must_pause)
        return False if payloads.remove_archived(self._turn, self._store) else None

    def _all_pieces(self) -> QuerySet[ArchivePiece]:
        return ArchivePiece.objects.filter(run_id=self._run_id)

    def _pieces(self, state: PieceState) -> list[ArchivePiece]:
        return list(self._all_pieces().filter(state=state).order_by("number"))

    def _plan(self) -> list[ArchivePiece]:
        position = self._turn.run.position
        ranges = next_ranges(position.get("planned", 0), self._cut_off, messages=PIECE_MESSAGES, most=PIECES_A_WAVE)
        if not ranges:
            return []
        last = self._all_pieces().aggregate(last=Max("number"))["last"]
        first = 0 if last is None else last + 1
        with transaction.atomic():
            planned = [
                ArchivePiece.objects.create(
                    run_id=self._run_id, number=first + n, after_id=one.after, until_id=one.until
                )
                for n, one in enumerate(ranges)
            ]
            self._turn.store(position={**position, "planned": ranges[-1].until})
        return planned

    def _archive(self, written: Sequence[ArchivePiece], planned: Sequence[ArchivePiece]) -> bool:
        """Prune what is written while the next pieces are; return False when somebody reads the tables just now."""
        held_by = {}
        for piece in planned:
            with transaction.atomic():
                held_by[piece.id] = note_held(piece.after_id, piece.until_id)
        order = WriteOrder(settings.ARCHIVE, self._run_id, self._cutoffs)
        # Also a task of a worker that is gone may still write: no two tries have one name.
        asked = [
            PieceOrder(piece.id, piece.after_id, piece.until_id, f"{piece.number}-{secrets.token_hex(4)}")
            for piece in planned
        ]
        with ThreadPoolExecutor(1) as beside:
            writing = beside.submit(self._store.write, order, asked)
            is_pruned = all(self._prune(piece) for piece in written)
        for piece_id, found in writing.result().items():
            _note(self._run_id, piece_id, found, held_by[piece_id])
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

    def _finish(self, *, is_dry_run: bool) -> None:
        result = {"messages": 0, "payloads": 0, **(self._turn.run.result or {})}
        if not is_dry_run:
            _forget_words()
            roll_up_failures()
            forget_figures()
            rewriting.put_manifest(self._store, self._turn.run)
            self._sweep()
            files = ArchiveFile.objects.filter(run_id=self._run_id, is_current=True, table_name="messages")
            result["messages"] = files.aggregate(rows=Sum("rows"))["rows"] or 0
        with transaction.atomic():
            self._end_pieces()
            self._turn.finish(result, done=self._cut_off)

    def _sweep(self) -> None:
        """Remove what earlier tries left."""
        known = set(ArchiveFile.objects.filter(run_id=self._run_id).values_list("path", flat=True))
        known.add(manifest_path(self._run_id))
        self._store.remove(path for path in self._store.listed(run_directory(self._run_id)) if path not in known)

    def _end_pieces(self) -> None:
        self._all_pieces().filter(state=PieceState.PLANNED).update(state=PieceState.EMPTY)


def _note(run_id: int, piece_id: int, written: WrittenPiece, held_by: Sequence[int]) -> None:
    """Note the files of a piece, and what the database had of it."""
    state = PieceState.WRITTEN if written.files else PieceState.EMPTY
    with transaction.atomic():
        changed = ArchivePiece.objects.filter(id=piece_id, state=PieceState.PLANNED).update(
            state=state, rows=written.versions, held_by=list(held_by)
        )
        if changed:
            ArchiveFile.objects.bulk_create(
                ArchiveFile(
                    run_id=run_id,
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


def _forget_words() -> None:
    """Remove the words of failures' messages that no message in the database has any more."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(min(id), 1) - 1, coalesce(max(id), 0) FROM failure_words")
        after, last = cursor.fetchone()
        while after < last:
            cursor.execute(_FORGET_WORDS, {"after": after, "until": after + _WORDS_A_PIECE})
            after += _WORDS_A_PIECE


def _count_some(turn: RunTurn) -> bool:
    """Count some more, live ones first, and note it in the run's result; return whether all is counted."""
    run = turn.run
    ranges = next_ranges(run.position.get("planned", 0), run.params["cut_off"], messages=_COUNTED_A_STEP, most=1)
    if ranges:
        _count_live(turn, ranges[0])
        return False
    window = payloads.next_window(run)
    if window is None:
        return True
    _add(turn, {}, payloads.count_archived(run, window), archived_payloads=window.until)
    return False


def _count_live(turn: RunTurn, messages: IdRange) -> None:
    values = {"after": messages.after, "until": messages.until, "cutoffs": json.dumps(turn.run.params["cutoffs"])}
    with transaction.atomic():
        note_held(messages.after, messages.until)
        found = {(address, state): count for address, state, count in fetch_rows(_COUNT, values)}
        _add(turn, found, payloads.count_live(turn.run, messages), planned=messages.until)


def _add(turn: RunTurn, messages: Mapping[tuple[str, str], int], without: Mapping[str, int], **reached: int) -> None:
    result: Mapping[str, Any] = turn.run.result or {}
    messages_at = {address: dict(states) for address, states in result.get("messages_at", {}).items()}
    for (address, state), count in messages.items():
        states = messages_at.setdefault(address, {})
        states[state] = states.get(state, 0) + count
    payloads_at = dict(result.get("payloads_at", {}))
    for address, count in without.items():
        payloads_at[address] = payloads_at.get(address, 0) + count
    figures = {
        "messages": sum(sum(states.values()) for states in messages_at.values()),
        "payloads": sum(payloads_at.values()),
        "messages_at": messages_at,
        "payloads_at": payloads_at,
    }
    turn.store(position={**turn.run.position, **reached}, result=figures)
