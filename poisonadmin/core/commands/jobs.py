"""Jobs as rows: begun, moved forward, ended. Each change is conditional on the state that it leaves."""

import json
from collections.abc import Mapping
from typing import Any, Protocol

from django.db import connection

from poisonadmin.store.models.job import JobKind

_BEGIN = """
INSERT INTO job (kind, state, params, counts, runs, max_runs, worker, requested_by, started_at, heartbeat_at,
                 phase, total)
VALUES (%(kind)s, 'running', %(params)s, '{}', 1, 1, %(worker)s, %(by)s, now(), now(), %(phase)s, %(total)s)
RETURNING id
"""
_MOVE = """
UPDATE job SET phase = %(phase)s, done = coalesce(%(done)s, done), total = coalesce(%(total)s, total),
               heartbeat_at = now()
WHERE id = %(id)s AND state = 'running'
"""
_END = """
UPDATE job SET state = %(state)s, counts = %(counts)s, error = %(error)s, finished_at = now(), phase = NULL,
               done = coalesce(%(done)s, done)
WHERE id = %(id)s AND state = 'running'
"""


def begin(
    kind: JobKind, *, worker: str, params: Mapping[str, Any], phase: str, total: int | None = None, by: str = "system"
) -> int:
    """Create a running job of this worker and return its id. `by`: who asked for it."""
    values = {
        "kind": str(kind),
        "params": json.dumps(params),
        "worker": worker,
        "by": by,
        "phase": phase,
        "total": total,
    }
    with connection.cursor() as cursor:
        cursor.execute(_BEGIN, values)
        job_id: int = cursor.fetchone()[0]
    return job_id


def move(job_id: int, *, phase: str, done: int | None = None, total: int | None = None) -> None:
    """Say how far a running job is."""
    with connection.cursor() as cursor:
        cursor.execute(_MOVE, {"id": job_id, "phase": phase, "done": done, "total": total})


def succeed(job_id: int, *, counts: Mapping[str, int], done: int | None = None) -> None:
    """End a running job well."""
    _end(job_id, "succeeded", counts, None, done)


def fail(job_id: int, *, error: str, counts: Mapping[str, int] | None = None) -> None:
    """End a running job with an error, as a person should read it."""
    _end(job_id, "failed", counts or {}, error[:4000], None)


def cancel(job_id: int, *, counts: Mapping[str, int] | None = None) -> None:
    """End a running job because its worker is to end; the next run goes on with what is left."""
    _end(job_id, "cancelled", counts or {}, None, None)


def error_text(error: BaseException) -> str:
    """Return an error's class and the first line of its text, as a job says them."""
    return f"{type(error).__name__}: {first_line(error)}"


def first_line(error: BaseException) -> str:
    r"""Return the first line of an error's text, or what a traceback in it ends with; empty where it has none.

    >>> trace = "Traceback (most recent call last):\n  File …\nOSError: [Errno 28]\n\nat x"
    >>> first_line(ValueError(f"A task failed:\n{trace}"))
    'OSError: [Errno 28]'
    """
    text = str(error).strip()
    _, has_traceback, trace = text.rpartition("Traceback (most recent call last):\n")
    if has_traceback:
        text = next((line for line in trace.splitlines() if line[:1].strip()), text)
    return (text.splitlines() or [""])[0]


def _end(job_id: int, state: str, counts: Mapping[str, int], error: str | None, done: int | None) -> None:
    values: dict[str, Any] = {"id": job_id, "state": state, "counts": json.dumps(counts), "error": error, "done": done}
    with connection.cursor() as cursor:
        cursor.execute(_END, values)


class JobHeartbeat(Protocol):
    """Holds a job's lock and moves its heartbeat while it runs."""

    def hold(self, job_id: int) -> None: ...
    def release(self, job_id: int) -> None: ...
