"""Runs of the archive are asked for, by people and once a day, and cancelled."""

from datetime import datetime

from django.db import connection, transaction
from django.db.models import Max, Q
from django.utils import timezone

from poisonadmin.archive.commands.holds import require_archivist
from poisonadmin.archive.queries.cutoffs import cutoffs
from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import SYSTEM, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.store.models.archive import ArchiveRun
from poisonadmin.store.models.message import Message


class RunNotOpen(PoisonAdminError):
    """Raised when a run that is over is cancelled."""

    code = "archive_run_over"
    status = 409

    def __init__(self, state: str) -> None:
        super().__init__(f"The run is {state}; only a running one can be cancelled.")


def request_run(*, as_of: datetime | None = None, is_dry_run: bool = False, principal: Principal) -> ArchiveRun:
    """Have the archive run; return the run of this kind that is under way, where there is one.

    `as_of`: as if it were then. Errors: `NotAllowed`.
    """
    require_archivist(principal)
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)
        open_run = ArchiveRun.objects.filter(ended_at=None, is_dry_run=is_dry_run).first()
        if open_run is not None:
            return open_run
        then = as_of or timezone.now()
        made = ArchiveRun.objects.create(
            as_of=then,
            is_dry_run=is_dry_run,
            cut_off=Message.objects.aggregate(last=Max("id"))["last"] or 0,
            cutoffs=cutoffs(then),
            requested_by=principal.name,
        )
        if principal is not SYSTEM:
            details = {"as_of": then.isoformat(), "is_dry_run": is_dry_run}
            audit.record(principal.name, "archive.run_requested", "archive_run", str(made.id), details=details)
    made.refresh_from_db()
    return made


def request_daily_run() -> None:
    """Have the archive run where none has been asked for since midnight (UTC)."""
    today = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    if not ArchiveRun.objects.filter(is_dry_run=False).filter(Q(requested_at__gte=today) | Q(ended_at=None)).exists():
        request_run(principal=SYSTEM)


def cancel_run(run_id: int, *, principal: Principal) -> ArchiveRun:
    """Have a run stop behind its present piece; what is archived stays so.

    Errors: `NotAllowed`, `NotFound`, `RunNotOpen`.
    """
    require_archivist(principal)
    with transaction.atomic():
        run = ArchiveRun.objects.select_for_update().filter(id=run_id).first()
        if run is None:
            raise NotFound(f"There is no archive run {run_id}.")
        if run.ended_at is not None:
            raise RunNotOpen(run.state)
        ArchiveRun.objects.filter(id=run_id).update(is_cancelling=True, waits_until=None)
        audit.record(principal.name, "archive.run_cancelled", "archive_run", str(run_id))
    run.refresh_from_db()
    return run
