"""Work on long jobs: a worker goes on with a run for some seconds, under a job that is shown to people.

How far a run is stands in its row, so the next tick, or the next worker, goes on where this one was.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from django.db import connection
from django.db.models import Manager

from poisonadmin.core.commands import jobs
from poisonadmin.core.commands.jobs import JobHeartbeat
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.store.models.job import Job, JobKind, JobState

# A worker has other things to do: after this long the rest is left to the next tick.
TURN_SECONDS = 10.0
# What goes on by itself after an error does so with another job.
SECONDS_AFTER_ERROR = 60


class HasJob(Protocol):
    """A row of what is carried out."""

    id: Any
    job_id: Any
    requested_by: Any
    objects: "Manager[Any]"


def job_of(
    run: HasJob, kind: JobKind, *, worker: str, params: Mapping[str, Any], phase: str, total: int | None = None
) -> int:
    """Return the run's job, begun anew where the former one ended or was given up with its worker."""
    job_id: int | None = run.job_id
    if job_id is not None and Job.objects.filter(id=job_id, state=JobState.RUNNING, worker=worker).exists():
        return job_id
    job_id = jobs.begin(kind, worker=worker, params=params, phase=phase, total=total, by=run.requested_by)
    type(run).objects.filter(id=run.id).update(job_id=job_id)
    return job_id


@contextmanager
def working_on(
    job_id: int, *, fail: Callable[[str], object], keeper: JobHeartbeat | None, is_stopping: Callable[[], bool]
) -> Iterator[None]:
    """Keep a job alive while it is worked on, and end it by `fail`, with a text for people, on an error.

    The error is raised again, except where it is one for people. Errors of a worker that stops are the stop's doing:
    they end the turn, and nothing else.
    """
    if keeper:
        keeper.hold(job_id)
    try:
        yield
    except Exception as error:
        if is_stopping():
            return
        connection.close_if_unusable_or_obsolete()
        if isinstance(error, PoisonAdminError):
            fail(error.detail)
        else:
            fail(jobs.error_text(error))
            raise
    finally:
        # Between two turns a job is as alive as in one.
        if keeper and not Job.objects.filter(id=job_id, state=JobState.RUNNING).exists():
            keeper.release(job_id)
