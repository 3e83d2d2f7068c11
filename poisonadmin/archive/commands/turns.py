"""What a worker does of a run or an erasure is a job; an error is noted, and it goes on after a while."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.core.commands import jobs
from poisonadmin.core.commands.jobs import JobHeartbeat
from poisonadmin.store.models.archive import ArchiveRun, Erasure
from poisonadmin.store.models.job import Job, JobKind, JobState

SECONDS_AFTER_ERROR = 60
# Those of which something is to be done now.
IS_DUE = Q(ended_at=None) & (Q(waits_until=None) | Q(waits_until__lte=Now()))


@contextmanager
def turn(
    row: ArchiveRun | Erasure,
    *,
    worker: str,
    keeper: JobHeartbeat | None,
    is_stopping: Callable[[], bool],
    **begun: Any,
) -> Iterator[int]:
    """Yield the id of the job of `row`, begun anew where the former one was given up with its worker.

    `begun`: kind, params, phase and total of a new job. An error while the worker is stopping is the stop's doing.
    """
    job_id = _job_of(row, worker, begun)
    if keeper:
        keeper.hold(job_id)
    try:
        yield job_id
    except Exception as error:
        if is_stopping():
            return
        connection.close_if_unusable_or_obsolete()
        text = jobs.error_text(error)
        jobs.fail(job_id, error=text)
        type(row).objects.filter(id=row.id).update(
            waits_until=Now() + timedelta(seconds=SECONDS_AFTER_ERROR), error=text[:4000]
        )
        raise
    finally:
        if keeper:
            keeper.release(job_id)


def _job_of(row: ArchiveRun | Erasure, worker: str, begun: Mapping[str, Any]) -> int:
    if row.job_id is not None and Job.objects.filter(id=row.job_id, state=JobState.RUNNING, worker=worker).exists():
        return row.job_id
    kind: JobKind = begun["kind"]
    job_id = jobs.begin(kind, worker=worker, **{name: value for name, value in begun.items() if name != "kind"})
    type(row).objects.filter(id=row.id).update(job_id=job_id)
    return job_id
