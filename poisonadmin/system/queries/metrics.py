"""Figures of `/metrics` beside those of the first page: totals, disks, the archive and the database."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from poisonadmin.core.queries.rows import bounded, database_time, fetch, fetch_rows, fetch_values
from poisonadmin.runs.domain.kinds import KindName, RunState
from poisonadmin.runs.queries.runs import latest_run
from poisonadmin.system.domain.metrics import Labels

# Of the rows of `metric_total` the one that says until when the others have counted, in seconds since 1970.
COUNTED_UNTIL = "counted_until"


def counted_until() -> datetime | None:
    """Return the time until which the totals have counted; None where they never have."""
    found = fetch_values("SELECT total FROM metric_total WHERE metric = %s", [COUNTED_UNTIL])
    return datetime.fromtimestamp(found[0], UTC) if found else None


def totals() -> dict[tuple[str, Labels], float]:
    """Return the totals by metric and labels."""
    rows = fetch_rows("SELECT metric, labels, total FROM metric_total WHERE metric <> %s", [COUNTED_UNTIL])
    return {(metric, tuple(json.loads(labels))): total for metric, labels, total in rows}


def worker_disks() -> list[tuple[str, str, int, int]]:
    """Return the name of each worker, and of its disk with the least room a place, the free bytes and the size."""
    return [
        (str(name), str(path), int(free), int(size))
        for name, path, free, size in fetch_rows(
            "SELECT name, disk_path, disk_free_bytes, disk_bytes FROM worker WHERE disk_path IS NOT NULL ORDER BY name"
        )
    ]


@dataclass(frozen=True)
class PlainFigures:
    """`oldest_job_seconds`: how long the job has waited that has waited longest. `waiting_operations`: those that were
    halted or wait for a sign-off.
    """

    oldest_job_seconds: float
    waiting_operations: int
    database_bytes: int


_PLAIN = """
SELECT coalesce(extract(epoch FROM now() - (SELECT min(created_at) FROM run WHERE state = 'queued')), 0)::float8
         AS oldest_job_seconds,
       (SELECT count(*) FROM operation WHERE ended_at IS NULL AND state IN ('halted', 'waiting_for_sign_off'))
         AS waiting_operations,
       pg_database_size(current_database()) AS database_bytes
"""


def plain_figures() -> PlainFigures:
    """Return the figures that have no label."""
    with bounded():
        return fetch(PlainFigures, _PLAIN)[0]


def archive_unfinished_seconds() -> float:
    """Return since when the archive's latest run goes on or has failed; 0 when it has succeeded or was cancelled."""
    run = latest_run(KindName.ARCHIVE, {"is_dry_run": False})
    if run is None or run.state in (RunState.SUCCEEDED, RunState.CANCELLED):
        return 0.0
    return (database_time() - run.created_at).total_seconds()
