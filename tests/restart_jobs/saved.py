"""Restart jobs that are due, messages that wait for a decision, and running the jobs."""

from datetime import UTC, datetime
from typing import Any

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.operations import carry_on
from poisonadmin.decisions.restart_jobs.commands import run_due, run_once, save_restart_job
from poisonadmin.decisions.restart_jobs.queries import RestartRunRow, list_runs
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.restart_job import RestartJob, RestartRun
from tests.fixtures.decisions import quarantine
from tests.fixtures.delivery import answer, claim, enqueue


def save(name: str = "nightly", **fields: Any) -> RestartJob:
    """Save a restart job that is due every minute, and make it due now."""
    defaults: dict[str, Any] = {
        "schedule": "* * * * *",
        "action": "approve",
        "reason": "the consumer is up again",
        "is_enabled": True,
        "principal": SYSTEM,
    }
    job = save_restart_job(fields.pop("name", name), **defaults | fields)
    make_due()
    return job


def make_due() -> None:
    """Let the time of every restart job that has a schedule have come."""
    RestartJob.objects.exclude(schedule=None).update(next_at=datetime(2020, 1, 1, tzinfo=UTC))


def undecided(number: int = 1, **fields: Any) -> list[int]:
    """Make messages that wait for a decision."""
    ids = enqueue(number, **fields)
    quarantine(ids, principal=SYSTEM, reason="test")
    return ids


def run_all() -> list[RestartRun]:
    """Begin the runs that are due, and carry their operations out as far as they go; return the runs."""
    runs = run_due()
    carry_on()
    return runs


def listed(job: RestartJob) -> list[RestartRunRow]:
    """Return the runs of the job, newest first."""
    return list_runs(job.id, principal=SYSTEM).results


def decide(job: RestartJob) -> RestartRunRow:
    """Run the job now, carry its operation out, and return the run as it is listed."""
    run_once(job.id, principal=SYSTEM)
    carry_on()
    return listed(job)[0]


def finish(ids: list[int], outcome: str = "delivered") -> None:
    """Have messages that are due delivered, or fail."""
    claim()
    answer(ids, outcome)
    settle()
    carry_on()


def deliver() -> None:
    """Have whatever is due delivered, so that the operations on it are over."""
    ids = list(Message.objects.filter(state="TBDL").values_list("id", flat=True))
    if ids:
        finish(ids)
