"""Searches asked for and carried out; what they propose is merged, dismissed, proposed again."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now

from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.sql import Sql
from poisonadmin.groups.alike import queries
from poisonadmin.groups.alike.commands import (
    ALIKE_GROUPS,
    ProposalChanged,
    Report,
    cancel_search,
    dismiss,
    merge_by,
    propose_again,
    request_daily_search,
    request_search,
)
from poisonadmin.groups.alike.domain.proposals import AlikeAnswer, AskedGroups, Proposal, ProposalState, propose
from poisonadmin.groups.alike.queries import ProposalRow, get_proposal, latest_search, list_proposals
from poisonadmin.groups.commands.annotations import annotate
from poisonadmin.groups.commands.merged_groups import merge, split
from poisonadmin.groups.queries.groups import get_group
from poisonadmin.messages.domain.dead_letter import DeadLetter
from poisonadmin.runs.commands.requests import RunEnded
from poisonadmin.runs.queries.jobs import get_job
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.attempt import FailureGroup
from poisonadmin.store.models.failure_group import GroupProposal
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.run import LongRun
from poisonadmin.system.commands.housekeeping import clean_up
from tests.alike_groups.proposals import search_due, searched, take_in

pytestmark = pytest.mark.django_db
PAT = principal("pat", Role.OPERATOR)
LIMITED = principal("kim", Role.ADMIN, ["orders.us"])
CALLERS = [f"\tat com.shop.Orders{n}.apply(Orders.java:{n})" for n in range(8)]


def failure(*more: str, cls: str = "com.shop.Rejected") -> DeadLetter:
    """Return a failure that went through these frames, and then through those that are common."""
    stack = "\n".join([f"{cls}: x", *(f"\tat {frame}(A.java:1)" for frame in more), *CALLERS])
    return DeadLetter(exception_class=cls, exception_message="order 1 is closed", stack=stack)


ONE, ONE_MORE = failure(), failure("com.shop.Guard.check")
OTHER = DeadLetter(
    exception_class="Other", exception_message="gone", stack="Other\n\tat com.bills.Bill.pay(Bill.java:1)"
)


def groups_of(messages: Sequence[int]) -> list[int]:
    by_id = dict(Message.objects.filter(id__in=messages).values_list("id", "group_id"))
    return [by_id[one] or 0 for one in messages]


def take_in_alike(address: str = "orders.eu") -> tuple[int, int]:
    """Take in two failures of one kind, one of another, and of the first kind a second one; return the first two's
    groups."""
    first, second, *_ = groups_of(take_in([ONE, ONE_MORE, OTHER, ONE], address=address))
    return first, second


def proposals(state: ProposalState = ProposalState.OPEN) -> list[ProposalRow]:
    return list_proposals(state, principal=SYSTEM).results


def test_groups_that_look_alike_are_proposed_and_nothing_is_merged() -> None:
    first, second = take_in_alike()
    row = searched()
    assert (row.state, row.done, row.error) == ("succeeded", 3, None)
    assert row.result.items() >= {"groups": 3, "left_out": 0, "proposals": 1}.items()
    (found,) = proposals()
    # That with more failures stays.
    assert (found.into.id, found.group.id) == (first, second)
    assert (found.into.failures, found.group.failures) == (2, 1)
    assert found.similarity > 0.8
    assert found.text == (
        f"The same: 8 of 9 frames, the class of the cause, the message. Different: frame 1 is"
        f" `com.shop.Guard.check` in #{second} only."
    )
    assert found.group.frames[:2] == ("com.shop.Guard.check", "com.shop.Orders0.apply")
    assert not FailureGroup.objects.exclude(merged_into=None).exists()
    job = get_job(LongRun.objects.get().id, principal=SYSTEM)
    assert (job.kind, job.state, job.result) == (
        "alike_groups", "succeeded", {"groups": 3, "left_out": 0, "proposals": 1}
    )  # fmt: skip


def test_a_group_that_people_have_said_something_of_stays() -> None:
    first, second = take_in_alike()
    annotate(second, {"note": "known"}, principal=SYSTEM)
    searched()
    assert [(one.into.id, one.group.id) for one in proposals()] == [(second, first)]


def test_one_click_merges_and_splitting_off_undoes_it() -> None:
    first, second = take_in_alike()
    searched()
    (found,) = proposals()
    merge_by(found.id, principal=PAT)
    assert {one.id for one in get_group(first, principal=SYSTEM).members} == {first, second}
    entry = Audit.objects.get(action="group.merged")
    assert (entry.actor, entry.object_id) == ("pat", str(first))
    assert "They look alike (8" in (entry.note or "")
    assert "com.shop.Guard.check" in (entry.note or "")
    assert proposals() == []
    with pytest.raises(NotFound):
        get_proposal(found.id, principal=SYSTEM)
    searched()
    assert proposals() == []
    split(first, [second], principal=PAT, reason="no")
    assert proposals() == []
    searched()
    assert [(one.into.id, one.group.id) for one in proposals()] == [(first, second)]


def test_a_dismissed_one_is_not_proposed_again_unless_its_groups_change() -> None:
    first, second = take_in_alike()
    searched()
    (found,) = proposals()
    dismiss(found.id, principal=PAT)
    with pytest.raises(ProposalChanged):
        dismiss(found.id, principal=PAT)
    for _ in range(2):
        assert searched().result["proposals"] == 0
        assert proposals() == []
        (kept,) = proposals(ProposalState.DISMISSED)
        assert (kept.id, kept.dismissed_by) == (found.id, "pat")
    propose_again(found.id, principal=PAT)
    assert [one.id for one in proposals()] == [found.id]
    dismiss(found.id, principal=PAT)
    (third,) = groups_of(take_in([failure(cls="com.shop.Refused")], address="orders.us"))
    merge(first, [third], principal=SYSTEM, reason="the same")
    searched()
    assert [(one.into.id, one.group.id) for one in proposals()] == [(first, second)]
    audited = Audit.objects.filter(action__startswith="alike_groups.").order_by("id")
    assert [one.action.removeprefix("alike_groups.") for one in audited] == ["dismissed", "proposed_again", "dismissed"]


def test_who_is_limited_sees_proposals_of_failures_in_scope_only_and_merges_none() -> None:
    take_in([ONE], address="orders.us")
    take_in([ONE_MORE], address="orders.eu")
    searched()
    (found,) = proposals()
    assert list_proposals(principal=LIMITED).results == []
    with pytest.raises(NotFound):
        get_proposal(found.id, principal=LIMITED)
    with pytest.raises(NotFound):
        merge_by(found.id, principal=LIMITED)
    # It sees both groups now, and still not the failure that was compared.
    take_in([ONE_MORE], address="orders.us")
    assert list_proposals(principal=LIMITED).results == []
    take_in(
        [failure(cls="com.shop.Refused"), failure("com.shop.Guard.check", cls="com.shop.Refused")], address="orders.us"
    )
    searched()
    mine = list_proposals(principal=LIMITED).results
    assert 0 < len(mine) < len(proposals())
    assert {one.into.message_id for one in mine} | {one.group.message_id for one in mine} <= set(
        Message.objects.filter(address__name="orders.us").values_list("id", flat=True)
    )
    for act in (merge_by, dismiss, propose_again):
        with pytest.raises(NotAllowed):
            act(mine[0].id, principal=LIMITED)
    with pytest.raises(NotAllowed):
        request_search(principal=LIMITED)
    shown = latest_search(principal=LIMITED)
    assert shown is not None
    assert (shown.state, shown.requested_by, shown.done, shown.result) == ("succeeded", None, 0, None)


def test_who_may_not_decide_asks_for_nothing() -> None:
    viewer = principal("vic", Role.VIEWER)
    take_in_alike()
    searched()
    assert len(list_proposals(principal=viewer).results) == 1
    with pytest.raises(NotAllowed):
        request_search(principal=viewer)
    with pytest.raises(NotAllowed):
        dismiss(proposals()[0].id, principal=viewer)


def test_there_is_one_search_at_a_time() -> None:
    assert request_search(principal=PAT) == request_search(principal=SYSTEM)
    assert Audit.objects.filter(action="alike_groups.requested").count() == 1


def test_once_a_day_groups_are_searched_where_they_have_changed() -> None:
    request_daily_search()
    assert not LongRun.objects.exists()
    first, second = take_in_alike()
    request_daily_search()
    request_daily_search()
    assert LongRun.objects.count() == 1
    search_due()
    LongRun.objects.update(created_at=Now() - timedelta(days=1))
    request_daily_search()
    assert LongRun.objects.count() == 1
    merge(first, [second], principal=SYSTEM, reason="the same")
    request_daily_search()
    assert LongRun.objects.count() == 2


def test_searches_stay_for_30_days_and_the_last_that_succeeded_for_ever() -> None:
    take_in_alike()
    former, last, failed = searched(), searched(), searched()
    LongRun.objects.update(created_at=Now() - timedelta(days=31), ended_at=Now() - timedelta(days=31))
    LongRun.objects.filter(id=failed.id).update(state="failed")
    clean_up()
    assert list(LongRun.objects.values_list("id", flat=True)) == [last.id]
    assert former.id < last.id
    request_daily_search()
    assert LongRun.objects.count() == 1


def test_one_that_ends_its_worker_is_begun_anew_and_given_up_in_the_end() -> None:
    take_in_alike()
    made = request_search(principal=SYSTEM)

    def killed(_: AskedGroups, __: Report) -> AlikeAnswer:
        raise KeyboardInterrupt

    for _ in range(ALIKE_GROUPS.max_tries or 0):
        with pytest.raises(KeyboardInterrupt):
            search_due(killed)
    search_due()
    row = LongRun.objects.get(id=made)
    assert (row.state, "3 times" in (row.error or "")) == ("failed", True)


@pytest.mark.django_db(transaction=True)
def test_one_that_fails_says_why_and_leaves_the_proposals() -> None:
    take_in_alike()
    searched()
    made = request_search(principal=SYSTEM)

    def failing(_: AskedGroups, __: Report) -> AlikeAnswer:
        raise ValueError("no space left")

    with pytest.raises(ValueError, match="no space"):
        search_due(failing)
    row = LongRun.objects.get(id=made)
    assert (row.state, row.error) == ("failed", "ValueError: no space left")
    assert len(proposals()) == 1


@pytest.mark.django_db(transaction=True)
def test_one_whose_worker_stops_is_left_to_the_next() -> None:
    take_in_alike()
    made = request_search(principal=SYSTEM)

    stops: list[bool] = []

    def stopped(_: AskedGroups, __: Report) -> AlikeAnswer:
        stops.append(True)
        raise ValueError("cancelled")

    search_due(stopped, is_stopping=lambda: bool(stops))
    assert stops
    row = LongRun.objects.get(id=made)
    assert (row.state, row.tries) == ("queued", 0)
    search_due()
    assert len(proposals()) == 1


@pytest.mark.django_db(transaction=True)
def test_one_that_is_cancelled_ends_and_leaves_the_proposals_of_the_search_before() -> None:
    take_in_alike()
    searched()
    (before,) = proposals()
    made = request_search(principal=PAT)

    def compare(asked: AskedGroups, report: Report) -> AlikeAnswer:
        cancel_search(made, principal=PAT)
        report("looking for groups that may be alike")
        raise AssertionError("it went on")

    search_due(compare)
    row = LongRun.objects.get(id=made)
    assert (row.state, row.result, row.ended_at is None) == ("cancelled", None, False)
    assert [one.id for one in proposals()] == [before.id]
    with pytest.raises(RunEnded):
        cancel_search(made, principal=PAT)
    for other in (LIMITED, principal("vic", Role.VIEWER)):
        with pytest.raises(NotAllowed):
            cancel_search(made, principal=other)
    # Cancelled while it waits for a worker, it does not begin; the next one does.
    waiting = request_search(principal=PAT)
    cancel_search(waiting, principal=PAT)
    search_due()
    assert LongRun.objects.get(id=waiting).started_at is None
    assert searched().state == "succeeded"


@pytest.mark.django_db(transaction=True)
def test_one_that_is_cancelled_after_its_last_word_proposes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    take_in_alike()
    made = request_search(principal=PAT)

    def proposed_late(*args: object, **named: object) -> list[Proposal]:
        cancel_search(made, principal=PAT)
        return propose(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("poisonadmin.groups.alike.commands.propose", proposed_late)
    search_due()
    assert LongRun.objects.get(id=made).state == "cancelled"
    assert proposals() == []


def test_of_many_those_that_failed_last_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = take_in_alike()
    monkeypatch.setattr(queries, "MAX_COMPARED", 2)
    FailureGroup.objects.exclude(id__in=[first, second]).update(last_at=Now() - timedelta(days=1))
    row = searched()
    assert (row.result["groups"], row.result["left_out"], row.result["proposals"]) == (2, 1, 1)


def test_the_list_and_the_groups_are_read_by_their_indexes() -> None:
    take_in_alike()
    searched()
    (row,) = GroupProposal.objects.all()
    fields = {name: value for name, value in vars(row).items() if name not in ("_state", "id", "digest", "place")}
    GroupProposal.objects.bulk_create(GroupProposal(**fields, place=n, digest=f"{n}") for n in range(1, 3_000))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO attempt (message_id, attempt_number, finished_at, outcome, fingerprint)"
            " SELECT 1000000 + n, 1, now(), 'failed', left(md5(n::text), 16) FROM generate_series(1, 5000) AS n"
        )
        cursor.execute("ANALYZE group_proposal, failure_group, attempt")
        chosen = queries._chosen(Sql("p.state = {state}", state="open"), SYSTEM)
        cursor.execute(*Sql("EXPLAIN {chosen} ORDER BY p.place, p.id LIMIT 51", chosen=chosen))
        listed = "\n".join(line for (line,) in cursor.fetchall())
        cursor.execute(f"EXPLAIN {queries._COMPARED}", [queries.MAX_COMPARED])
        compared = "\n".join(line for (line,) in cursor.fetchall())
    assert "group_proposal_listed" in listed, listed
    assert "attempt_by_group" in compared, compared
