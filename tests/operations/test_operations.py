"""An operation decides on a whole selection, and its ledger says what became of every member."""

import itertools
from datetime import timedelta
from typing import Any

import pytest

from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.decisions.commands import decisions as deciding
from poisonadmin.decisions.operations.commands import beginning
from poisonadmin.decisions.operations.commands.beginning import OperationTerms, begin
from poisonadmin.decisions.operations.commands.carry_out import carry_out_piece
from poisonadmin.decisions.operations.commands.operations import OperationNotChanged, carry_on, change, clear_lanes
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.decisions.operations.domain.params import InvalidOperation
from poisonadmin.decisions.operations.queries.operations import get_operation, list_operation_members, list_operations
from poisonadmin.decisions.operations.queries.preview import preview
from poisonadmin.delivery.commands.claim import claim_due, claim_isolated
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.delivery.domain.claim_plan import slot_distance
from poisonadmin.messages.commands.admission import expire_due
from poisonadmin.messages.commands.confirmations import confirm
from poisonadmin.messages.domain.outcomes import MemberOutcome
from poisonadmin.search.commands import selections
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.attempt import FailureGroup
from poisonadmin.store.models.history import History
from poisonadmin.store.models.lane import Lane
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.operation import Operation, OperationPace
from tests.fixtures import decisions
from tests.fixtures.api import take_dead
from tests.fixtures.delivery import (
    answer,
    claim,
    counted,
    counters,
    end_nodes,
    enqueue,
    make_destination,
    states,
)
from tests.operations.follow import answer_claim, approve_all, ledger, state

pytestmark = pytest.mark.django_db
NDLV = {"state": ["NDLV"]}
APPROVE, FAIL = OperationAction.APPROVE, OperationAction.FAIL
KEPT = ("address_id", "original_address_id", "reason", "group_id", "undecided_at")


@pytest.fixture(autouse=True)
def shop(db: None) -> None:
    """Let `orders.#` deliver, each message twice at most after an approval."""
    make_destination(max_delivery_attempts=2)


@pytest.fixture
def pieces_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut selections into pieces of two, and leave all but the first to the tick."""
    monkeypatch.setattr(selections, "MEMBERS_A_PIECE", 2)
    monkeypatch.setattr(deciding, "LEAST_QUICK", 1)
    monkeypatch.setattr(beginning, "DECIDED_AT_ONCE", 0)


def test_every_member_is_delivered_and_the_operation_is_over() -> None:
    ids = [take_dead() for _ in range(3)]
    operation = approve_all()
    assert ledger(operation) == {"unanswered": 3}
    taken = claim()
    answer(ids)
    end_nodes(taken)
    settle()
    assert ledger(operation) == {"delivered": 3}
    carry_on()
    assert state(operation) == "completed"
    assert counted() == counters()


def test_the_ledger_tells_failed_again_the_same_from_failed_anew() -> None:
    """By the failure that it was approved with, whatever it failed with in between."""
    same, anew, retried = (take_dead() for _ in range(3))
    operation = approve_all()
    former = FailureGroup.objects.get(id=Message.objects.get(id=same).group_id)
    as_before = {"fingerprint": former.fingerprint, "title": former.title}
    other = {"fingerprint": "e" * 16, "title": "Another: failure"}
    for columns, retried_outcome in ((other, "failed"), (as_before, "delivered")):
        taken = claim()
        answer([same], "failed", **columns)
        answer([anew], "failed", **other)
        answer([retried], retried_outcome)
        end_nodes(taken)
        settle()
    assert ledger(operation) == {"failed_same": 1, "failed_new": 1, "delivered": 1}


def test_what_waits_for_its_next_attempt_is_said_to() -> None:
    [message] = [take_dead()]
    operation = approve_all()
    taken = claim()
    answer([message], "failed")
    end_nodes(taken)
    settle()
    assert ledger(operation) == {"waiting": 1}
    carry_on()
    assert state(operation) == "running"


def test_messages_that_cannot_be_decided_on_are_skipped_with_the_reason(pieces_of_two: None) -> None:
    good, nowhere = take_dead(), take_dead("elsewhere.x")
    decided = take_dead()
    selection = freeze(NDLV, principal=SYSTEM)
    decisions.mark_fail([decided], principal=SYSTEM, reason="r")
    foreseen = preview(get_selection(selection, principal=SYSTEM), APPROVE, principal=SYSTEM)
    operation = begin(selection, APPROVE, reason="r", principal=SYSTEM)
    carry_on()
    found = get_operation(operation, principal=SYSTEM)
    assert {one.code: one.count for one in found.skipped} == {"no_destination": 1, "FAIL": 1}
    assert {(one.code, one.address, one.count, one.detail) for one in foreseen.refused} == {
        ("no_destination", "elsewhere.x", 1, "elsewhere.x"),
        ("FAIL", "orders.eu", 1, None),
    }
    assert [(one.address, one.destination, one.count) for one in foreseen.targets] == [("orders.eu", "shop", 1)]
    assert ledger(operation) == {"skipped": 2, "unanswered": 1}
    assert states([good, nowhere, decided]) == ["TBDL", "NDLV", "FAIL"]


def test_an_action_that_ends_at_once_is_over_at_once() -> None:
    ids = [take_dead() for _ in range(3)]
    operation = begin(NDLV, FAIL, reason="hopeless", principal=SYSTEM)
    assert (state(operation), ledger(operation)) == ("completed", {"changed": 3})
    assert states(ids) == ["FAIL"] * 3
    rows = History.objects.filter(event="marked_fail")
    assert set(rows.values_list("operation_id", "note", "actor")) == {(operation, "hopeless", "system")}


def test_one_audit_row_says_what_was_decided() -> None:
    for _ in range(3):
        take_dead()
    operation = begin(NDLV, FAIL, reason="hopeless", principal=SYSTEM)
    [row] = Audit.objects.exclude(action__startswith="destination").exclude(action__startswith="policy")
    assert (row.action, row.object_id, row.note) == ("operation.begun", str(operation), "hopeless")
    assert row.details["count"] == 3


def test_of_two_operations_that_overlap_the_second_says_which_has_the_message() -> None:
    [message] = [take_dead()]
    first, second = freeze(NDLV, principal=SYSTEM), freeze(NDLV, principal=SYSTEM)
    one = begin(first, APPROVE, reason="r", principal=SYSTEM)
    other = begin(second, APPROVE, reason="r", principal=SYSTEM)
    found = get_operation(other, principal=SYSTEM)
    assert [(each.code, each.count) for each in found.skipped] == [("taken", 1)]
    assert found.state == "completed"
    assert Message.objects.get(id=message).operation_id == one


def test_a_message_that_failed_again_can_be_taken_by_another_operation_and_both_ledgers_hold() -> None:
    [message] = [take_dead()]
    first = approve_all()
    for _ in range(2):
        taken = claim()
        answer([message], "failed")
        end_nodes(taken)
        settle()
    second = approve_all()
    taken = claim()
    answer([message])
    end_nodes(taken)
    settle()
    assert ledger(first) == {"failed_new": 1}
    assert ledger(second) == {"delivered": 1}


def test_a_pause_holds_what_is_not_begun_and_a_resume_lets_it_go(pieces_of_two: None) -> None:
    ids = [take_dead() for _ in range(5)]
    operation = approve_all()
    carry_on(seconds=0.0)
    assert states(ids) == ["NDLV"] * 5
    change(operation, OperationChange.PAUSE, reason="wait", principal=SYSTEM)
    carry_on()
    assert states(ids) == ["NDLV"] * 5
    change(operation, OperationChange.RESUME, reason="go", principal=SYSTEM)
    carry_on()
    assert states(ids) == ["TBDL"] * 5
    change(operation, OperationChange.PAUSE, reason="wait", principal=SYSTEM)
    assert claim_due(tasks=1) is None
    change(operation, OperationChange.RESUME, reason="go", principal=SYSTEM)
    assert claim().size == 5


def test_cancelling_brings_back_what_is_not_begun_as_it_was(pieces_of_two: None) -> None:
    moved = take_dead("orders.dlq", original_address="orders.eu")
    others = [take_dead() for _ in range(4)]
    before = Message.objects.filter(id=moved).values(*KEPT).get()
    operation = approve_all()
    carry_on()
    assert Message.objects.get(id=moved).original_address_id is None
    Message.objects.filter(id=moved).update(due_at="2040-01-01T00:00:00Z")
    taken = claim(limit=2)
    under_way = list(Message.objects.filter(state="DLNG").values_list("id", flat=True))
    change(operation, OperationChange.CANCEL, reason="stop", principal=SYSTEM)
    assert claim_due(tasks=1) is None
    carry_on()
    back = [one for one in [moved, *others] if one not in under_way]
    assert moved in back
    assert states(back) == ["NDLV"] * 3
    after = Message.objects.filter(id=moved).values(*KEPT).get()
    assert after == before
    assert ledger(operation) == {"cancelled": 3, "unanswered": 2}
    assert state(operation) == "cancelling"
    with pytest.raises(OperationNotChanged, match="is cancelling"):
        change(operation, OperationChange.RESUME, reason="go", principal=SYSTEM)
    answer(under_way)
    end_nodes(taken)
    settle()
    carry_on()
    found = get_operation(operation, principal=SYSTEM)
    assert (found.state, found.ended_at is not None) == ("cancelled", True)
    assert ledger(operation) == {"cancelled": 3, "delivered": 2}
    assert counted() == counters()


def test_a_cancelled_operation_has_nothing_delivered_again(pieces_of_two: None) -> None:
    ids = [take_dead() for _ in range(2)]
    operation = approve_all()
    carry_on()
    taken = claim()
    change(operation, OperationChange.CANCEL, reason="stop", principal=SYSTEM)
    answer(ids, "failed")
    end_nodes(taken)
    settle()
    assert claim_due(tasks=1) is None
    carry_on()
    assert states(ids) == ["NDLV"] * 2
    assert ledger(operation) == {"failed_new": 2}
    assert state(operation) == "cancelled"


def test_a_candidate_that_is_tried_alone_ends_before_its_operation_is_cancelled(pieces_of_two: None) -> None:
    [suspect, other] = [take_dead() for _ in range(2)]
    Message.objects.filter(id=suspect).update(candidate=True, crash_count=1)
    operation = approve_all()
    carry_on()
    taken = claim_isolated()
    assert taken is not None
    change(operation, OperationChange.CANCEL, reason="stop", principal=SYSTEM)
    carry_on()
    assert (state(operation), states([suspect, other])) == ("cancelling", ["DLNG", "NDLV"])
    answer([suspect])
    end_nodes(taken)
    settle()
    carry_on()
    assert (state(operation), ledger(operation)) == ("cancelled", {"cancelled": 1, "delivered": 1})


def test_members_that_were_never_looked_at_count_as_cancelled(pieces_of_two: None) -> None:
    for _ in range(5):
        take_dead()
    operation = approve_all()
    change(operation, OperationChange.CANCEL, reason="stop", principal=SYSTEM)
    assert ledger(operation) == {"cancelled": 5}
    found = get_operation(operation, principal=SYSTEM)
    assert (found.state, found.ended_at is not None) == ("cancelled", True), "nothing of it was under way"
    with pytest.raises(OperationNotChanged):
        change(operation, OperationChange.RESUME, reason="go", principal=SYSTEM)


def test_what_nobody_decided_on_in_bulk_goes_first(pieces_of_two: None) -> None:
    bulk = [take_dead() for _ in range(4)]
    approve_all()
    carry_on()
    live = enqueue(2)
    Message.objects.filter(id__in=bulk).update(due_at="2020-01-01T00:00:00Z")
    Lane.objects.filter(operation_id__isnull=False).update(next_due="2020-01-01T00:00:00Z")
    claim(limit=3)
    assert states(live) == ["DLNG"] * 2
    assert sorted(states(bulk)) == ["DLNG", "TBDL", "TBDL", "TBDL"]


def test_a_rate_spaces_the_deliveries_of_all_destinations_together() -> None:
    for _ in range(6):
        take_dead()
    approve_all(terms=OperationTerms(Pace(4.0)))
    OperationPace.objects.update(next_slot="2020-01-01T00:00:00Z")
    carry_on()
    taken = claim(tasks=2)
    starts = sorted(Message.objects.filter(state="DLNG").values_list("start_at", flat=True))
    assert taken.size == 4
    assert len(taken.shards) == 1
    gaps = {b - a for a, b in itertools.pairwise(starts)}
    assert gaps == {timedelta(seconds=slot_distance(4))}
    assert claim_due(tasks=1) is None


def test_members_behind_each_line_of_the_ledger(pieces_of_two: None) -> None:
    ids = [take_dead() for _ in range(4)]
    nowhere = take_dead("elsewhere.x")
    operation = approve_all()
    carry_on()
    taken = claim(limit=1)
    under_way = [one for one in ids if states([one]) == ["DLNG"]]
    answer(under_way)
    end_nodes(taken)
    settle()
    found = get_operation(operation, principal=SYSTEM)

    def behind(outcome: MemberOutcome) -> list[int]:
        return [row.id for row in list_operation_members(found, outcome, principal=SYSTEM).results]

    assert behind(MemberOutcome.DELIVERED) == under_way
    assert behind(MemberOutcome.SKIPPED) == [nowhere]
    assert behind(MemberOutcome.UNANSWERED) == [one for one in ids if one not in under_way]
    assert behind(MemberOutcome.CHANGED) == []


def test_who_may_not_decide_or_does_not_see_all_members_begins_nothing() -> None:
    take_dead("orders.eu")
    take_dead("billing.eu")
    selection = freeze(NDLV, principal=SYSTEM)
    with pytest.raises(NotAllowed):
        begin(selection, APPROVE, reason="r", principal=principal("vera", Role.VIEWER))
    with pytest.raises(NotFound):
        begin(selection, APPROVE, reason="r", principal=principal("kim", Role.OPERATOR, ["orders.#"]))
    operation = begin(selection, FAIL, reason="r", principal=SYSTEM)
    limited = principal("kim", Role.OPERATOR, ["orders.#"])
    with pytest.raises(NotFound):
        get_operation(operation, principal=limited)
    with pytest.raises(NotFound):
        change(operation, OperationChange.CANCEL, reason="r", principal=limited)
    assert not list_operations(principal=limited).results


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"reason": " "}, "reason"),
        ({"terms": OperationTerms(Pace(0.0))}, "rate_per_second"),
        ({"action": FAIL, "terms": OperationTerms(Pace(1.0))}, "rate_per_second"),
        ({"action": OperationAction.POSTPONE}, "until"),
    ],
)
def test_what_is_wrong_is_named(more: dict[str, Any], field: str) -> None:
    take_dead()
    asked: dict[str, Any] = {"action": APPROVE, "reason": "r"} | more
    with pytest.raises(InvalidOperation) as error:
        begin(NDLV, asked.pop("action"), principal=SYSTEM, **asked)
    assert error.value.field == field
    assert not list_operations(principal=SYSTEM).results


def test_a_confirmation_is_in_the_ledger_whenever_it_comes() -> None:
    early, late = take_dead(), take_dead()
    operation = approve_all()
    taken = claim()
    confirm(early, principal=SYSTEM)
    answer([early, late])
    end_nodes(taken)
    settle()
    assert ledger(operation) == {"confirmed": 1, "delivered": 1}
    confirm(late, principal=SYSTEM)
    assert ledger(operation) == {"confirmed": 2}


def test_what_leaves_the_operation_in_between_is_skipped_with_the_reason() -> None:
    taken_out, expired = take_dead(), take_dead()
    operation = approve_all()
    decisions.quarantine([taken_out], principal=SYSTEM, reason="r")
    Message.objects.filter(id=expired).update(expires_at="2020-01-01T00:00:00Z")
    expire_due()
    found = get_operation(operation, principal=SYSTEM)
    assert {one.code: one.count for one in found.skipped} == {"quarantined": 1, "expired": 1}
    carry_on()
    assert state(operation) == "completed"


def test_the_lanes_of_an_operation_go_when_it_is_over(pieces_of_two: None) -> None:
    for _ in range(3):
        take_dead()
    operation = approve_all()
    carry_on()
    assert Lane.objects.filter(operation_id=operation).count() == 1
    assert clear_lanes() == 0
    answer_claim()
    carry_on()
    assert clear_lanes() == 1
    assert not Lane.objects.filter(operation_id=operation).exists()


@pytest.mark.parametrize(("action", "has_canary"), [(APPROVE, False), (APPROVE, True), (FAIL, False)])
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["running", "cancelled"])
def test_the_members_behind_all_lines_are_the_lines(
    action: OperationAction, is_cancelled: bool, has_canary: bool, pieces_of_two: None
) -> None:
    """In the middle of an operation, with something under way."""
    for _ in range(7):
        take_dead()
    operation = begin(NDLV, action, reason="r", principal=SYSTEM, terms=OperationTerms(Pace(has_canary=has_canary)))
    assert carry_out_piece(Operation.objects.get(id=operation))
    if action is APPROVE:
        claim(limit=1)
    if is_cancelled:
        change(operation, OperationChange.CANCEL, reason="stop", principal=SYSTEM)
        carry_on()
    found = get_operation(operation, principal=SYSTEM)
    behind = {
        outcome: [row.id for row in list_operation_members(found, outcome, principal=SYSTEM).results]
        for outcome in MemberOutcome
    }
    assert {str(outcome): len(ids) for outcome, ids in behind.items() if ids} == ledger(operation)
    assert sum(len(set(ids)) for ids in behind.values()) == found.count
