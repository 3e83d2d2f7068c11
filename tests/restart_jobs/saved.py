"""Restart jobs that are due, messages that wait for a decision, and running the jobs."""

from datetime import UTC, datetime
from typing import Any

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.operations.commands.operations import carry_on
from poisonadmin.restart_jobs.commands.restart_jobs import save_restart_job
from poisonadmin.restart_jobs.commands.runs import run_due
from poisonadmin.store.models.restart_job import RestartJob, RestartRun
from tests.fixtures.decisions import quarantine
from tests.fixtures.delivery import enqueue


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
