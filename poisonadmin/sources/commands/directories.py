"""Directory sources: Spark stages what has arrived, and it is merged here.

A file goes SEEN -> STAGED -> TAKEN. Killed before STAGED, the next run drops what is staged and begins the file again;
killed after it, the next run merges the rest. Either way each line is taken once, in the order of the file.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass

from django.db import connection, connections
from django.db.models.functions import Now

from poisonadmin.core.commands import audit
from poisonadmin.core.commands.locks import alone
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import error_text, first_line
from poisonadmin.core.domain.locks import Lock
from poisonadmin.intake.commands.merge import Merged, merge_staged
from poisonadmin.runs.commands import worker_runs
from poisonadmin.runs.commands.worker_runs import RunHeartbeat
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.sources.commands import files
from poisonadmin.sources.domain.files import FileStaging, FileToTake, StagedFile
from poisonadmin.sources.domain.roots import OutsideRoots
from poisonadmin.sources.queries import get_source
from poisonadmin.store.models.intake import FileState, Source, SourceFile, SourceKind

Stage = Callable[[Sequence[FileToTake]], Sequence[StagedFile]]
"""Stages files and answers for each. Passed in: what stages (workers) imports this package, not the other way round."""

# Files staged together: while one wave is staged the one before is merged. A wave costs two Spark jobs, so some 0.5 s.
WAVE_BYTES = 1024 * 1024 * 1024
WAVE_FILES = 200
# The rows of a merge are the database's work; a second thread keeps a second core of it busy.
MERGES_AT_ONCE = 2

Merging = list[tuple[int, list[Future[Merged]]]]


class RunStopped(Exception):
    """Raised when the worker is to end before the run has; the next run goes on from where it was."""


@dataclass
class Ingested:
    """The result of one run: files, and the lines in them."""

    files_taken: int = 0
    files_broken: int = 0
    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0

    def add(self, merged: Merged) -> None:
        """Count what a merge came to."""
        self.accepted += merged.accepted
        self.duplicates += merged.duplicates
        self.rejected += merged.conflicts


class IngestRun:
    """The state of a run. `actor`: who its messages came from. `ingested`: how far it is, also after an error."""

    def __init__(self, *, actor: str, job_id: int, stage: Stage, is_stopping: Callable[[], bool]) -> None:
        self.ingested = Ingested()
        self._actor = actor
        self._job_id = job_id
        self._stage = stage
        self._is_stopping = is_stopping
        self._threads = ThreadPoolExecutor(MERGES_AT_ONCE, thread_name_prefix="merge")

    def take(
        self, waiting: Sequence[FileToTake], staged: Sequence[int], leftover: Mapping[int, Iterable[str]]
    ) -> Ingested:
        """Take in the waiting files, and merge those that an earlier run has staged; return what it came to.

        `leftover` are the batches of earlier runs by file: to be merged of a staged file, to be dropped of any other.
        Errors: `RunStopped`; whatever staging or merging raises. What was not taken in is left for the next run.
        """
        try:
            merging = [self._begin_merge(file_id, leftover.get(file_id, ())) for file_id in staged]
            for wave in _waves(waiting):
                for file in wave:
                    files.drop_staged(file.id, list(leftover.get(file.id, ())))
                self._go_on()
                next_merging = self._staged(wave)
                self._finish(merging)
                self._go_on()
                merging = [self._begin_merge(file.file_id, file.batches) for file in next_merging]
            self._finish(merging)
        finally:
            self._threads.shutdown(cancel_futures=True)
        return self.ingested

    def _staged(self, wave: Sequence[FileToTake]) -> list[StagedFile]:
        """Stage a wave and write down what became of each file; return those that are to be merged."""
        staged: list[StagedFile] = []
        for file in self._stage(wave):
            if file.outcome is FileStaging.STAGED and files.mark_staged(file, job_id=self._job_id):
                staged.append(file)
                self.ingested.rejected += file.rejected
            elif file.outcome is FileStaging.BROKEN:
                files.mark_broken(file, job_id=self._job_id)
                self.ingested.files_broken += 1
            elif file.outcome is FileStaging.GONE:
                files.forget([file.file_id])
            elif file.outcome is FileStaging.UNREADABLE:
                files.mark_unreadable(file)
        return staged

    def _begin_merge(self, file_id: int, batches: Iterable[str]) -> tuple[int, list[Future[Merged]]]:
        return file_id, [self._threads.submit(_merge, batch, self._actor, file_id) for batch in sorted(batches)]

    def _finish(self, merging: Merging) -> None:
        """Wait for the merges and make their files TAKEN; raise the first error after the others have ended."""
        failed: BaseException | None = None
        for file_id, merges in merging:
            self._go_on()
            errors = [error for error in (merge.exception() for merge in merges) if error is not None]
            if errors:
                failed = failed or errors[0]
                continue
            for merge in merges:
                self.ingested.add(merge.result())
            files.mark_taken(file_id)
            self.ingested.files_taken += 1
        done = self.ingested.files_taken + self.ingested.files_broken
        worker_runs.move(self._job_id, phase="taking in files", done=done)
        if failed is not None:
            raise failed

    def _go_on(self) -> None:
        if self._is_stopping():
            raise RunStopped


def _merge(batch: str, actor: str, file_id: int) -> Merged:
    try:
        return merge_staged(batch, actor=actor, source_file_id=file_id)
    finally:
        connections.close_all()  # this thread's


def _waves(waiting: Sequence[FileToTake]) -> Iterator[list[FileToTake]]:
    wave: list[FileToTake] = []
    for file in waiting:
        if wave and (len(wave) >= WAVE_FILES or sum(f.size_bytes for f in wave) + file.size_bytes > WAVE_BYTES):
            yield wave
            wave = []
        wave.append(file)
    if wave:
        yield wave


def request_ingest(source_id: int, principal: Principal) -> None:
    """Have the source looked at by the next tick, whatever kept the last one from it.

    Errors: `NotAllowed`, `NotFound`.
    """
    principal.require(Permission.INGEST)
    source = get_source(source_id, principal=principal)
    Source.objects.filter(id=source_id).update(last_error_at=None, next_check_at=None)
    audit.record(principal.name, "source.ingest_requested", "source", source.name)


def ingest_due(
    stage: Stage, *, worker: str, heartbeat: RunHeartbeat, is_stopping: Callable[[], bool] = lambda: False
) -> None:
    """Take in what has arrived in each enabled directory; a source in trouble does not keep the others from their turn.

    Errors: the last source's that failed; its job row and the source say so too.
    """
    failed: Exception | None = None
    for source in Source.objects.filter(kind=SourceKind.DIRECTORY, is_enabled=True).order_by("id"):
        if is_stopping():
            return
        try:
            ingest_source(source.id, stage=stage, worker=worker, heartbeat=heartbeat, is_stopping=is_stopping)
        except Exception as error:
            failed = error
    if failed is not None:
        raise failed


def ingest_source(
    source_id: int,
    *,
    stage: Stage,
    worker: str,
    heartbeat: RunHeartbeat | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> Ingested | None:
    """Take in the files that wait in the source, and return what they came to; None when there is nothing to do.

    Nothing either when somebody else is at it, or when the directory cannot be read: the source then says why.
    """
    source = Source.objects.get(id=source_id)
    with alone(Lock.SOURCE, source_id) as is_alone:
        if not is_alone:
            return None
        try:
            paths = files.see_files(source)
        except OSError as error:
            _note_error(source_id, f"The directory cannot be read: {error.strerror}")
            return None
        except OutsideRoots as error:
            _note_error(source_id, str(error))
            return None
        waiting = files.files_to_take(source, paths)
        staged = list(SourceFile.objects.filter(source=source, state=FileState.STAGED).order_by("id"))
        if not waiting and not staged:
            return None
        total, params = len(waiting) + len(staged), {"source": source.name}
        job_id = worker_runs.begin(KindName.INGEST, worker=worker, params=params, phase="taking in files", total=total)
        run = IngestRun(actor=f"source {source.name}", job_id=job_id, stage=stage, is_stopping=is_stopping)
        if heartbeat:
            heartbeat.hold(job_id)
        try:
            return _carry_out(run, source, job_id, waiting, [row.id for row in staged], is_stopping=is_stopping)
        finally:
            if heartbeat:
                heartbeat.release(job_id)


def _carry_out(
    run: IngestRun,
    source: Source,
    job_id: int,
    waiting: list[FileToTake],
    staged: list[int],
    *,
    is_stopping: Callable[[], bool],
) -> Ingested:
    try:
        ingested = run.take(waiting, staged, files.leftover_batches(source))
    except Exception as error:
        connection.close_if_unusable_or_obsolete()  # the error may be the database's; the job is ended on a new one
        counts = asdict(run.ingested)
        if is_stopping():  # the error is the stop's doing
            worker_runs.cancel(job_id, counts=counts)
            return run.ingested
        worker_runs.fail(job_id, error=error_text(error), counts=counts)
        _note_error(source.id, first_line(error))
        raise
    worker_runs.succeed(job_id, counts=asdict(ingested), done=ingested.files_taken + ingested.files_broken)
    Source.objects.filter(id=source.id).update(last_success_at=Now())
    return ingested


def _note_error(source_id: int, error: str) -> None:
    Source.objects.filter(id=source_id).update(last_error=error, last_error_at=Now())
