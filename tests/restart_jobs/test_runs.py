"""A run of a restart job is an operation: what it decides on, how often, as whom, and what it says when it may not."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections

from poisonadmin.core.commands.authentication import authenticate, principal_of_user
from poisonadmin.core.domain.access import SYSTEM, Permission, Role
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.operations.commands import beginning
from poisonadmin.operations.commands.beginning import RunOf
from poisonadmin.operations.commands.operations import carry_on, change
from poisonadmin.operations.commands.selections import freeze
from poisonadmin.operations.domain.ledger import Ledger
from poisonadmin.operations.domain.lifecycle import OperationChange
from poisonadmin.operations.queries.operations import get_operation
from poisonadmin.restart_jobs.commands import runs
from poisonadmin.restart_jobs.commands.restart_jobs import InvalidRestartJob, delete_restart_job
from poisonadmin.restart_jobs.commands.runs import freeze_for_preview, run_due, run_once
from poisonadmin.restart_jobs.queries.restart_jobs import count_restartable, get_restart_job
from poisonadmin.restart_jobs.queries.runs import RestartRunRow, list_runs
from poisonadmin.store.models.access import Access, ApiToken, Audit
from poisonadmin.store.models.history import History
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.operation import Operation, Selection
from poisonadmin.store.models.poison import PoisonEntry
from poisonadmin.store.models.restart_job import Restart, RestartJob
from poisonadmin.system.commands.tokens import create as create_token
from poisonadmin.system.commands.tokens import revoke
from tests.fixtures.decisions import quarantine
from tests.fixtures.delivery import answer, claim, counted, counters, enqueue, make_destination, states
from tests.fixtures.pages import make_user
from tests.restart_jobs.saved import make_due, run_all, save, undecided

pytestmark = pytest.mark.django_db
WHY: dict[str, Any] = {"principal": SYSTEM, "reason": "test"}


def listed(job: RestartJob) -> list[RestartRunRow]:
    """Return the runs of the job, newest first."""
    return list_runs(job.id, principal=SYSTEM).results


def decide(job: RestartJob) -> RestartRunRow:
    """Run the job now, carry its operation out, and return the run as it is listed."""
    run_once(job.id, principal=SYSTEM)
    carry_on()
    return listed(job)[0]


def finish(ids: list[int]) -> None:
    """Deliver messages that are due."""
    claim()
    answer(ids, "delivered")
    settle()
    carry_on()


def deliver() -> None:
    """Have whatever is due delivered, so that the operations on it are over."""
    ids = list(Message.objects.filter(state="TBDL").values_list("id", flat=True))
    if ids:
        finish(ids)


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


def test_a_run_is_skipped_while_an_earlier_operation_is_not_over(destination: str) -> None:
    undecided()
    job = save()
    [first] = run_all()
    undecided()
    make_due()
    [second] = run_all()
    assert second.outcome == "skipped"
    assert second.detail == f"Operation #{first.operation_id} of an earlier run is not over."
    assert run_once(job.id, principal=SYSTEM).outcome == "skipped"
    assert Operation.objects.count() == 1
    deliver()
    make_due()
    assert [run.outcome for run in run_all()] == ["begun"]


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


def test_a_job_in_trouble_does_not_keep_the_others_from_their_turn(
    destination: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = undecided(2)
    refused, broken = save("a refused one"), save("b broken one")
    sound = save("c sound one")
    RestartJob.objects.filter(id=refused.id).update(filter={"group": ["x"]})
    begin = runs.begin

    def begin_or_break(*args: Any, run_of: RunOf, **more: Any) -> int:
        return 1 // 0 if run_of.restart_job_id == broken.id else begin(*args, run_of=run_of, **more)

    monkeypatch.setattr(runs, "begin", begin_or_break)
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


def owned(**access: Any) -> RestartJob:
    """Return a job whose owner has had the given access since."""
    user = make_user("pat", Role.ADMIN)
    who = principal_of_user(user)
    assert who is not None
    job = save(principal=who)
    Access.objects.filter(user=user).update(**access)
    return job


@pytest.mark.parametrize(
    ("access", "why"),
    [
        ({"role": Role.OPERATOR}, "This needs the permission configure, which pat does not have."),
        ({"address_patterns": ["orders.#"]}, "A restart job may decide on any address, and pat is limited to some."),
    ],
)
def test_a_run_is_refused_when_its_owner_has_fewer_rights_than_when_it_was_saved(
    destination: str, access: dict[str, Any], why: str
) -> None:
    ids = undecided(2)
    job = owned(**access)
    [run] = run_all()
    assert run.outcome == "refused"
    assert run.detail is not None
    assert run.detail.startswith(why)
    assert "save the restart job again" in run.detail
    assert states(ids) == ["NDLV", "NDLV"]
    assert not Selection.objects.exists()
    assert run_once(job.id, principal=SYSTEM).outcome == "refused", "whoever asks: a run has the owner's rights"
    save()
    assert [one.outcome for one in run_all()] == ["begun"]


def test_a_run_is_refused_when_the_account_of_its_owner_is_closed(destination: str) -> None:
    undecided()
    owned()
    assert [run.outcome for run in run_all()] == ["begun"]
    deliver()
    undecided()
    User.objects.filter(username="pat").update(is_active=False)
    make_due()
    [run] = run_all()
    assert (run.outcome, run.detail and "owner, pat, is not in force" in run.detail) == ("refused", True)


def test_a_job_that_a_token_has_saved_runs_while_the_token_is_in_force(destination: str) -> None:
    made = create_token(make_user("pat", Role.ADMIN), "deploy", scopes=list(Permission), by="test")
    found = authenticate(made.text)
    assert found is not None
    undecided()
    save(principal=found[1])
    assert [run.outcome for run in run_all()] == ["begun"]
    deliver()
    undecided()
    revoke(ApiToken.objects.get().id, by="test")
    make_due()
    [run] = run_all()
    assert (run.outcome, run.detail and "pat via deploy" in run.detail) == ("refused", True)


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
def test_of_many_who_run_a_job_at_once_one_begins_an_operation(destination: str) -> None:
    undecided(3)
    job = save()

    def run(number: int) -> None:
        try:
            run_once(job.id, principal=SYSTEM) if number % 2 else run_due()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(run, range(8)))
    assert Counter(run.outcome for run in listed(job)) == {"begun": 1, "skipped": 4}, "four people, and one schedule"
    assert Operation.objects.count() == 1
