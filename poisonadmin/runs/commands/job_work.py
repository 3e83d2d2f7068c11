"""Work on long jobs: a worker goes on with a run for some seconds, under a job that is shown to people.

How far a run is stands in its row, so the next tick, or the next worker, goes on where this one was.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from django.db import connection
from django.db.models import Manager

from poisonadmin.core.domain.errors import PoisonAdminError, error_text
from poisonadmin.runs.commands import worker_runs
from poisonadmin.runs.commands.worker_runs import RunHeartbeat
from poisonadmin.runs.domain.kinds import KindName, RunState
from poisonadmin.store.models.run import LongRun

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
    run: HasJob, kind: KindName, *, worker: str, params: Mapping[str, Any], phase: str, total: int | None = None
) -> int:
    """Return the run's job, begun anew where the former one ended or was given up with its worker."""
    job_id: int | None = run.job_id
    if job_id is not None and LongRun.objects.filter(id=job_id, state=RunState.RUNNING, worker=worker).exists():
        return job_id
    job_id = worker_runs.begin(kind, worker=worker, params=params, phase=phase, total=total, by=run.requested_by)
    type(run).objects.filter(id=run.id).update(job_id=job_id)
    return job_id


@contextmanager
def working_on(
    job_id: int, *, fail: Callable[[str], object], heartbeat: RunHeartbeat | None, is_stopping: Callable[[], bool]
) -> Iterator[None]:
    """Keep a job alive while it is worked on, and end it by `fail`, with a text for people, on an error.

    The error is raised again, except where it is one for people. Errors of a worker that stops are the stop's doing:
    they end the turn, and nothing else.
    """
    if heartbeat:
        heartbeat.hold(job_id)
    try:
        yield
    except Exception as error:
        if is_stopping():
            return
        connection.close_if_unusable_or_obsolete()
        if isinstance(error, PoisonAdminError):
            fail(error.detail)
        else:
            fail(error_text(error))
            raise
    finally:
        # Between two turns a job is as alive as in one.
        if heartbeat and not LongRun.objects.filter(id=job_id, state=RunState.RUNNING).exists():
            heartbeat.release(job_id)
