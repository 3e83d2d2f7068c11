"""Restart jobs: what they approve, how often, and that nothing stops them half-way (SEMANTICS SAP-13)."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from django.db import connection

from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Role, principal
from poisonadmin.core.domain.errors import NotFound, PreconditionFailed
from poisonadmin.core.queries.filter_values import InvalidFilter
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.restart_jobs import commands
from poisonadmin.restart_jobs.commands import (
    InvalidRestartJob,
    delete_restart_job,
    next_run,
    restart_due,
    run_soon,
    save_restart_job,
)
from poisonadmin.restart_jobs.queries import count_restartable, get_restart_job
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.history import History
from poisonadmin.store.models.job import Job
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.poison import PoisonEntry
from poisonadmin.store.models.rule import Restart, RestartJob
from tests.fixtures.decisions import quarantine
from tests.fixtures.delivery import answer, claim, counted, counters, enqueue, make_destination, states

pytestmark = pytest.mark.django_db

WHY: dict[str, Any] = {"principal": SYSTEM, "reason": "test"}


def save(name: str = "nightly", **fields: Any) -> RestartJob:
    """Save a restart job that is due every minute, and make it due now."""
    defaults: dict[str, Any] = {
        "schedule": "* * * * *",
        "filter": {},
        "include_blacklisted": False,
        "max_restarts": 1,
        "is_enabled": True,
    }
    row = save_restart_job(name, **defaults | fields, principal=SYSTEM)
    make_due()
    return row


def make_due() -> None:
    """Let the time of every restart job have come."""
    RestartJob.objects.update(next_at=datetime(2020, 1, 1, tzinfo=UTC))


def undecided(number: int = 1, **fields: Any) -> list[int]:
    """Make messages that wait for a decision."""
    ids = enqueue(number, **fields)
    quarantine(ids, **WHY)
    return ids


def run(**more: Any) -> tuple[int, int]:
    """Run what is due; return how many were approved and refused."""
    done = restart_due(worker="tests", **more)
    return done.approved, done.refused


def test_a_due_job_approves_what_its_filter_finds(destination: str) -> None:
    mine, other = undecided(2, conversation_id="a"), undecided(1, conversation_id="b")
    row = save(filter={"conversation_id": ["a"], "address": ["orders.#"]})
    assert run() == (2, 0)
    assert states([*mine, *other]) == ["TBDL", "TBDL", "NDLV"]
    change = History.objects.filter(message_id=mine[0], event="approved").get()
    assert (change.actor, change.note) == ("restart job nightly", "restarted by schedule")
    assert Audit.objects.filter(action="message.approved", actor="restart job nightly").count() == 2
    [job] = Job.objects.filter(kind="restart")
    assert (job.state, job.params, job.counts) == (
        "succeeded",
        {"restart_job": "nightly"},
        {"approved": 2, "refused": 0},
    )
    after = get_restart_job(row.id, principal=SYSTEM)
    assert (after.is_running, after.last_counts) == (False, {"approved": 2, "refused": 0})
    assert after.next_at is not None
    assert after.next_at > datetime.now(UTC)
    assert counted() == counters()


def test_a_job_that_is_not_due_or_switched_off_does_nothing(destination: str) -> None:
    [message] = undecided()
    row = save()
    RestartJob.objects.update(next_at=datetime(2100, 1, 1, tzinfo=UTC))
    assert run() == (0, 0)
    save(is_enabled=False)
    assert run() == (0, 0)
    assert states([message]) == ["NDLV"]
    assert not Job.objects.filter(kind="restart").exists()
    run_soon(row.id, principal=SYSTEM)
    assert run() == (1, 0)


def test_a_message_is_approved_so_often_and_no_more(destination: str) -> None:
    [message] = undecided()
    row = save(max_restarts=2)
    for approved in (1, 1, 0):
        make_due()
        assert run() == (approved, 0)
        quarantine([message], **WHY)
    assert Restart.objects.get().times == 2
    assert count_restartable(get_restart_job(row.id, principal=SYSTEM)).n == 0
    other = save("other", max_restarts=1)
    assert run() == (1, 0)
    assert Restart.objects.filter(restart_job_id=other.id).get().times == 1


def test_blacklisted_messages_are_approved_only_where_the_job_includes_them(destination: str) -> None:
    suspect, plain = undecided(2)
    Message.objects.filter(id=suspect).update(reason="blacklisted")
    save()
    assert run() == (1, 0)
    assert states([suspect, plain]) == ["NDLV", "TBDL"]
    save(include_blacklisted=True)
    assert run() == (1, 0)
    assert states([suspect]) == ["TBDL"]


@pytest.mark.conformance("SAP-p")
def test_what_crashed_under_a_policy_that_counts_crashes_as_failures_is_not_restarted(db: None) -> None:
    settings = {"crashes_count_as_failures": True, "blacklisting_enabled": False, "max_delivery_attempts": 1}
    make_destination(**settings, on_exhausted="park")
    [crashed] = enqueue()
    claim()
    answer([crashed], "crashed", error_class="HandlerKilled", fingerprint="c" * 16, title="killed")
    settle()
    assert states([crashed]) == ["NDLV"]
    row = save()
    assert (count_restartable(get_restart_job(row.id, principal=SYSTEM)).n, run()) == (0, (0, 0))


@pytest.mark.conformance("SAP-p")
def test_sap_p_what_crashed_its_consumer_counts_as_blacklisted_whatever_its_reason(destination: str) -> None:
    blacklisted, listed, reported, suspected, exhausted = undecided(5)
    Message.objects.filter(id=blacklisted).update(reason="blacklisted", crash_count=2)
    Message.objects.filter(id=listed).update(reason="listed", crash_count=1, candidate=True)
    Message.objects.filter(id=reported).update(reason="listed")
    PoisonEntry.objects.create(
        source="orders.eu", bookmark="B1", why="Fatal error.", is_fatal=True, crashes=1, message_id=reported
    )
    Message.objects.filter(id=suspected).update(reason="attempts_exhausted", candidate=True)
    Message.objects.filter(id=exhausted).update(reason="attempts_exhausted")
    row = save()
    assert count_restartable(get_restart_job(row.id, principal=SYSTEM)).n == 2
    assert run() == (2, 0)
    assert states([blacklisted, listed, reported, suspected, exhausted]) == ["NDLV", "NDLV", "NDLV", "TBDL", "TBDL"]


def test_what_cannot_be_delivered_is_refused_and_counted(destination: str) -> None:
    nowhere = undecided(3, address="parked")
    save()
    assert run() == (0, 3)
    assert states(nowhere) == ["NDLV"] * 3
    assert not Restart.objects.exists()


def test_a_run_that_is_cut_off_goes_on_where_it_was(destination: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MESSAGES_A_BATCH", 2)
    ids = undecided(5)
    parked = undecided(2, address="parked")
    row = save()
    ticks: Iterator[int] = count()
    assert run(seconds=3, clock=lambda: float(next(ticks))) == (2, 0)
    assert get_restart_job(row.id, principal=SYSTEM).is_running
    assert run() == (3, 2)
    assert states([*ids, *parked]) == ["TBDL"] * 5 + ["NDLV"] * 2
    assert get_restart_job(row.id, principal=SYSTEM).last_counts == {"approved": 5, "refused": 2}
    assert [job.counts["approved"] for job in Job.objects.filter(kind="restart").order_by("id")] == [2, 3]
    assert run() == (0, 0)


def test_a_job_in_trouble_does_not_keep_the_others_from_their_turn(destination: str) -> None:
    undecided(2)
    broken = save("a broken one")
    RestartJob.objects.filter(id=broken.id).update(filter={"group": ["x"]}, last_at=None)
    save("b sound one")
    with pytest.raises(InvalidFilter):
        run()
    assert states(list(Message.objects.values_list("id", flat=True))) == ["TBDL", "TBDL"]
    assert [job.state for job in Job.objects.filter(kind="restart").order_by("id")] == ["failed", "succeeded"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"schedule": "hourly"}, "schedule"),
        ({"schedule": "61 * * * *"}, "schedule"),
        ({"schedule": "0 0 30 2 *"}, "schedule"),
        ({"schedule": "* * * * * *"}, "schedule"),
        ({"max_restarts": 0}, "max_restarts"),
        ({"max_restarts": 10**9}, "max_restarts"),
        ({"name": ""}, "name"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRestartJob) as raised:
        save(**fields)
    assert raised.value.field == field
    assert not RestartJob.objects.exists()


@pytest.mark.parametrize("asked", [{"state": ["FAIL"]}, {"colour": ["red"]}, {"group": ["x"]}])
def test_a_filter_that_means_nothing_is_refused(asked: dict[str, list[str]]) -> None:
    with pytest.raises(InvalidFilter):
        save(filter=asked)


def test_only_who_may_configure_everything_sets_jobs_up(destination: str) -> None:
    row = save()
    for who in (principal("o", Role.OPERATOR), principal("a", Role.ADMIN, ["orders.#"])):
        with pytest.raises(NotAllowed):
            delete_restart_job(row.id, principal=who)
    delete_restart_job(row.id, principal=SYSTEM)
    with pytest.raises(NotFound):
        run_soon(row.id, principal=SYSTEM)
    assert list(Audit.objects.values_list("action", flat=True).order_by("id"))[-2:] == [
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


def test_the_count_of_restarts_is_bound_to_the_job(destination: str) -> None:
    undecided()
    row = save()
    run()
    delete_restart_job(row.id, principal=SYSTEM)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM restart")
        assert cursor.fetchone()[0] == 0
