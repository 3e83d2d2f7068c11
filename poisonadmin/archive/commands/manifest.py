"""The manifest of a run: the files that it has written."""

from typing import Any

from django.db.models import Sum

from poisonadmin.store.models.archive import ArchiveFile, ArchiveRun


def manifest(run: ArchiveRun) -> dict[str, Any]:
    """Return what a run has written, file by file, as its manifest says it."""
    files = ArchiveFile.objects.filter(run=run, is_current=True).order_by("id")
    return {
        "run": run.id,
        "as_of": run.as_of.isoformat(),
        "requested_by": run.requested_by,
        "files": [
            {
                "table": file.table_name,
                "path": file.path,
                "day": file.day.isoformat(),
                "root": file.root,
                "rows": file.rows,
                "bytes": file.bytes,
                "sha256": file.sha256,
                "rows_sha256": file.rows_sha256,
            }
            for file in files
        ],
    }


def totals_of(run_id: int) -> dict[str, dict[str, int]]:
    """Return rows and bytes by table of what a run has archived."""
    found = ArchiveFile.objects.filter(run_id=run_id, is_current=True).values("table_name")
    sums = found.annotate(sum_rows=Sum("rows"), sum_bytes=Sum("bytes")).order_by("table_name")
    return {one["table_name"]: {"rows": one["sum_rows"], "bytes": one["sum_bytes"]} for one in sums}
