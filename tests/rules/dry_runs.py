"""Dry runs that tests carry out, or let end."""

from collections.abc import Callable, Sequence
from typing import Any

from django.db.models.functions import Now

from poisonadmin.rules.commands import Examine, dry_run_work
from poisonadmin.runs.commands.engine import carry_out
from poisonadmin.store.models.run import LongRun


def dry_run_due(
    examine: Examine, *, worker: str = "tests", is_stopping: Callable[[], bool] = lambda: False, seconds: float = 60
) -> None:
    """Carry out the dry runs that are requested."""
    carry_out(dry_run_work(examine), worker=worker, is_stopping=is_stopping, seconds=seconds)


def end_dry_run(*, read: int, matched: int, found: Sequence[Any] = ()) -> None:
    """Let the dry runs have ended with this result."""
    result = {"read": read, "matched": matched, "found": list(found)}
    LongRun.objects.filter(kind="dry_run").update(state="succeeded", ended_at=Now(), result=result)
