"""Restart jobs: which may be saved, by whom, and when they are due (SAP-13)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from poisonadmin.core.commands.schedules import next_run
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Permission, Principal, Role, principal
from poisonadmin.core.domain.errors import NotFound, PreconditionFailed
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.decisions.restart_jobs.commands import (
    InvalidRestartJob,
    delete_restart_job,
    freeze_for_preview,
    run_once,
)
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.restart_job import Restart, RestartJob, RestartRun
from tests.restart_jobs.saved import make_due, run_all, save, undecided

pytestmark = pytest.mark.django_db


def test_a_new_job_is_switched_off_and_needs_no_schedule(db: None) -> None:
    job = save(schedule=None, is_enabled=False)
    assert (job.is_enabled, job.schedule, job.next_at) == (False, None, None)
    make_due()
    assert run_all() == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"schedule": "hourly"}, "schedule"),
        ({"schedule": "61 * * * *"}, "schedule"),
        ({"schedule": "0 0 30 2 *"}, "schedule"),
        ({"schedule": "* * * * * *"}, "schedule"),
        ({"schedule": None, "is_enabled": True}, "schedule"),
        ({"max_restarts": 0}, "max_restarts"),
        ({"max_restarts": 10**9}, "max_restarts"),
        ({"name": ""}, "name"),
        ({"reason": " "}, "reason"),
        ({"reason": "x" * 2001}, "reason"),
        ({"action": "restore"}, "action"),
        ({"action": "fail", "rate_per_second": 5.0}, "rate_per_second"),
        ({"rate_per_second": 0.0}, "rate_per_second"),
        ({"action": "fail", "canary": True}, "canary"),
        ({"limit": 0}, "limit"),
        ({"limit": 10**8}, "limit"),
        ({"order": "largest"}, "order"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRestartJob) as raised:
        save(**fields)
    assert raised.value.field == field
    assert not RestartJob.objects.exists()


@pytest.mark.parametrize("asked", [{"state": ["FAIL"]}, {"colour": ["red"]}, {"group": ["x"]}, {"q": ["age:soon"]}])
def test_a_filter_that_means_nothing_is_refused(asked: dict[str, list[str]]) -> None:
    with pytest.raises(InvalidFilter):
        save(filter=asked)


@pytest.mark.parametrize(
    "who",
    [
        principal("o", Role.OPERATOR),
        principal("a", Role.ADMIN, ["orders.#"]),
        Principal("t", Role.ADMIN, frozenset({Permission.READ, Permission.CONFIGURE})),
    ],
    ids=["operator", "limited administrator", "token that may not decide"],
)
def test_only_who_may_configure_and_decide_everywhere_sets_jobs_up(destination: str, who: Principal) -> None:
    job = save()
    for command in (delete_restart_job, run_once, freeze_for_preview):
        with pytest.raises(NotAllowed):
            command(job.id, principal=who)
    with pytest.raises(NotAllowed):
        save(principal=who)


def test_a_job_is_deleted_with_its_counts_and_its_runs(destination: str) -> None:
    undecided()
    job = save()
    assert len(run_all()) == 1
    assert Restart.objects.exists()
    delete_restart_job(job.id, principal=SYSTEM)
    assert not Restart.objects.exists()
    assert not RestartRun.objects.exists()
    with pytest.raises(NotFound):
        run_once(job.id, principal=SYSTEM)
    assert list(Audit.objects.filter(object_type="restart_job").values_list("action", flat=True).order_by("id")) == [
        "restart_job.saved",
        "restart_job.deleted",
    ]


def test_nobody_overwrites_another_s_change(destination: str) -> None:
    save()
    save()
    with pytest.raises(PreconditionFailed):
        save(expected_version=1)


def test_a_schedule_is_read_in_utc() -> None:
    assert next_run("30 4 * * 1-5", datetime(2026, 3, 27, 5, 0, tzinfo=UTC)) == datetime(2026, 3, 30, 4, 30, tzinfo=UTC)
