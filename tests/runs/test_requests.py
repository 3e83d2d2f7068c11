"""Requests for runs: limits, reuse, the audit log, cancellation and expiry."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection, transaction

from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Principal, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.runs.commands.engine import RunTurn
from poisonadmin.runs.commands.requests import RunEnded, TooManyRuns, end_runs, remove_expired_runs, request_run
from poisonadmin.runs.domain.kinds import KindName, RunKind
from poisonadmin.runs.queries.runs import find_run, latest_run
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.run import LongRun
from tests.runs.carried_out import BRIEF, KIND, cancelled, finish, requested, stored, turn

pytestmark = pytest.mark.django_db(transaction=True)
PAST = "2020-01-01T00:00:00Z"


def test_a_request_is_stored_with_who_made_it_and_stands_in_the_audit_log() -> None:
    limited = principal("kim", Role.ADMIN, ["orders.#"])
    run = request_run(KIND, {"rule": 7}, principal=limited, details={"n": 1}, note="why", object_id="seven")
    assert (run.params, run.position, run.result, run.total, run.patterns) == (
        {"rule": 7},
        {},
        None,
        None,
        [["orders.#"]],
    )
    assert (run.requested_by, run.account, run.id) == ("kim", "kim", run.run_id)
    entry = Audit.objects.get()
    assert (entry.actor, entry.action, entry.object_type, entry.object_id) == (
        "kim",
        "trial.requested",
        "trial",
        "seven",
    )
    assert (entry.note, entry.details) == ("why", {"n": 1})
    assert find_run(KindName.DRY_RUN, run.id) == latest_run(KindName.DRY_RUN, {"rule": 7}) == run
    assert find_run(KindName.COMPARE, run.id) is None
    assert latest_run(KindName.DRY_RUN, {"rule": 8}) is None


def test_an_open_run_for_the_same_is_returned_instead_of_another_one() -> None:
    def request(rule: int) -> int:
        return request_run(KIND, {"rule": rule, "cut_off": rule}, principal=SYSTEM, reuse={"rule": rule}).id

    first = request(1)
    assert request(1) == first
    assert request(2) != first
    turn(finish)
    again = request(1)
    assert again != first
    cancelled(again)
    assert request(1) != again
    assert Audit.objects.filter(action="trial.requested").count() == 4


def test_a_run_with_other_values_or_of_another_account_is_not_for_the_same() -> None:
    kim, pat = (principal(name, Role.ADMIN) for name in ("kim", "pat"))
    personal = replace(KIND, is_personal=True)

    def request(kind: RunKind, words: list[str], by: Principal = kim) -> int:
        params = {"filter": {"q": words}, "rule": None}
        return request_run(kind, params, principal=by, reuse={"filter": {"q": words}}).id

    both = request(KIND, ["a", "b"])
    assert request(KIND, ["a", "b"]) == both
    assert request(KIND, ["a"]) != both
    assert request(KIND, ["a", "b"], pat) == both
    own = request(personal, ["a", "b"], pat)
    assert own != both
    assert request(personal, ["a", "b"], pat) == own
    latest = latest_run(KindName.DRY_RUN, {"filter": {"q": ["a", "b"]}})
    assert latest is not None
    assert latest.id == own
    assert latest_run(KindName.DRY_RUN, {"filter": {"q": ["b"]}}) is None
    found = latest_run(KindName.DRY_RUN, {"filter": {"q": ["a", "b"]}}, of=kim)
    assert found is not None
    assert found.id == both
    assert latest_run(KindName.DRY_RUN, {"rule": None}, of=principal("kim", Role.ADMIN, ["orders.#"])) is None


def test_an_account_has_so_many_that_are_open_and_so_many_that_are_kept() -> None:
    kim, pat = (principal(name, Role.ADMIN) for name in ("kim", "pat"))
    first, _ = requested(BRIEF, kim), requested(BRIEF, kim)
    with pytest.raises(TooManyRuns, match="2 runs"):
        requested(BRIEF, kim)
    requested(BRIEF, pat)
    cancelled(first, BRIEF)
    requested(BRIEF, kim)
    turn(finish, BRIEF)
    with pytest.raises(TooManyRuns, match="has made 3"):
        requested(BRIEF, kim)
    LongRun.objects.filter(id=first).update(expires_at=PAST)
    requested(BRIEF, kim)
    with pytest.raises(TooManyRuns):
        requested(BRIEF, kim)
    assert Audit.objects.filter(action="trial.requested").count() == 5


def test_a_queued_run_is_cancelled_at_once_and_by_who_may() -> None:
    kim, pat, admin = principal("kim", Role.VIEWER), principal("pat", Role.VIEWER), principal("root", Role.ADMIN)
    mine, other = requested(BRIEF, kim), requested(BRIEF, kim)
    with pytest.raises(NotAllowed):
        cancelled(mine, BRIEF, pat)
    cancelled(mine, BRIEF, kim)
    cancelled(other, BRIEF, admin)
    for run_id in (mine, other):
        run = stored(run_id)
        assert (run.state, run.error) == ("cancelled", None)
        assert None not in (run.ended_at, run.expires_at)
        with pytest.raises(RunEnded):
            cancelled(run_id, BRIEF, admin)
    assert list(Audit.objects.filter(action="trial.cancelled").values_list("actor", "object_id")) == [
        ("kim", str(mine)),
        ("root", str(other)),
    ]
    with pytest.raises(NotFound):
        cancelled(other + 1, BRIEF, admin)
    turn(finish, BRIEF)
    assert stored(mine).state == "cancelled"


def test_a_run_that_has_begun_is_cancelling_until_its_worker_has_let_go() -> None:
    run_id = requested(BRIEF)
    cleaned: list[str] = []

    def work(this: RunTurn) -> None:
        cancelled(run_id, BRIEF)
        run = stored(run_id)
        assert (run.state, run.ended_at, run.expires_at) == ("cancelling", None, None)
        with pytest.raises(RunEnded):
            cancelled(run_id, BRIEF)
        this.store(position={"at": 1})
        raise AssertionError("it went on")

    turn(work, BRIEF, clean_up=lambda _: cleaned.append(stored(run_id).state))
    run = stored(run_id)
    assert (run.state, run.phase, run.position, cleaned) == ("cancelled", None, {}, ["cancelling"])
    assert None not in (run.ended_at, run.expires_at)


def test_a_run_that_was_cancelled_between_two_turns_has_no_other_one() -> None:
    run_id = requested()
    turn(lambda this: this.store(position={"at": 1}))
    cancelled(run_id)
    assert stored(run_id).state == "cancelling"

    def work(_: RunTurn) -> None:
        raise AssertionError("it went on")

    cleaned: list[int] = []
    turn(work, clean_up=lambda this: cleaned.append(this.run.position["at"]))
    assert (stored(run_id).state, cleaned) == ("cancelled", [1])


def test_a_clean_up_that_was_killed_is_made_again_before_the_run_is_cancelled() -> None:
    run_id = requested()
    turn(lambda this: this.store(position={"at": 1}))
    cancelled(run_id)

    def killed(_: RunTurn) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        turn(finish, clean_up=killed)
    assert stored(run_id).state == "cancelling"
    turn(finish, clean_up=lambda _: None)
    assert stored(run_id).state == "cancelled"


def test_a_failed_run_is_cleaned_up() -> None:
    run_id = requested()
    cleaned: list[str] = []

    def work(_: RunTurn) -> None:
        raise NotFound("gone")

    turn(work, clean_up=lambda _: cleaned.append(stored(run_id).state))
    assert cleaned == ["failed"]


def test_runs_are_removed_when_they_expire_and_open_ones_stay() -> None:
    ended, fresh, opened, forever = requested(BRIEF), requested(KIND), requested(KIND), requested(KIND)
    LongRun.objects.filter(id=ended).update(ended_at=PAST, expires_at=PAST, state="succeeded")
    LongRun.objects.filter(id=fresh).update(ended_at=PAST, expires_at="2199-01-01T00:00:00Z", state="failed")
    LongRun.objects.filter(id=opened).update(expires_at=PAST, state="running")
    LongRun.objects.filter(id=forever).update(ended_at=PAST, state="succeeded")
    assert find_run(KindName.DRY_RUN, ended) is None
    assert find_run(KindName.DRY_RUN, opened) is not None
    remove_expired_runs()
    assert set(LongRun.objects.values_list("id", flat=True)) == {fresh, opened, forever}


def test_a_run_that_no_worker_begins_in_time_is_removed_with_its_secrets() -> None:
    run = request_run(replace(KIND, waits=timedelta(hours=1)), {}, principal=SYSTEM, secrets={"password": "p"})
    assert stored(run.run_id).secrets == {"password": "p"}
    remove_expired_runs()
    assert LongRun.objects.exists()
    LongRun.objects.update(expires_at=PAST)
    remove_expired_runs()
    assert not LongRun.objects.exists()


def test_secrets_are_for_one_turn_and_are_no_part_of_a_run() -> None:
    run = request_run(KIND, {}, principal=SYSTEM, secrets={"password": "p"})
    taken: list[object] = []
    turn(lambda this: taken.extend([this.take_secrets(), this.take_secrets(), this.finish({})]))
    assert taken == [{"password": "p"}, {}, None]
    assert "password" not in repr(find_run(KindName.DRY_RUN, run.id))
    assert stored(run.run_id).secrets is None


def test_a_run_that_was_carried_over_has_the_id_that_it_had() -> None:
    run_id = requested()
    LongRun.objects.filter(id=run_id).update(former_id=3)
    run = find_run(KindName.DRY_RUN, 3)
    assert run is not None
    assert (run.id, run.run_id) == (3, run_id)
    assert find_run(KindName.DRY_RUN, run_id) is None
    cancelled(3)
    assert stored(run_id).state == "cancelled"


def test_runs_that_may_quote_what_is_erased_end_and_are_shown_to_nobody() -> None:
    ended, opened = requested(BRIEF), requested(BRIEF)
    LongRun.objects.filter(id=ended).update(state="succeeded", ended_at=PAST, expires_at="2199-01-01T00:00:00Z")
    own = LongRun.objects.create(kind="dry_run", state="running", requested_by="system")
    cleaned: list[str] = []

    def work(this: RunTurn) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            end_runs(cursor, [KindName.DRY_RUN], why="erased")
        this.finish({"text": "a quotation"})
        raise AssertionError("it went on")

    turn(work, BRIEF, clean_up=lambda _: cleaned.append(stored(opened).state))
    assert [(one.state, one.error, one.result) for one in (stored(ended), stored(opened), stored(own.id))] == [
        ("succeeded", None, None),
        ("failed", "erased", None),
        ("running", None, None),
    ]
    assert find_run(KindName.DRY_RUN, ended) is None
    assert find_run(KindName.DRY_RUN, opened) is None
    assert cleaned == ["failed"]
