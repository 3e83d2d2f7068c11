"""Directory sources: what has arrived is staged by whoever can (Spark), and merged here.

A file goes SEEN -> STAGED -> TAKEN. Killed before STAGED, the next run drops what is staged and begins the file again;
killed after it, the next run merges the rest. Either way each line is taken once, in the order of the file.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Protocol

from django.db import connection, connections
from django.db.models.functions import Now

from poisonadmin.domain.access import Permission, Principal
from poisonadmin.domain.source_files import FileToTake, StagedFile, Staging
from poisonadmin.operations import audit, jobs, source_files
from poisonadmin.operations.ingest_merge import Merged, merge_staged
from poisonadmin.operations.locks import Lock
from poisonadmin.queries.sources import get_source
from poisonadmin.store.models import Source, SourceFile
from poisonadmin.store.models.intake import FileState
from poisonadmin.store.models.job import JobKind

Stage = Callable[[Sequence[FileToTake]], Sequence[StagedFile]]
"""Stages files and answers for each. Passed in: what stages (workers) imports this package, not the other way round."""

# Files staged together: while one wave is staged the one before is merged. A wave costs two Spark jobs, so some 0.5 s.
WAVE_BYTES = 1024 * 1024 * 1024
WAVE_FILES = 200
# The rows of a merge are the database's work; a second thread keeps a second core of it busy.
MERGES_AT_ONCE = 2


class JobKeeper(Protocol):
    """Holds a job's lock and moves its heartbeat while it runs."""

    def hold(self, job_id: int) -> None: ...
    def release(self, job_id: int) -> None: ...


@dataclass
class Ingested:
    """What one run came to: files, and the lines in them."""

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


def request_ingest(source_id: int, principal: Principal) -> None:
    """Have the source looked at by the next tick, also the files that could not be read a moment ago.

    Errors: `NotAllowed`, `SourceNotFound`.
    """
    principal.require(Permission.INGEST)
    source = get_source(source_id, principal=principal)
    Source.objects.filter(id=source_id).update(last_error_at=None)
    audit.record(principal.name, "source.ingest_requested", "source", source.name)


def ingest_due(stage: Stage, *, worker: str, keeper: JobKeeper) -> None:
    """Take in what has arrived in each enabled source; a source in trouble does not keep the others from their turn.

    Errors: the last source's that failed; its job row and the source say so too.
    """
    failed: Exception | None = None
    for source in Source.objects.filter(is_enabled=True).order_by("id"):
        try:
            ingest_source(source.id, stage=stage, worker=worker, keeper=keeper)
        except Exception as error:
            failed = error
    if failed is not None:
        raise failed


def ingest_source(source_id: int, *, stage: Stage, worker: str, keeper: JobKeeper | None = None) -> Ingested | None:
    """Take in the files that wait in the source, and return what they came to; None when there is nothing to do.

    Nothing either when somebody else is at it, or when the directory cannot be read: the source then says why.
    """
    source = Source.objects.get(id=source_id)
    with _alone_with(source_id) as is_alone:
        if not is_alone:
            return None
        try:
            paths = source_files.see_files(source)
        except OSError as error:
            _note_error(source_id, f"The directory cannot be read: {error.strerror}")
            return None
        waiting = source_files.files_to_take(source, paths)
        staged = list(SourceFile.objects.filter(source=source, state=FileState.STAGED).order_by("id"))
        if not waiting and not staged:
            return None
        return _as_job(source, waiting, [row.id for row in staged], stage=stage, worker=worker, keeper=keeper)


def _as_job(
    source: Source,
    waiting: list[FileToTake],
    staged: list[int],
    *,
    stage: Stage,
    worker: str,
    keeper: JobKeeper | None,
) -> Ingested:
    total = len(waiting) + len(staged)
    params = {"source": source.name}
    job_id = jobs.begin(JobKind.INGEST, worker=worker, params=params, phase="taking in files", total=total)
    if keeper:
        keeper.hold(job_id)
    ingested = Ingested()
    try:
        _take(source, waiting, staged, stage, job_id, ingested)
    except Exception as error:
        said = str(error).strip().splitlines() or [""]
        jobs.fail(job_id, error=f"{type(error).__name__}: {said[0]}", counts=asdict(ingested))
        _note_error(source.id, said[0])
        raise
    finally:
        if keeper:
            keeper.release(job_id)
    jobs.succeed(job_id, counts=asdict(ingested), done=ingested.files_taken + ingested.files_broken)
    Source.objects.filter(id=source.id).update(last_success_at=Now())
    return ingested


def _take(
    source: Source, waiting: list[FileToTake], staged: list[int], stage: Stage, job_id: int, ingested: Ingested
) -> None:
    leftover = source_files.leftover_batches(source)
    actor = f"source {source.name}"
    with ThreadPoolExecutor(MERGES_AT_ONCE, thread_name_prefix="merge") as threads:

        def merge(file_id: int, batches: Iterable[str]) -> tuple[int, list[Future[Merged]]]:
            return file_id, [threads.submit(_merge, batch, actor, file_id) for batch in sorted(batches)]

        merging = [merge(file_id, leftover.get(file_id, ())) for file_id in staged]
        for wave in _waves(waiting):
            now_staged: list[StagedFile] = []
            for begun in wave:
                source_files.drop_staged(begun.id, leftover.get(begun.id, ()))
            for file in stage(wave):
                if file.outcome is Staging.STAGED and source_files.mark_staged(file, job_id=job_id):
                    now_staged.append(file)
                    ingested.rejected += file.rejected
                elif file.outcome is Staging.BROKEN:
                    source_files.mark_broken(file, job_id=job_id)
                    ingested.files_broken += 1
                elif file.outcome is Staging.GONE:
                    source_files.forget([file.file_id])
                elif file.outcome is Staging.UNREADABLE:
                    source_files.mark_unreadable(file)
            _finish(merging, ingested, job_id)
            merging = [merge(file.file_id, file.batches) for file in now_staged]
        _finish(merging, ingested, job_id)


def _merge(batch: str, actor: str, file_id: int) -> Merged:
    try:
        return merge_staged(batch, actor=actor, source_file_id=file_id)
    finally:
        connections.close_all()  # this thread's


def _finish(merging: list[tuple[int, list[Future[Merged]]]], ingested: Ingested, job_id: int) -> None:
    """Wait for the merges and make their files TAKEN; raise the first error after all have ended."""
    failed: BaseException | None = None
    for file_id, merges in merging:
        errors = [error for error in (merge.exception() for merge in merges) if error is not None]
        if errors:
            failed = failed or errors[0]
            continue
        for merge in merges:
            ingested.add(merge.result())
        source_files.mark_taken(file_id)
        ingested.files_taken += 1
    jobs.move(job_id, phase="taking in files", done=ingested.files_taken + ingested.files_broken)
    if failed is not None:
        raise failed


def _waves(files: Sequence[FileToTake]) -> Iterator[list[FileToTake]]:
    wave: list[FileToTake] = []
    for file in files:
        if wave and (len(wave) >= WAVE_FILES or sum(f.size_bytes for f in wave) + file.size_bytes > WAVE_BYTES):
            yield wave
            wave = []
        wave.append(file)
    if wave:
        yield wave


@contextmanager
def _alone_with(source_id: int) -> Iterator[bool]:
    """Hold the source's lock in this session meanwhile; yield False when somebody else holds it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [Lock.SOURCE, source_id])
        is_alone = bool(cursor.fetchone()[0])
    try:
        yield is_alone
    finally:
        if is_alone and connection.is_usable():
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [Lock.SOURCE, source_id])


def _note_error(source_id: int, error: str) -> None:
    Source.objects.filter(id=source_id).update(last_error=error, last_error_at=Now())
