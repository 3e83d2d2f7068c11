"""Which messages the runs of a restart job decide on, how many at once, and how often."""

from datetime import UTC, datetime
from typing import Any

import pytest

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands import beginning
from poisonadmin.decisions.operations.commands.operations import carry_on, change
from poisonadmin.decisions.operations.domain.lifecycle import Ledger, OperationChange
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.decisions.restart_jobs.commands import freeze_for_preview, run_due, run_once
from poisonadmin.decisions.restart_jobs.queries import count_restartable, get_restart_job
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.operation import Selection
from poisonadmin.store.models.poison import PoisonEntry
from poisonadmin.store.models.restart_job import Restart
from tests.fixtures.decisions import quarantine
from tests.fixtures.delivery import answer, claim, enqueue, make_destination, states
from tests.restart_jobs.saved import decide, deliver, listed, make_due, run_all, save, undecided

pytestmark = pytest.mark.django_db
WHY: dict[str, Any] = {"principal": SYSTEM, "reason": "test"}


def test_a_message_is_decided_on_so_often_and_no_more(destination: str) -> None:
    [message] = undecided()
    job = save(max_restarts=2)
    for outcome in ("begun", "begun", "nothing"):
        make_due()
        assert [run.outcome for run in run_all()] == [outcome]
        if outcome == "begun":
            quarantine([message], **WHY)
            carry_on()
    assert Restart.objects.get().times == 2
    assert count_restartable(get_restart_job(job.id, principal=SYSTEM)).n == 0
    other = save("other")
    assert decide(other).count == 1
    assert Restart.objects.filter(restart_job_id=other.id).get().times == 1


def test_what_is_cancelled_before_it_began_may_be_decided_on_again(destination: str) -> None:
    ids = undecided(2)
    job = save()
    [run] = run_all()
    change(run.operation_id or 0, OperationChange.CANCEL, reason="not tonight", principal=SYSTEM)
    carry_on()
    assert states(ids) == ["NDLV", "NDLV"]
    assert set(Restart.objects.values_list("times", flat=True)) == {0}
    assert decide(job).count == 2


def test_blacklisted_messages_are_decided_on_only_where_the_job_includes_them(destination: str) -> None:
    suspect, plain = undecided(2)
    Message.objects.filter(id=suspect).update(reason="blacklisted")
    job = save()
    assert decide(job).count == 1
    assert states([suspect, plain]) == ["NDLV", "TBDL"]
    deliver()
    save(include_blacklisted=True)
    assert decide(job).count == 1
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
    job = save()
    assert count_restartable(get_restart_job(job.id, principal=SYSTEM)).n == 0
    assert [run.outcome for run in run_all()] == ["nothing"]


@pytest.mark.conformance("SAP-p")
def test_sap_p_what_crashed_its_consumer_counts_as_blacklisted_whatever_its_reason(destination: str) -> None:
    blacklisted, listed_, reported, suspected, exhausted = undecided(5)
    Message.objects.filter(id=blacklisted).update(reason="blacklisted", crash_count=2)
    Message.objects.filter(id=listed_).update(reason="listed", crash_count=1, candidate=True)
    Message.objects.filter(id=reported).update(reason="listed")
    PoisonEntry.objects.create(
        source="orders.eu", bookmark="B1", why="Fatal error.", is_fatal=True, crashes=1, message_id=reported
    )
    Message.objects.filter(id=suspected).update(reason="attempts_exhausted", candidate=True)
    Message.objects.filter(id=exhausted).update(reason="attempts_exhausted")
    job = save()
    assert count_restartable(get_restart_job(job.id, principal=SYSTEM)).n == 2
    assert [run.outcome for run in run_all()] == ["begun"]
    assert listed(job)[0].count == 2
    assert states([blacklisted, listed_, reported, suspected, exhausted]) == ["NDLV", "NDLV", "NDLV", "TBDL", "TBDL"]


@pytest.mark.conformance("SAP-p")
def test_what_crashes_between_the_selection_and_its_turn_is_left_alone_too(
    destination: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beginning, "DECIDED_AT_ONCE", 0)
    meanwhile, sound = undecided(2)
    job = save()
    [run] = run_due()
    Message.objects.filter(id=meanwhile).update(reason="blacklisted", crash_count=2)
    carry_on()
    assert states([meanwhile, sound]) == ["NDLV", "TBDL"]
    operation = get_operation(run.operation_id or 0, principal=SYSTEM)
    assert [(one.code, one.count) for one in operation.skipped] == [("crashed", 1)]
    assert list(Restart.objects.filter(restart_job_id=job.id).values_list("message_id", flat=True)) == [sound]


def test_what_cannot_be_delivered_is_left_alone_and_does_not_count(destination: str) -> None:
    nowhere = undecided(3, address="parked")
    assert decide(save()).ledger == Ledger(skipped=3)
    assert states(nowhere) == ["NDLV"] * 3
    assert not Restart.objects.exists()


@pytest.mark.parametrize(
    ("order", "taken"), [("oldest", [0, 1]), ("newest", [2, 3]), ("oldest_failure", [3, 2]), ("newest_failure", [0, 1])]
)
def test_a_run_takes_so_many_messages_in_its_order(destination: str, order: str, taken: list[int]) -> None:
    ids = undecided(4)
    for age, message in enumerate(ids):
        Message.objects.filter(id=message).update(failed_at=datetime(2026, 1, 9 - age, tzinfo=UTC))
    job = save(limit=2, order=order)
    assert count_restartable(get_restart_job(job.id, principal=SYSTEM)).n == 2
    assert decide(job).count == 2
    chosen = {ids[place] for place in taken}
    assert states(ids) == ["TBDL" if message in chosen else "NDLV" for message in ids]


def test_a_preview_and_its_run_take_the_same_of_what_the_filter_finds(destination: str) -> None:
    undecided(5)
    job = save(limit=3, order="random")
    selection = Selection.objects.get(id=freeze_for_preview(job.id, principal=SYSTEM))
    assert (selection.count, selection.most, selection.ordering) == (3, 3, "random")


def test_later_runs_take_the_rest_and_no_message_twice(destination: str) -> None:
    ids = undecided(5)
    job = save(limit=2)
    assert [decide(job).count for _ in range(3)] == [2, 2, 1]
    assert states(ids) == ["TBDL"] * 5
    assert run_once(job.id, principal=SYSTEM).outcome == "nothing"


def test_a_run_with_a_canary_halts_when_it_fails_again_and_later_runs_are_skipped(db: None) -> None:
    make_destination(max_delivery_attempts=1, on_exhausted="park")
    ids = undecided(5)
    job = save(canary=True, max_restarts=2)
    [run] = run_all()
    assert sorted(states(ids)) == ["NDLV"] * 4 + ["TBDL"], "one is tried first"
    assert Restart.objects.count() == 1
    claim()
    answer(Message.objects.filter(state="DLNG").values_list("id", flat=True), "failed")
    settle()
    carry_on()
    operation = get_operation(run.operation_id or 0, principal=SYSTEM)
    assert (operation.canary, operation.state, operation.walked) == (True, "halted", 1)
    make_due()
    [second] = run_all()
    assert second.detail == f"Operation #{operation.id} of an earlier run is halted."
    change(operation.id, OperationChange.RESUME, reason="mended", principal=SYSTEM)
    carry_on()
    assert sorted(states(ids)) == ["NDLV"] + ["TBDL"] * 4, "the failed one waits for the next run"
    assert sum(Restart.objects.filter(restart_job_id=job.id).values_list("times", flat=True)) == 5
