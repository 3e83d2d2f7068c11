"""A run of a restart job is an operation: when one begins, and what it says when it does not."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections

from poisonadmin.addresses.commands import pause, resume
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands import beginning
from poisonadmin.decisions.operations.commands.beginning import OperationTerms
from poisonadmin.decisions.operations.commands.operations import carry_on, change
from poisonadmin.decisions.operations.domain.lifecycle import Ledger, OperationChange
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.decisions.restart_jobs import commands
from poisonadmin.decisions.restart_jobs.commands import (
    InvalidRestartJob,
    delete_restart_job,
    freeze_for_preview,
    run_due,
    run_once,
)
from poisonadmin.decisions.restart_jobs.queries import get_restart_job
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.history import History
from poisonadmin.store.models.operation import Operation, OperationPace
from poisonadmin.store.models.restart_job import Restart, RestartJob
from tests.fixtures.delivery import answer, claim, counted, counters, end_nodes, make_destination, states
from tests.restart_jobs.saved import decide, deliver, finish, listed, make_due, run_all, save, undecided

pytestmark = pytest.mark.django_db
WHY: dict[str, Any] = {"principal": SYSTEM, "reason": "test"}


def test_a_due_job_begins_an_operation_on_what_its_filter_finds(destination: str) -> None:
    mine, other = undecided(2, conversation_id="a"), undecided(1, conversation_id="b")
    job = save(filter={"q": ["conversation:a"], "address": ["orders.#"]}, rate_per_second=50.0)
    [run] = run_all()
    assert states([*mine, *other]) == ["TBDL", "TBDL", "NDLV"]
    operation = get_operation(run.operation_id or 0, principal=SYSTEM)
    assert (operation.action, operation.count, operation.reason) == ("approve", 2, "the consumer is up again")
    assert (operation.requested_by, operation.restart_job_id) == ("restart job nightly", job.id)
    assert operation.rate_per_second == 50.0
    decision = History.objects.filter(message_id=mine[0], event="approved").get()
    assert (decision.actor, decision.note, decision.operation_id) == (
        "restart job nightly",
        "the consumer is up again",
        operation.id,
    )
    assert list(Audit.objects.filter(actor="restart job nightly").values_list("action", flat=True)) == [
        "operation.begun"
    ]
    after = get_restart_job(job.id, principal=SYSTEM)
    assert (after.last_operation_id, after.last_outcome, after.is_running) == (operation.id, "begun", True)
    assert after.next_at is not None
    assert after.next_at > run.at
    assert counted() == counters()
    finish(mine)
    assert get_restart_job(job.id, principal=SYSTEM).is_running is False
    [shown] = listed(job)
    assert (shown.state, shown.count, shown.ledger) == ("completed", 2, Ledger(delivered=2))


def test_a_job_may_mark_fail(destination: str) -> None:
    ids = undecided(2)
    job = save(action="fail")
    assert decide(job).ledger == Ledger(changed=2)
    assert states(ids) == ["FAIL", "FAIL"]


def test_a_job_that_is_not_due_or_switched_off_does_nothing_until_it_is_run_once(destination: str) -> None:
    [message] = undecided()
    job = save()
    RestartJob.objects.update(next_at=datetime(2100, 1, 1, tzinfo=UTC))
    assert run_all() == []
    save(is_enabled=False)
    assert run_all() == []
    assert states([message]) == ["NDLV"]
    run = run_once(job.id, principal=SYSTEM)
    assert (run.outcome, run.asked_by) == ("begun", "system")
    assert states([message]) == ["TBDL"]
    asked = Audit.objects.get(action="restart_job.run")
    assert (asked.object_id, asked.details) == ("nightly", {"outcome": "begun", "operation": run.operation_id})


def test_what_it_finds_nothing_for_is_listed_and_is_no_operation(destination: str) -> None:
    job = save()
    assert [run.outcome for run in run_all()] == ["nothing"]
    assert not Operation.objects.exists()
    assert [run.state for run in listed(job)] == [None]


def test_a_run_is_skipped_while_an_earlier_one_has_not_decided_on_all_its_messages(
    destination: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beginning, "DECIDED_AT_ONCE", 0)
    undecided()
    job = save()
    [first] = run_due()
    undecided()
    make_due()
    [second] = run_due()
    assert second.outcome == "skipped"
    assert second.detail == f"Operation #{first.operation_id} of an earlier run still has messages to begin with."
    assert run_once(job.id, principal=SYSTEM).outcome == "skipped"
    assert get_restart_job(job.id, principal=SYSTEM).is_running is True
    assert Operation.objects.count() == 1
    carry_on()
    make_due()
    assert [run.outcome for run in run_all()] == ["begun"]


def test_messages_that_wait_for_days_for_their_next_attempt_keep_no_run_from_beginning(db: None) -> None:
    make_destination(redelivery_delay=3 * 86_400_000, max_redelivery_delay=3 * 86_400_000)
    waiting = undecided(2)
    job = save(max_restarts=5)
    [first] = run_all()
    finish(waiting, "failed")
    assert states(waiting) == ["TBDL", "TBDL"]
    fresh = undecided()
    make_due()
    [second] = run_all()
    assert (second.outcome, states(fresh)) == ("begun", ["TBDL"])
    assert [(run.operation_id, run.count, run.ledger) for run in listed(job)] == [
        (second.operation_id, 1, Ledger(unanswered=1)),
        (first.operation_id, 2, Ledger(waiting=2)),
    ], "each run keeps its own ledger, and the first one's operation stays open"
    assert counted() == counters()


def test_what_a_rate_holds_back_keeps_the_next_run_from_beginning_also_on_a_paused_address(destination: str) -> None:
    ids = undecided(2)
    save(rate_per_second=50.0)
    assert [run.outcome for run in run_all()] == ["begun"]
    pause("orders.eu", principal=SYSTEM, reason="maintenance")
    undecided()
    make_due()
    assert [run.outcome for run in run_all()] == ["skipped"]
    resume("orders.eu", principal=SYSTEM, reason="done")
    OperationPace.objects.update(next_slot="2020-01-01T00:00:00Z")
    finish(ids)
    make_due()
    assert [run.outcome for run in run_all()] == ["begun"]


@pytest.mark.parametrize(
    ("state", "why"),
    [("paused", "is paused"), ("halted", "is halted"), ("waiting_for_sign_off", "waits for a sign-off")],
)
def test_a_run_is_skipped_while_a_person_has_to_look_at_an_earlier_one(destination: str, state: str, why: str) -> None:
    undecided()
    save()
    [first] = run_all()
    Operation.objects.update(state=state, sign_off_expires_at=datetime(2100, 1, 1, tzinfo=UTC))
    make_due()
    [second] = run_all()
    assert second.detail == f"Operation #{first.operation_id} of an earlier run {why}."


@pytest.mark.conformance("R16")
def test_a_run_begins_once_nothing_of_a_cancelled_operation_is_under_way_any_more(destination: str) -> None:
    ids = undecided()
    save(max_restarts=2)
    [first] = run_all()
    taken = claim()
    change(first.operation_id or 0, OperationChange.CANCEL, reason="not tonight", principal=SYSTEM)
    carry_on()
    assert states(ids) == ["DLNG"]
    undecided()
    make_due()
    [second] = run_all()
    assert second.detail == f"Operation #{first.operation_id} of an earlier run is cancelling."
    answer(ids)
    end_nodes(taken)
    settle()
    carry_on()
    make_due()
    assert [run.outcome for run in run_all()] == ["begun"]


def test_a_job_in_trouble_does_not_keep_the_others_from_their_turn(
    destination: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = undecided(2)
    refused, broken = save("a refused one"), save("b broken one")
    sound = save("c sound one")
    RestartJob.objects.filter(id=refused.id).update(filter={"group": ["x"]})
    begin = commands.begin

    def begin_or_break(*args: Any, terms: OperationTerms, **more: Any) -> int:
        assert terms.run_of is not None
        return 1 // 0 if terms.run_of.restart_job_id == broken.id else begin(*args, terms=terms, **more)

    monkeypatch.setattr(commands, "begin", begin_or_break)
    with pytest.raises(ZeroDivisionError):
        run_due()
    assert states(ids) == ["TBDL", "TBDL"]
    shown = [(run.outcome, run.detail) for job in (refused, broken, sound) for run in listed(job)]
    assert shown == [
        ("failed", "'x' is not an id."),
        ("failed", "ZeroDivisionError: integer division or modulo by zero"),
        ("begun", None),
    ]
    assert run_due() == [], "each is due again by its schedule"


@pytest.mark.django_db(transaction=True)  # the preview is to be later than the job
def test_a_run_on_a_preview_decides_on_what_was_seen(destination: str) -> None:
    seen = undecided(2)
    job = save()
    selection = freeze_for_preview(job.id, principal=SYSTEM)
    [later] = undecided()
    run = run_once(job.id, principal=SYSTEM, selection_id=selection)
    assert run.outcome == "begun"
    assert states([*seen, later]) == ["TBDL", "TBDL", "NDLV"]


def test_a_preview_of_another_job_or_of_before_a_run_is_refused(destination: str) -> None:
    undecided()
    job, other = save(), save("other")
    foreign = freeze_for_preview(other.id, principal=SYSTEM)
    stale = freeze_for_preview(job.id, principal=SYSTEM)
    by_hand = freeze({"state": ["NDLV"]}, principal=SYSTEM)
    run_once(job.id, principal=SYSTEM)
    deliver()
    for selection in (foreign, stale, by_hand, 10**9):
        with pytest.raises(InvalidRestartJob):
            run_once(job.id, principal=SYSTEM, selection_id=selection)


def test_changing_or_deleting_a_job_leaves_its_operation_alone(
    destination: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beginning, "DECIDED_AT_ONCE", 0)
    ids = undecided(2)
    job = save()
    run_due()
    save(is_enabled=False)
    delete_restart_job(job.id, principal=SYSTEM)
    carry_on()
    assert states(ids) == ["TBDL", "TBDL"]
    assert not Restart.objects.exists()
    assert Operation.objects.get().restart_job_id is None


@pytest.mark.django_db(transaction=True)
def test_of_many_who_run_a_job_at_once_one_begins_an_operation(
    destination: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beginning, "DECIDED_AT_ONCE", 0)
    undecided(3)
    job = save(schedule="0 4 * * *")  # one that is not due again while this runs

    def run(number: int) -> None:
        try:
            run_once(job.id, principal=SYSTEM) if number % 2 else run_due()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(run, range(8)))
    assert Counter(run.outcome for run in listed(job)) == {"begun": 1, "skipped": 4}, "four people, and one schedule"
    assert Operation.objects.count() == 1
