"""Runs of the archive are requested, by people and once a day, and cancelled."""

from datetime import datetime, timedelta

from django.db.models import Max
from django.utils import timezone

from poisonadmin.archive.commands.holds import require_archivist
from poisonadmin.archive.queries import cutoffs
from poisonadmin.core.domain.access import SYSTEM, Permission, Principal
from poisonadmin.runs.commands.requests import cancel_run, request_run
from poisonadmin.runs.domain.kinds import KindName, RunKind
from poisonadmin.runs.queries.runs import StoredRun, latest_run
from poisonadmin.store.models.message import Message

# `params`: `as_of`, the time at which what is kept too long is archived; `is_dry_run`; `cut_off`, the last message that
# is looked at; `cutoffs` (archive/queries.py). `position`: `planned`, the last message of a piece that is planned, or
# that a dry run has counted; `live_payloads` and `archived_payloads`, the last message whose payload is removed.
# `result`: `messages` and `payloads` (ArchiveRunResult). A piece's rows are in the database until it is archived, and
# in its files from then on: never in both, never in neither. What is noted of a failure in the database does not hold
# in a file, so the archive waits while failures are regrouped.
ARCHIVE_RUN = RunKind(
    KindName.ARCHIVE,
    noun="archive run",
    audited_as="archive.run_{}",
    audited_object="archive_run",
    first_phase="archiving",
    cancelled_by=Permission.CONFIGURE,
    max_tries=None,
    resumes_after=timedelta(minutes=1),
    waits_for=(KindName.REGROUP,),
    alone_with="archive",
)


def request_archive_run(*, as_of: datetime | None = None, is_dry_run: bool = False, principal: Principal) -> StoredRun:
    """Have the archive run; return the run of this kind that is under way, where there is one.

    `as_of`: as if it were then. Errors: `NotAllowed`.
    """
    require_archivist(principal)
    then = as_of or timezone.now()
    asked = {"as_of": then.isoformat(), "is_dry_run": is_dry_run}
    cut_off = Message.objects.aggregate(last=Max("id"))["last"] or 0
    return request_run(
        ARCHIVE_RUN,
        {**asked, "cut_off": cut_off, "cutoffs": cutoffs(then)},
        principal=principal,
        reuse={"is_dry_run": is_dry_run},
        is_audited=principal is not SYSTEM,
        details=asked,
    )


def request_daily_run() -> None:
    """Have the archive run where none has been requested since midnight (UTC)."""
    today = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    last = latest_run(KindName.ARCHIVE, {"is_dry_run": False})
    if last is None or (last.is_over and last.created_at < today):
        request_archive_run(principal=SYSTEM)


def cancel_archive_run(run_id: int, *, principal: Principal) -> None:
    """Have a run stop behind its present piece; what is archived stays so.

    Errors: `NotAllowed`, `NotFound`, `RunEnded`.
    """
    require_archivist(principal)
    cancel_run(ARCHIVE_RUN, run_id, principal=principal)
