"""Carrying searches out: failures are compared by whoever can (Spark), and what that proposes takes the place of what
was proposed before.

A search is done in one go of some seconds. One that is cut off is begun anew, and proposes the same.
"""

from collections.abc import Callable, Sequence
from functools import partial

from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from poisonadmin.alike_groups.domain.differences import in_words
from poisonadmin.alike_groups.domain.proposals import (
    AlikeAnswer,
    AlikeSearchState,
    ComparedGroup,
    Proposal,
    ProposalState,
    propose,
)
from poisonadmin.alike_groups.queries.compared_groups import compared_groups, groups_digest
from poisonadmin.core.commands import jobs, locks
from poisonadmin.core.commands.job_work import working_on
from poisonadmin.core.commands.jobs import JobHeartbeat
from poisonadmin.core.domain.locks import Lock
from poisonadmin.store.models.alike_groups import AlikeSearch, GroupProposal
from poisonadmin.store.models.job import JobKind

Compare = Callable[[Sequence[ComparedGroup]], AlikeAnswer]
"""Says which of these fingerprints may be alike. Passed in: what compares (workers) imports this package."""

# One that ends its worker each time is given up.
MAX_TRIES = 3
_PHASE = "comparing failure groups"


def search_due(
    compare: Compare,
    *,
    worker: str,
    keeper: JobHeartbeat | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Carry out the search that is asked for. Call under `single_flight(Tick.ALIKE_GROUPS)`."""
    row = AlikeSearch.objects.filter(finished_at=None).order_by("id").first()
    if row is None:
        return
    if row.tries >= MAX_TRIES:
        _end(row, AlikeSearchState.FAILED, error=f"It was begun {MAX_TRIES} times, and ended its worker each time.")
        return
    job_id = _begin(row, worker)
    with working_on(job_id, fail=partial(_fail, row, job_id), keeper=keeper, is_stopping=is_stopping):
        _carry_out(row, job_id, compare)
        return
    # The worker stops: this try does not count.
    AlikeSearch.objects.filter(id=row.id, finished_at=None).update(
        state=AlikeSearchState.QUEUED, phase=None, tries=F("tries") - 1
    )
    jobs.cancel(job_id)


def _begin(row: AlikeSearch, worker: str) -> int:
    """Say that the search is under way, and return its job, a new one where the former went with its worker."""
    if row.job_id is not None:
        jobs.cancel(row.job_id)
    with transaction.atomic():
        params = {"alike_search": row.id}
        job_id = jobs.begin(JobKind.ALIKE_GROUPS, worker=worker, params=params, phase=_PHASE, by=row.requested_by)
        AlikeSearch.objects.filter(id=row.id, finished_at=None).update(
            state=AlikeSearchState.RUNNING, phase=_PHASE, tries=F("tries") + 1, job_id=job_id
        )
    return job_id


def _carry_out(row: AlikeSearch, job_id: int, compare: Compare) -> None:
    digest = groups_digest()
    now = compared_groups()
    answer = compare(now.groups)
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)  # whoever dismisses one meanwhile waits, or is waited for
        dismissed = GroupProposal.objects.filter(state=ProposalState.DISMISSED)
        found = propose(now.groups, answer, dismissed=set(dismissed.values_list("digest", flat=True)))
        GroupProposal.objects.filter(state=ProposalState.OPEN).delete()
        GroupProposal.objects.bulk_create(_row(one, answer) for one in found)
        _end(
            row,
            AlikeSearchState.DONE,
            groups=answer.compared,
            left_out=now.left_out + len(now.groups) - answer.compared,
            proposals=len(found),
            groups_digest=digest,
        )
        jobs.succeed(job_id, counts={"groups": answer.compared, "proposals": len(found)}, done=answer.compared)


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
        jobs.fail(job_id, error=error)


def _end(row: AlikeSearch, state: AlikeSearchState, **result: object) -> None:
    AlikeSearch.objects.filter(id=row.id, finished_at=None).update(state=state, finished_at=Now(), phase=None, **result)
