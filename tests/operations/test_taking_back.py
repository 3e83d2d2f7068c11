"""Cancelling takes members back: what had not begun is as it was before, and the ledger says what became of all."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.commands import decisions as deciding
from poisonadmin.decisions.operations.commands import beginning
from poisonadmin.decisions.operations.commands.beginning import OperationTerms, begin, decide_on
from poisonadmin.decisions.operations.commands.operations import carry_on, change
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.decisions.operations.queries.ledger_report import COLUMNS, ledger_rows
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.delivery.commands.claim import claim_due, claim_isolated
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.poison_list.commands import Report, report
from poisonadmin.policies.commands import save_policy
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.history import History
from poisonadmin.store.models.lane import Conversation
from poisonadmin.store.models.message import Hop, Message
from poisonadmin.store.models.operation import LiftedExclusion, OperationPace
from poisonadmin.store.models.poison import PoisonEntry
from tests.fixtures.api import take, take_dead
from tests.fixtures.delivery import answer, claim, counted, counters, end_nodes, enqueue, make_destination, states
from tests.operations.follow import approve_all, ledger, state
from tests.rules.ruled import rule

pytestmark = pytest.mark.django_db
WHY: dict[str, Any] = {"principal": SYSTEM, "reason": "mended"}
APPROVE, RELEASE = OperationAction.APPROVE, OperationAction.RELEASE
ENTRY = ("is_listed", "failures", "crashes", "released_at", "released_by", "note")
KEPT = ("state", "reason", "address_id", "original_address_id", "group_id", "due_at", "expires_at")


@pytest.fixture(autouse=True)
def shop(db: None) -> None:
    """Let `orders.#` deliver, each message twice at most after an approval, and end a conversation with a failure."""
    make_destination(max_delivery_attempts=2, conversation_failure_limit=1)


def cancel(operation: int) -> None:
    change(operation, OperationChange.CANCEL, **WHY)
    carry_on()


def begun(ids: Sequence[int], action: OperationAction = APPROVE, **more: Any) -> int:
    return begin(freeze(ids=ids, principal=SYSTEM), action, **WHY, **more)


def deliver(ids: Sequence[int], outcome: str = "delivered") -> None:
    """Claim what is due, and answer these; the others were not begun."""
    taken = claim()
    answer(ids, outcome)
    end_nodes(taken)
    settle()


def listed(bookmark: str, *, reports: int = 1) -> int:
    """Return a message that waited until its bookmark was reported."""
    message = take("orders.eu", "x", bookmark=bookmark)
    for _ in range(reports):
        report(Report("orders.eu", bookmark, "unreadable"), principal=SYSTEM)
    return message


def ended(conversation: str, number: int = 1) -> list[int]:
    """Return messages that were parked when their conversation ended."""
    first, *others = enqueue(number + 1, conversation_id=conversation)
    deliver([first], "failed")
    assert states([first, *others]) == ["FAIL", *["NDLV"] * number]
    return others


def entry(bookmark: str) -> Any:
    return PoisonEntry.objects.filter(bookmark=bookmark).values(*ENTRY).get()


def kept(ids: Sequence[int]) -> list[Any]:
    return list(Message.objects.filter(id__in=ids).order_by("id").values(*KEPT))


def codes(operation: int) -> dict[int, Any]:
    """Return the code of each member in the ledger's file."""
    found = get_operation(operation, principal=SYSTEM)
    id_, code = COLUMNS.index("id"), COLUMNS.index("code")
    return {row[id_]: row[code] for rows in ledger_rows(found, principal=SYSTEM) for row in rows}


def test_a_blacklisted_member_that_never_began_is_cancelled_not_blacklisted() -> None:
    ids = [take_dead() for _ in range(3)]
    Message.objects.filter(id__in=ids).update(reason="blacklisted", candidate=True, crash_count=2)
    for one in ids:
        History.objects.create(
            message_id=one, from_state="DLNG", to_state="NDLV", event="crashed", reason="blacklisted", attempt_number=2
        )
    before = kept(ids)
    operation = begun(ids)
    cancel(operation)
    assert (state(operation), ledger(operation)) == ("cancelled", {"cancelled": 3})
    assert kept(ids) == before


def test_what_has_failed_and_waited_for_its_next_attempt_has_failed() -> None:
    same, never = take_dead(), take_dead()
    operation = begun([same, never])
    deliver([same], "failed")
    assert ledger(operation) == {"waiting": 1, "unanswered": 1}
    cancel(operation)
    assert (state(operation), ledger(operation)) == ("cancelled", {"failed_new": 1, "cancelled": 1})
    assert states([same, never]) == ["NDLV"] * 2
    assert claim_due(tasks=1) is None


def test_a_conversation_of_which_a_canary_has_delivered_one_is_ended_again_for_the_others() -> None:
    ids = ended("c-1", 3)
    operation = begun(ids, terms=OperationTerms(Pace(has_canary=True)))
    carry_on()
    [tried] = Message.objects.filter(state="TBDL").values_list("id", flat=True)
    assert Conversation.objects.filter(conversation_id="c-1", ended_at__isnull=False).count() == 0
    deliver([tried])
    cancel(operation)
    assert sorted(states(ids)) == ["DLVD", "NDLV", "NDLV"]
    assert ledger(operation) == {"delivered": 1, "cancelled": 2}
    assert Conversation.objects.get(conversation_id="c-1").ended_at is not None


def test_what_had_begun_on_a_lost_node_has_failed_and_the_rest_of_its_claim_is_cancelled() -> None:
    begun_there, never = take_dead(), take_dead()
    operation = begun([begun_there, never])
    end_nodes(claim(), unanswered=[begun_there])
    settle()
    cancel(operation)
    assert (state(operation), ledger(operation)) == ("cancelled", {"failed_same": 1, "cancelled": 1})
    assert states([begun_there, never]) == ["NDLV"] * 2


def test_what_its_consumer_has_moved_stays_there_and_is_cancelled() -> None:
    moved, failed = take_dead(), take_dead()
    operation = begun([moved, failed])
    taken = claim()
    answer([moved], "moved", move_to="orders.later")
    answer([failed], "failed")
    end_nodes(taken)
    settle()
    cancel(operation)
    assert (state(operation), ledger(operation)) == ("cancelled", {"cancelled": 1, "failed_new": 1})
    message = Message.objects.get(id=moved)
    assert (message.state, message.address.name) == ("NDLV", "orders.later")


def test_what_a_rule_sent_elsewhere_before_it_began_comes_back_and_is_cancelled() -> None:
    dead = take_dead("parked.orders", original_address="orders.eu")
    ruled = rule("elsewhere", {"address": "orders.eu"}, {"do": "redirect", "address": "orders.us"})
    before = kept([dead])
    operation = begun([dead])
    claim()
    answer([dead], "ruled", rule_id=ruled.id, rule_action="redirect", move_to="orders.us")
    settle()
    assert Message.objects.get(id=dead).state == "TBDL"
    cancel(operation)
    assert (ledger(operation), kept([dead])) == ({"cancelled": 1}, before)


@pytest.mark.parametrize("to", [None, "orders.us"], ids=["approved", "redirected"])
def test_the_origin_and_the_dead_letter_queue_are_what_they_were(to: str | None) -> None:
    make_destination(max_delivery_attempts=1, dead_letter_address="DLA", auto_create_dead_letter_resources=True)
    moved = enqueue()
    deliver(moved, "failed")
    imported = take_dead(original_address="orders.eu")
    ids = [*moved, imported]
    before, hop = kept(ids), Hop.objects.get(message_id=moved[0])
    assert hop.queue == "DLQ.orders.eu"
    more = {} if to is None else {"params": {"address": to}}
    operation = begun(ids, OperationAction.APPROVE if to is None else OperationAction.REDIRECT, **more)
    assert kept(ids) != before
    cancel(operation)
    assert kept(ids) == before
    assert Hop.objects.filter(message_id=moved[0]).latest("id").queue == hop.queue


@pytest.mark.parametrize("clears", [False, True])
@pytest.mark.parametrize("least_quick", [1, 101], ids=["quick", "locked"])
def test_the_counts_of_what_never_began_are_what_they_were(
    least_quick: int, clears: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deciding, "LEAST_QUICK", least_quick)
    settings = {"approve_clears_candidate": clears}
    save_policy("orders.eu", preset=None, settings=settings, destination=None, principal=SYSTEM)
    plain, suspect, failing = (take_dead() for _ in range(3))
    Message.objects.filter(id__in=[plain, failing]).update(failure_count=7)
    Message.objects.filter(id=suspect).update(failure_count=2, candidate=True, crash_count=1)
    counts = ("failure_count", "candidate", "crash_count")
    before = list(Message.objects.filter(id__in=[plain, suspect]).order_by("id").values(*counts))
    operation = begun([plain, suspect, failing])
    assert set(Message.objects.values_list("failure_count", flat=True)) == {0}
    if clears:  # else the candidate is to be tried first, alone
        deliver([failing], "failed")
    cancel(operation)
    assert list(Message.objects.filter(id__in=[plain, suspect]).order_by("id").values(*counts)) == before
    assert Message.objects.get(id=failing).failure_count == (1 if clears else 7)


@pytest.mark.conformance("OP-b", "R16")
def test_candidates_that_never_began_are_back_and_nothing_begins_any_more() -> None:
    ids = [take_dead() for _ in range(80)]
    Message.objects.filter(id__in=ids).update(candidate=True, crash_count=1)
    before = {row["id"]: row for row in Message.objects.filter(id__in=ids).values("id", *KEPT)}
    operation = begun(ids, terms=OperationTerms(Pace(5.0)))
    OperationPace.objects.update(next_slot="2020-01-01T00:00:00Z")
    taken = claim_isolated()
    assert taken is not None
    under_way = list(Message.objects.filter(state="DLNG").values_list("id", flat=True))
    change(operation, OperationChange.CANCEL, **WHY)
    assert state(operation) == "cancelling"
    carry_on()
    assert (state(operation), ledger(operation)["unanswered"]) == ("cancelling", len(under_way))
    answer(under_way[:1])
    answer(under_way[1:2], "failed")
    end_nodes(taken)
    settle()
    carry_on()
    assert state(operation) == "cancelled"
    assert (claim_due(tasks=1), claim_isolated()) == (None, None)
    never = {row["id"]: row for row in Message.objects.filter(id__in=ids).values("id", *KEPT)}
    begun_with = under_way[:2]
    assert {one: row for one, row in never.items() if one not in begun_with} == {
        one: row for one, row in before.items() if one not in begun_with
    }
    assert ledger(operation) == {"delivered": 1, "failed_new": 1, "cancelled": 78}


@pytest.mark.conformance("OP-d", "R16")
@pytest.mark.parametrize("action", [APPROVE, RELEASE])
def test_the_entries_of_what_never_began_are_on_the_list_again(action: OperationAction) -> None:
    ids = [listed(f"b {n}", reports=n + 1) for n in range(4)]
    before = {n: entry(f"b {n}") for n in range(4)}
    rows = kept(ids)
    changes = dict(PoisonEntry.objects.values_list("bookmark", "change"))
    operation = begun(ids, action)
    assert not any(entry(f"b {n}")["is_listed"] for n in range(4))
    deliver(ids[:1])
    cancel(operation)
    assert (state(operation), ledger(operation)) == ("cancelled", {"delivered": 1, "cancelled": 3})
    assert not entry("b 0")["is_listed"]
    assert {n: entry(f"b {n}") for n in range(1, 4)} == {n: before[n] for n in range(1, 4)}
    assert [before[n]["failures"] for n in range(1, 4)] == [2, 3, 4]
    again = dict(PoisonEntry.objects.values_list("bookmark", "change"))
    assert all(again[f"b {n}"] > max(changes.values()) for n in range(1, 4)), "subscribers learn of it"
    assert kept(ids[1:]) == rows[1:]
    assert not LiftedExclusion.objects.exists()
    [arrived] = enqueue(bookmark="b 1")
    assert states([arrived]) == ["NDLV"]
    assert counted() == counters()


def test_a_completed_operation_keeps_nothing_of_what_it_took_away() -> None:
    """An ended conversation's row quotes a failure, which an erasure would have to find here."""
    ids = [*ended("c-1"), listed("b")]
    operation = begun(ids)
    assert LiftedExclusion.objects.count() == 2
    deliver(ids)
    carry_on()
    assert state(operation) == "completed"
    assert not LiftedExclusion.objects.exists()


def test_a_report_that_came_meanwhile_counts_beside_those_before() -> None:
    ids = [listed("b", reports=3)]
    operation = begun(ids)
    taken = claim()
    report(Report("orders.eu", "b", "unreadable", fatal=True), principal=SYSTEM)
    end_nodes(taken, "lost", ids)
    Message.objects.filter(id__in=ids).update(state="TBDL")
    cancel(operation)
    found = entry("b")
    assert (found["is_listed"], found["failures"], found["crashes"]) == (True, 3, 1)


def test_an_entry_that_was_released_again_stays_released_and_the_ledger_says_so() -> None:
    """Reported in between, and then released by a person."""
    kept_out, other = listed("b"), listed("c")
    operation = begun([kept_out, other])
    report(Report("orders.eu", "b", "unreadable"), principal=SYSTEM)
    assert states([kept_out]) == ["NDLV"]
    assert decide_on([kept_out], RELEASE, **WHY).changed == (kept_out,)
    cancel(operation)
    assert not entry("b")["is_listed"]
    assert entry("c")["is_listed"]
    assert states([kept_out, other]) == ["TBDL", "NDLV"]
    assert ledger(operation) == {"skipped": 1, "cancelled": 1}
    assert codes(operation) == {kept_out: "listed", other: None}


def test_an_entry_whose_other_message_somebody_else_had_delivered_stays_released() -> None:
    first, second = take("orders.eu", "x", bookmark="b"), take("orders.eu", "y", bookmark="b")
    report(Report("orders.eu", "b", "unreadable"), principal=SYSTEM)
    operation = begun([first])
    assert decide_on([second], APPROVE, **WHY).changed == (second,)
    cancel(operation)
    assert not entry("b")["is_listed"]
    assert states([first, second]) == ["NDLV", "TBDL"]
    assert ledger(operation) == {"cancelled": 1}
    assert codes(operation) == {first: "decided_since"}


@pytest.mark.conformance("R16")
def test_the_conversation_of_what_never_began_has_ended_again() -> None:
    parked, others = ended("c-1", 2), ended("c-2")
    before = list(Conversation.objects.order_by("conversation_id").values())
    rows = kept([*parked, *others])
    operation = begun([*parked, *others])
    assert not Conversation.objects.exists()
    [arrived] = enqueue(conversation_id="c-2")
    cancel(operation)
    assert (state(operation), ledger(operation)) == ("cancelled", {"cancelled": 3})
    assert list(Conversation.objects.order_by("conversation_id").values()) == before
    assert kept([*parked, *others]) == rows
    assert states([arrived]) == ["NDLV"], "as it would have been"
    assert counted() == counters()


def test_a_conversation_ends_again_once_nothing_of_it_is_under_way() -> None:
    first, second = ended("c", 2)
    operation = begun([first, second])
    taken = claim(limit=1)
    change(operation, OperationChange.CANCEL, **WHY)
    carry_on()
    assert (state(operation), states([first, second])) == ("cancelling", ["DLNG", "NDLV"])
    assert not Conversation.objects.exists()
    answer([first])
    end_nodes(taken)
    settle()
    carry_on()
    assert (state(operation), ledger(operation)) == ("cancelled", {"delivered": 1, "cancelled": 1})
    assert Conversation.objects.get().ended_at is not None


def test_a_conversation_of_which_somebody_else_has_a_message_delivered_stays_open() -> None:
    first, second = ended("c", 2)
    operation = begun([first])
    assert decide_on([second], APPROVE, **WHY).changed == (second,)
    cancel(operation)
    assert not Conversation.objects.exists()
    assert states([first, second]) == ["NDLV", "TBDL"]
    assert codes(operation) == {first: "decided_since"}


def test_a_later_decision_on_a_member_stays_and_the_ledger_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginning, "DECIDED_AT_ONCE", 0)
    now, later, held, other = (take_dead() for _ in range(4))
    operation = approve_all()
    carry_on()
    change(operation, OperationChange.PAUSE, **WHY)
    decide_on([now], OperationAction.DELIVER_NOW, **WHY)
    decide_on([later], OperationAction.POSTPONE, until=datetime(2040, 1, 1, tzinfo=UTC), **WHY)
    decide_on([held], OperationAction.QUARANTINE, **WHY)
    cancel(operation)
    assert state(operation) == "cancelled"
    assert states([now, later, held, other]) == ["TBDL", "TBDL", "NDLV", "NDLV"]
    assert ledger(operation) == {"skipped": 3, "cancelled": 1}
    assert codes(operation) == {now: "deliver_now", later: "postponed", held: "quarantined", other: None}
    deliver([now])
    assert states([now]) == ["DLVD"]
    assert ledger(operation) == {"skipped": 3, "cancelled": 1}


def test_a_candidate_that_leaves_its_operation_is_tried_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginning, "DECIDED_AT_ONCE", 0)
    message = take_dead()
    Message.objects.filter(id=message).update(candidate=True, crash_count=1)
    operation = approve_all()
    carry_on()
    decide_on([message], OperationAction.DELIVER_NOW, **WHY)
    cancel(operation)
    lane = Message.objects.get(id=message).lane
    assert (state(operation), lane.is_isolation, lane.operation_id) == ("cancelled", True, None)
    assert claim_isolated() is not None


def test_taken_back_twice_it_has_waited_since_it_first_did() -> None:
    """Whoever gave it a tag meanwhile has decided nothing."""
    [message] = [take_dead()]
    for _ in range(2):
        decide_on([message], OperationAction.ASSIGN, params={"tags": {"add": ["late"]}}, **WHY)
        cancel(begun([message]))
        assert kept([message])[0]["reason"] == "imported"
    since = Message.objects.get(id=message).state_at
    assert since == History.objects.filter(message_id=message).earliest("seq").at
