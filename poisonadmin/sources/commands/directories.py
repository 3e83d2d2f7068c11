"""Directory sources: what has arrived is staged by whoever can (Spark), and merged here.

A file goes SEEN -> STAGED -> TAKEN. Killed before STAGED, the next run drops what is staged and begins the file again;
killed after it, the next run merges the rest. Either way each line is taken once, in the order of the file.
"""

from collections.abc import Callable
from dataclasses import asdict

from django.db import connection
from django.db.models.functions import Now

from poisonadmin.core.commands import audit, jobs
from poisonadmin.core.commands.jobs import JobHeartbeat
from poisonadmin.core.commands.locks import alone
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.locks import Lock
from poisonadmin.sources.commands import files
from poisonadmin.sources.commands.directory_run import Ingested, IngestRun, Stage
from poisonadmin.sources.domain.files import FileToTake
from poisonadmin.sources.queries.sources import get_source
from poisonadmin.store.models.intake import FileState, Source, SourceFile, SourceKind
from poisonadmin.store.models.job import JobKind

__all__ = ["Ingested", "JobHeartbeat", "Stage", "ingest_due", "ingest_source", "request_ingest"]


def request_ingest(source_id: int, principal: Principal) -> None:
    """Have the source looked at by the next tick, whatever kept the last one from it.

    Errors: `NotAllowed`, `NotFound`.
    """
    principal.require(Permission.INGEST)
    source = get_source(source_id, principal=principal)
    Source.objects.filter(id=source_id).update(last_error_at=None, next_look_at=None)
    audit.record(principal.name, "source.ingest_requested", "source", source.name)


def ingest_due(
    stage: Stage, *, worker: str, keeper: JobHeartbeat, is_stopping: Callable[[], bool] = lambda: False
) -> None:
    """Take in what has arrived in each enabled directory; a source in trouble does not keep the others from their turn.

    Errors: the last source's that failed; its job row and the source say so too.
    """
    failed: Exception | None = None
    for source in Source.objects.filter(kind=SourceKind.DIRECTORY, is_enabled=True).order_by("id"):
        if is_stopping():
            return
        try:
            ingest_source(source.id, stage=stage, worker=worker, keeper=keeper, is_stopping=is_stopping)
        except Exception as error:
            failed = error
    if failed is not None:
        raise failed


def ingest_source(
    source_id: int,
    *,
    stage: Stage,
    worker: str,
    keeper: JobHeartbeat | None = None,
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
        waiting = files.files_to_take(source, paths)
        staged = list(SourceFile.objects.filter(source=source, state=FileState.STAGED).order_by("id"))
        if not waiting and not staged:
            return None
        job_id = _begin_job(source, worker, len(waiting) + len(staged))
        run = IngestRun(actor=f"source {source.name}", job_id=job_id, stage=stage, is_stopping=is_stopping)
        if keeper:
            keeper.hold(job_id)
        try:
            return _carry_out(run, source, job_id, waiting, [row.id for row in staged], is_stopping=is_stopping)
        finally:
            if keeper:
                keeper.release(job_id)


def _begin_job(source: Source, worker: str, total: int) -> int:
    params = {"source": source.name}
    return jobs.begin(JobKind.INGEST, worker=worker, params=params, phase="taking in files", total=total)


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
            jobs.cancel(job_id, counts=counts)
            return run.ingested
        said = str(error).strip().splitlines() or [""]
        jobs.fail(job_id, error=f"{type(error).__name__}: {said[0]}", counts=counts)
        _note_error(source.id, said[0])
        raise
    jobs.succeed(job_id, counts=asdict(ingested), done=ingested.files_taken + ingested.files_broken)
    Source.objects.filter(id=source.id).update(last_success_at=Now())
    return ingested


def _note_error(source_id: int, error: str) -> None:
    Source.objects.filter(id=source_id).update(last_error=error, last_error_at=Now())
