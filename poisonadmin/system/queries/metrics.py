"""Figures of `/metrics` beside those of the first page: totals, sources, disks, the archive and the database."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from poisonadmin.core.queries.rows import bounded, fetch, fetch_rows, fetch_values
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


@dataclass(frozen=True)
class SourceFigures:
    """A source that is switched on. `lag`: messages that wait there, None where nobody can say. `unread_seconds`: since
    it was last read without an error."""

    name: str
    lag: int | None
    unread_seconds: float
    accepted: int
    duplicates: int
    rejected: int
    returned: int


def source_figures() -> list[SourceFigures]:
    """Return the figures of each source that is switched on."""
    with bounded():
        return fetch(
            SourceFigures,
            """SELECT s.name, s.lag,
                 CASE WHEN s.last_error IS NULL OR s.last_error_at < s.last_success_at THEN 0
                      ELSE extract(epoch FROM now() - coalesce(s.last_success_at, s.created_at)) END::float8
                   AS unread_seconds,
                 s.accepted + f.accepted AS accepted, s.duplicates + f.duplicates AS duplicates,
                 s.rejected + f.rejected AS rejected, s.returned
               FROM source s CROSS JOIN LATERAL (
                 SELECT coalesce(sum(accepted), 0)::bigint AS accepted,
                        coalesce(sum(duplicates), 0)::bigint AS duplicates,
                        coalesce(sum(rejected), 0)::bigint AS rejected FROM source_file WHERE source_id = s.id) f
               WHERE s.is_enabled ORDER BY s.name""",
        )


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
    """`archive_unfinished_seconds`: since when the latest run of the archive goes on or has failed, else 0.

    `oldest_job_seconds`: how long the job has waited that has waited longest. `waiting_operations`: those that were
    halted or wait for a sign-off.
    """

    archive_unfinished_seconds: float
    oldest_job_seconds: float
    waiting_operations: int
    database_bytes: int


_PLAIN = """
SELECT coalesce((SELECT extract(epoch FROM now() - created_at) FROM (
           SELECT state, created_at FROM run WHERE kind = 'archive' AND params->>'is_dry_run' = 'false'
           ORDER BY id DESC LIMIT 1) last WHERE state NOT IN ('succeeded', 'cancelled')), 0)::float8
         AS archive_unfinished_seconds,
       coalesce(extract(epoch FROM now() - (SELECT min(created_at) FROM run WHERE state = 'queued')), 0)::float8
         AS oldest_job_seconds,
       (SELECT count(*) FROM operation WHERE ended_at IS NULL AND state IN ('halted', 'waiting_for_sign_off'))
         AS waiting_operations,
       pg_database_size(current_database()) AS database_bytes
"""


def plain_figures() -> PlainFigures:
    """Return the figures that have no label."""
    with bounded():
        return fetch(PlainFigures, _PLAIN)[0]
