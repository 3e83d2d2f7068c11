"""Requests and turns of runs of a kind that nothing else has."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from poisonadmin.core.domain.access import SYSTEM, Permission, Principal
from poisonadmin.runs.commands.engine import CleanUp, RunTurn, RunWork, carry_out
from poisonadmin.runs.commands.requests import cancel_run, request_run
from poisonadmin.runs.domain.kinds import KindName, RunKind
from poisonadmin.store.models.run import LongRun

KIND = RunKind(
    KindName.DRY_RUN,
    noun="trial",
    audited_as="trial.{}",
    audited_object="trial",
    first_phase="beginning",
    cancelled_by=Permission.CONFIGURE,
)
IN_TURNS = replace(KIND, slice_seconds=0.0)
BRIEF = replace(KIND, max_open=2, max_kept=3, kept=timedelta(hours=1))
PATIENT = replace(KIND, resumes_after=timedelta(minutes=1), max_tries=None)


def requested(kind: RunKind = KIND, principal: Principal = SYSTEM, **params: Any) -> int:
    return request_run(kind, params, principal=principal).id


def cancelled(run_id: int, kind: RunKind = KIND, principal: Principal = SYSTEM) -> None:
    cancel_run(kind, run_id, principal=principal)


def turn(
    work: Callable[[RunTurn], object],
    kind: RunKind = KIND,
    *,
    clean_up: CleanUp | None = None,
    worker: str = "tests",
    **how: Any,
) -> None:
    """Give the runs of a kind their turns."""
    carry_out(RunWork(kind, work, clean_up), worker=worker, **how)


def stored(run_id: int) -> LongRun:
    return LongRun.objects.get(id=run_id)


def finish(this: RunTurn) -> None:
    this.finish({"n": 1})


def count_to(last: int) -> Callable[[RunTurn], None]:
    """Return a work that counts on from its position, a number at a time, as long as it may."""

    def count(this: RunTurn) -> None:
        for number in range(this.run.position.get("at", 0), last):
            if this.must_pause():
                return
            this.store(position={"at": number + 1}, result={"n": number + 1}, done=number + 1)
        this.finish({"n": last})

    return count
