"""Runs that a worker begins by itself: begun, moved forward, ended. Each change is conditional on the state that it
leaves. Such a run ends with its worker; requested runs are carried out by `engine`."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Protocol

from django.db import connection

from poisonadmin.runs.domain.kinds import KindName

_BEGIN = """
INSERT INTO run (kind, state, params, patterns, worker, requested_by, started_at, heartbeat_at, phase, total)
VALUES (%(kind)s, 'running', %(params)s, '[]', %(worker)s, %(by)s, now(), now(), %(phase)s, %(total)s)
RETURNING id
"""
_MOVE = """
UPDATE run SET phase = %(phase)s, done = coalesce(%(done)s, done), total = coalesce(%(total)s, total),
               heartbeat_at = now()
WHERE id = %(id)s AND state = 'running'
"""
_END = """
UPDATE run SET state = %(state)s, result = %(counts)s, error = %(error)s, ended_at = now(), phase = NULL,
               done = coalesce(%(done)s, done), expires_at = now() + %(kept)s
WHERE id = %(id)s AND state = 'running'
"""


class RunHeartbeat(Protocol):
    """Holds a run's lock and moves its heartbeat while it runs."""

    def hold(self, run_id: int) -> None: ...
    def release(self, run_id: int) -> None: ...


def begin(
    kind: KindName, *, worker: str, params: Mapping[str, Any], phase: str, total: int | None = None, by: str = "system"
) -> int:
    """Create a running run of this worker, requested by `by`, and return its id."""
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
        run_id: int = cursor.fetchone()[0]
    return run_id


def move(run_id: int, *, phase: str, done: int | None = None, total: int | None = None) -> None:
    """Write down how far a running run is."""
    with connection.cursor() as cursor:
        cursor.execute(_MOVE, {"id": run_id, "phase": phase, "done": done, "total": total})


def succeed(run_id: int, *, counts: Mapping[str, int], done: int | None = None, kept: timedelta | None = None) -> None:
    """End a running run well. `kept`: after this time it is removed; None: never."""
    _end(run_id, "succeeded", counts, done=done, kept=kept)


def fail(run_id: int, *, error: str, counts: Mapping[str, int] | None = None) -> None:
    """End a running run with an error, as a person should read it."""
    _end(run_id, "failed", counts or {}, error=error[:4000])


def cancel(run_id: int, *, counts: Mapping[str, int] | None = None) -> None:
    """End a running run because its worker is to end; the next one goes on with what is left."""
    _end(run_id, "cancelled", counts or {})


def _end(
    run_id: int,
    state: str,
    counts: Mapping[str, int],
    *,
    error: str | None = None,
    done: int | None = None,
    kept: timedelta | None = None,
) -> None:
    values: dict[str, Any] = {
        "id": run_id,
        "state": state,
        "counts": json.dumps(counts),
        "error": error,
        "done": done,
        "kept": kept,
    }
    with connection.cursor() as cursor:
        cursor.execute(_END, values)
