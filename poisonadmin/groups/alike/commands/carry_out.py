"""Carrying searches out: failures are compared by whoever can (Spark), and what that proposes takes the place of what
was proposed before.

A search is done in one go of some seconds. One that is cut off is begun anew, and proposes the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from django.db import connection, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from poisonadmin.core.commands import locks
from poisonadmin.core.commands.locks import shared
from poisonadmin.core.domain.locks import Lock
from poisonadmin.groups.alike.domain.differences import in_words
from poisonadmin.groups.alike.domain.proposals import (
    AlikeAnswer,
    AlikeSearchState,
    AskedGroups,
    Proposal,
    ProposalState,
    propose,
)
from poisonadmin.groups.alike.queries.compared_groups import compared_groups, groups_digest
from poisonadmin.runs.commands import worker_runs
from poisonadmin.runs.commands.job_work import working_on
from poisonadmin.runs.commands.worker_runs import RunHeartbeat
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.store.models.alike_groups import AlikeSearch, GroupProposal

Report = Callable[[str], None]
Compare = Callable[[AskedGroups, Report], AlikeAnswer]
"""Says which of these fingerprints may be alike, and what it does next to the second argument. Passed in: what compares
(workers) imports this package."""

# One that ends its worker each time is given up.
MAX_TRIES = 3
_PHASE = "comparing failure groups"


class _AlikeSearchEnded(Exception):
    """Raised when a search was cancelled, or its worker is to stop."""


@dataclass(frozen=True)
class _SearchTry:
    row: AlikeSearch
    job_id: int
    is_stopping: Callable[[], bool]

    def report(self, phase: str) -> None:
        """Say what is done next; raise `_AlikeSearchEnded` where nothing is to be."""
        changed = AlikeSearch.objects.filter(id=self.row.id, state=AlikeSearchState.RUNNING).update(phase=phase)
        worker_runs.move(self.job_id, phase=phase)
        if not changed or self.is_stopping():
            raise _AlikeSearchEnded


def is_any_due() -> bool:
    """Return whether a search is asked for: one query, for who looks often."""
    return _due().exists()


def _due() -> QuerySet[AlikeSearch]:
    return AlikeSearch.objects.filter(finished_at=None)


def search_due(
    compare: Compare,
    *,
    worker: str,
    heartbeat: RunHeartbeat | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Carry out the search that is asked for. Call under `single_flight(Tick.ALIKE_GROUPS)`."""
    row = _due().order_by("id").first()
    if row is None:
        return
    if row.tries >= MAX_TRIES:
        _end(row, AlikeSearchState.FAILED, error=f"It was begun {MAX_TRIES} times, and ended its worker each time.")
        return
    with shared(Lock.TABLES) as may_read:
        if not may_read:  # rows move to the archive just now
            return
        job_id = _begin(row, worker)
        with working_on(job_id, fail=partial(_fail, row, job_id), heartbeat=heartbeat, is_stopping=is_stopping):
            try:
                _carry_out(_SearchTry(row, job_id, is_stopping), compare)
            except Exception as error:
                if not (isinstance(error, _AlikeSearchEnded) or is_stopping()):
                    raise
                _put_down(row, job_id)


def _put_down(row: AlikeSearch, job_id: int) -> None:
    """Leave a search that was cancelled as it is, and another one to the next worker: this try does not count."""
    AlikeSearch.objects.filter(id=row.id, finished_at=None).update(
        state=AlikeSearchState.QUEUED, phase=None, tries=F("tries") - 1
    )
    worker_runs.cancel(job_id)


def _begin(row: AlikeSearch, worker: str) -> int:
    """Say that the search is under way, and return its job, a new one where the former went with its worker."""
    if row.job_id is not None:
        worker_runs.cancel(row.job_id)
    with transaction.atomic():
        params = {"alike_search": row.id}
        job_id = worker_runs.begin(
            KindName.ALIKE_GROUPS, worker=worker, params=params, phase=_PHASE, by=row.requested_by
        )
        AlikeSearch.objects.filter(id=row.id, finished_at=None).update(
            state=AlikeSearchState.RUNNING, phase=_PHASE, tries=F("tries") + 1, job_id=job_id
        )
    return job_id


def _carry_out(run: _SearchTry, compare: Compare) -> None:
    digest = groups_digest()
    now = compared_groups()
    answer = compare(now, run.report)
    run.report("proposing what to merge")
    dismissed = _dismissed()
    found = propose(now.groups, answer, dismissed=dismissed)
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)
        _require_running(run.row)
        if _dismissed() != dismissed:  # somebody has dismissed one meanwhile; who does it now waits
            found = propose(now.groups, answer, dismissed=_dismissed())
        GroupProposal.objects.filter(state=ProposalState.OPEN).delete()
        GroupProposal.objects.bulk_create(_row(one, answer) for one in found)
        _end(
            run.row,
            AlikeSearchState.DONE,
            groups=answer.compared,
            left_out=now.left_out + len(now.groups) - answer.compared,
            proposals=len(found),
            groups_digest=digest,
        )
        worker_runs.succeed(
            run.job_id, counts={"groups": answer.compared, "proposals": len(found)}, done=answer.compared
        )


def _require_running(row: AlikeSearch) -> None:
    """Raise `_AlikeSearchEnded` where the search is over; it is not until the transaction ends."""
    if not AlikeSearch.objects.select_for_update().filter(id=row.id, finished_at=None).exists():
        raise _AlikeSearchEnded


def _dismissed() -> set[str]:
    return set(GroupProposal.objects.filter(state=ProposalState.DISMISSED).values_list("digest", flat=True))


def _row(one: Proposal, answer: AlikeAnswer) -> GroupProposal:
    into, group = answer.failures[one.into.id], answer.failures[one.group.id]
    return GroupProposal(
        place=one.place,
        into_id=one.into.seen_as,
        group_id=one.group.seen_as,
        into_member=one.into.id,
        group_member=one.group.id,
        into_message=one.into.message_id,
        group_message=one.group.message_id,
        into_failure=into.as_json(),
        group_failure=group.as_json(),
        similarity=one.similarity,
        text=in_words(into, group, names=(f"#{one.into.seen_as}", f"#{one.group.seen_as}")),
        digest=one.digest,
    )


def _fail(row: AlikeSearch, job_id: int, error: str) -> None:
    with transaction.atomic():
        _end(row, AlikeSearchState.FAILED, error=error[:4000])
        worker_runs.fail(job_id, error=error)


def _end(row: AlikeSearch, state: AlikeSearchState, **result: object) -> None:
    AlikeSearch.objects.filter(id=row.id, finished_at=None).update(state=state, finished_at=Now(), phase=None, **result)
