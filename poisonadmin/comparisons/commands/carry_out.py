"""Carrying comparisons out: messages are chosen here, and compared by whoever can (Spark).

A comparison is done in one go of some seconds. One that is cut off is begun anew, the same messages being chosen.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from poisonadmin.comparisons.domain.comparison import Compared, ComparisonAnswer, ComparisonState
from poisonadmin.comparisons.queries.chosen import Chosen, choose_failing, choose_others, compared, delivered_beside
from poisonadmin.core.commands import jobs
from poisonadmin.core.commands.job_work import TURN_SECONDS, working_on
from poisonadmin.core.commands.jobs import JobHeartbeat
from poisonadmin.core.commands.locks import shared
from poisonadmin.core.domain.access import Permission, Principal, Role
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.store.models.comparison import Comparison
from poisonadmin.store.models.job import JobKind

Report = Callable[[str], None]
Compare = Callable[[Compared, Report], ComparisonAnswer]
"""Compares messages, and says what it does next to the second argument. Passed in: what compares (workers) imports
this package."""

# One that ends its worker each time is given up.
MAX_TRIES = 3
_FIRST_PHASE = "choosing messages"


class _Ended(Exception):
    """Raised when a comparison was cancelled, or its worker is to stop."""


@dataclass(frozen=True)
class _ComparisonTry:
    row: Comparison
    job_id: int
    is_stopping: Callable[[], bool]

    def report(self, phase: str) -> None:
        """Say what is done next; raise `_Ended` where nothing is to be."""
        changed = Comparison.objects.filter(id=self.row.id, state=ComparisonState.RUNNING).update(phase=phase)
        jobs.move(self.job_id, phase=phase)
        if not changed or self.is_stopping():
            raise _Ended


def is_any_due() -> bool:
    """Return whether a comparison is asked for: one query, for who looks often."""
    return _due().exists()


def _due() -> QuerySet[Comparison]:
    return Comparison.objects.filter(finished_at=None)


def compare_due(
    compare: Compare,
    *,
    worker: str,
    keeper: JobHeartbeat | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
    seconds: float = TURN_SECONDS,
) -> None:
    """Carry out comparisons that are asked for, one after the other, for about `seconds`. Call under
    `single_flight(Tick.COMPARE)`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not is_stopping():
        row = _due().order_by("id").first()
        if row is None:
            return
        if row.tries >= MAX_TRIES:
            _end(row, ComparisonState.FAILED, error=f"It was begun {MAX_TRIES} times, and ended its worker each time.")
            continue
        with shared(Lock.TABLES) as may_read:
            if not may_read:  # rows move to the archive just now
                return
            _try(row, compare, worker=worker, keeper=keeper, is_stopping=is_stopping)


def _try(
    row: Comparison, compare: Compare, *, worker: str, keeper: JobHeartbeat | None, is_stopping: Callable[[], bool]
) -> None:
    job_id = _begin(row, worker)
    with working_on(job_id, fail=partial(_fail, row, job_id), keeper=keeper, is_stopping=is_stopping):
        try:
            _carry_out(_ComparisonTry(row, job_id, is_stopping), compare)
        except Exception as error:
            if not (isinstance(error, _Ended) or is_stopping()):
                raise
            _put_down(row, job_id)


def _begin(row: Comparison, worker: str) -> int:
    """Say that the comparison is under way, and return its job, a new one where the former went with its worker."""
    if row.job_id is not None:
        jobs.cancel(row.job_id)
    with transaction.atomic():
        params = {"comparison": row.id}
        job_id = jobs.begin(JobKind.COMPARE, worker=worker, params=params, phase=_FIRST_PHASE, by=row.requested_by)
        Comparison.objects.filter(id=row.id, finished_at=None).update(
            state=ComparisonState.RUNNING, phase=_FIRST_PHASE, tries=F("tries") + 1, job_id=job_id
        )
    return job_id


def _carry_out(run: _ComparisonTry, compare: Compare) -> None:
    row, principal = run.row, _principal(run.row)
    failing = choose_failing(row.selection_id, seed=row.id, principal=principal)
    if not failing.ids:
        raise PoisonAdminError("None of the messages is there any more.")
    run.report(_FIRST_PHASE)
    against, others = _others(row, failing, principal)
    Comparison.objects.filter(id=row.id, state=ComparisonState.RUNNING).update(
        against=against,
        failing_count=failing.count,
        others_count=others.count,
        address_ids=sorted({*row.address_ids, *failing.address_ids, *others.address_ids}),
    )
    run.report("starting Spark")
    answer = ComparisonAnswer(len(failing.ids), 0, 0, 0, [])
    if others.ids:
        # What was delivered elsewhere is at other addresses because we looked there.
        told_apart_by = ("address",) if row.is_against_delivered and "address" not in against else ()
        both = compared(
            failing, others, with_payload=row.with_payload, principal=principal, told_apart_by=told_apart_by
        )
        answer = compare(both, run.report)
    with transaction.atomic():
        _end(
            row,
            ComparisonState.DONE,
            failing=answer.failing,
            others=answer.others,
            fields=answer.fields,
            tested=answer.tested,
            findings=[one.as_json() for one in answer.findings],
        )
        count = answer.failing + answer.others
        jobs.succeed(run.job_id, counts={"compared": count, "findings": len(answer.findings)}, done=count)


def _others(row: Comparison, failing: Chosen, principal: Principal) -> tuple[dict[str, list[str]], Chosen]:
    """Return what the failing messages are compared with, as a filter and as ids."""
    against = delivered_beside(failing, principal=principal) if row.is_against_delivered else dict(row.against or {})
    others = choose_others(against, row.selection_id, seed=row.id, principal=principal)
    if not others.ids and row.is_against_delivered:
        # Where everything fails, what was delivered elsewhere still tells what is special here.
        against = {name: texts for name, texts in against.items() if name != "address"}
        others = choose_others(against, row.selection_id, seed=row.id, principal=principal)
    return against, others


def _principal(row: Comparison) -> Principal:
    """Return who asked, with the rights of then."""
    permissions = {Permission.READ, *([Permission.READ_PAYLOAD] if row.with_payload else [])}
    patterns = tuple(tuple(some) for some in row.patterns)
    return Principal(row.requested_by, Role.VIEWER, frozenset(permissions), patterns, user=row.account)


def _put_down(row: Comparison, job_id: int) -> None:
    """Leave a comparison that was cancelled as it is, and another one to the next worker: this try does not count."""
    Comparison.objects.filter(id=row.id, finished_at=None).update(
        state=ComparisonState.QUEUED, phase=None, tries=F("tries") - 1
    )
    jobs.cancel(job_id)


def _fail(row: Comparison, job_id: int, error: str) -> None:
    with transaction.atomic():
        _end(row, ComparisonState.FAILED, error=error[:4000])
        jobs.fail(job_id, error=error)


def _end(row: Comparison, state: ComparisonState, **result: object) -> None:
    Comparison.objects.filter(id=row.id, finished_at=None).update(state=state, finished_at=Now(), phase=None, **result)
