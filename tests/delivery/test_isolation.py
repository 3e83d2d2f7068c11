"""Crashes: who becomes a candidate, who is tried alone, who is blacklisted, and who goes free (R2, SAP)."""

import pytest
from django.db import connection

from poisonadmin.addresses.commands import pause, resume
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.delivery.commands.claim import ClaimRef, claim_due, claim_isolated
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.history import History
from poisonadmin.store.models.lane import Lane
from poisonadmin.store.models.message import Message
from tests.fixtures.decisions import approve, mark_fail
from tests.fixtures.delivery import (
    answer,
    claim,
    counted,
    counters,
    end_nodes,
    enqueue,
    make_destination,
    make_handler,
    states,
)

CRASH = {"error_class": "HandlerSegfault", "error_message": "killed", "fingerprint": "c" * 16, "title": "Segfault"}
WHY = {"principal": SYSTEM, "reason": "looked at it"}


def alone() -> ClaimRef:
    """Claim candidates; fail when none is due."""
    taken = claim_isolated()
    assert taken is not None, "no candidate was claimed"
    assert taken.is_isolation
    return taken


def crash(ids: list[int], outcome: str = "crashed") -> None:
    """Write that the sandbox of each died, and settle."""
    answer(ids, outcome, **CRASH)
    settle()


def suspicion(message_id: int) -> tuple[str, bool, int]:
    """Return a message's state, whether it is a candidate, and its counted crashes."""
    message = Message.objects.get(id=message_id)
    return message.state, message.candidate, message.crash_count


def test_a_crash_makes_a_candidate_that_only_isolation_claims(handler: str) -> None:
    [poison, other] = enqueue(2)
    taken = claim()
    answer([other])
    crash([poison])
    end_nodes(taken)
    assert suspicion(poison) == ("TBDL", True, 1)
    assert suspicion(other) == ("DLVD", False, 0)
    assert Message.objects.get(id=poison).due_at is not None
    assert claim_due(tasks=1) is None
    alone()
    assert states([poison]) == ["DLNG"]
    assert counted() == counters()


def test_a_second_crash_blacklists_and_the_history_says_so(handler: str) -> None:
    [poison] = enqueue()
    claim()
    crash([poison])
    alone()
    crash([poison])
    message = Message.objects.get(id=poison)
    assert (message.state, message.reason, message.candidate, message.crash_count) == ("NDLV", "blacklisted", True, 2)
    assert message.group is not None
    events = list(History.objects.filter(message_id=poison).order_by("seq").values_list("event", "to_state"))
    assert events == [
        ("enqueued", "TBDL"),
        ("claimed", "DLNG"),
        ("crashed", "TBDL"),
        ("claimed", "DLNG"),
        ("crashed", "NDLV"),
    ]
    assert message.failure_count == 0


def test_a_candidate_that_is_delivered_alone_is_cleared(handler: str) -> None:
    [suspect] = enqueue()
    claim()
    crash([suspect])
    alone()
    answer([suspect])
    settle()
    assert suspicion(suspect) == ("DLVD", False, 0)


def test_an_exception_between_two_crashes_changes_nothing(handler: str) -> None:
    [poison] = enqueue()
    claim()
    crash([poison])
    alone()
    answer([poison], "failed")
    settle()
    assert suspicion(poison) == ("TBDL", True, 1)
    assert Message.objects.get(id=poison).failure_count == 1
    alone()
    crash([poison])
    assert suspicion(poison) == ("NDLV", True, 2)


def test_one_claim_of_candidates_at_a_time_and_of_one_destination(handler: str) -> None:
    poisons = enqueue(20)
    claim()
    crash(poisons)
    first = alone()
    assert (first.size, first.shards) == (16, (0,))
    assert claim_isolated() is None
    answer([one for one, state in zip(poisons, states(poisons), strict=True) if state == "DLNG"])
    settle()
    assert alone().size == 4


@pytest.mark.conformance("R14", "R2")
def test_nothing_of_the_destination_begins_beside_a_candidate_nor_a_candidate_beside_anything(handler: str) -> None:
    poison, slow = enqueue(2)
    claim()
    crash([poison])
    enqueue(3)
    assert claim_isolated() is None, "something is under way"
    assert claim_due(tasks=1) is None, "the candidate has its turn when that has ended"
    answer([slow])
    settle()
    alone()
    assert claim_due(tasks=1) is None, "nothing beside a candidate"
    assert claim_isolated() is None
    answer([poison])
    settle()
    assert claim().size == 3


@pytest.mark.django_db(transaction=True)
def test_candidates_and_the_others_come_in_the_order_in_which_they_are_due(handler: str) -> None:
    first, second = enqueue(2)
    claim()
    crash([first])
    waiting = enqueue(2)
    assert claim_isolated() is None
    answer([second])
    settle()
    alone()
    answer([first], "failed")
    settle()
    assert claim_isolated() is None, "what came meanwhile goes before it"
    assert claim().size == len(waiting)
    enqueue()
    assert claim_due(tasks=1) is None, "what came later goes behind it"
    answer(waiting)
    settle()
    alone()


@pytest.mark.django_db(transaction=True)
def test_a_candidate_of_a_conversation_does_not_wait_for_what_it_holds(handler: str) -> None:
    make_handler(ordered=True)
    first, second = enqueue(2, conversation_id="one")
    taken = claim()
    crash([first])
    end_nodes(taken)
    settle()
    assert claim_due(tasks=1) is None, "the other one is held behind it"
    alone()
    assert states([first, second]) == ["DLNG", "TBDL"]


def test_with_blacklisting_off_a_crash_only_returns(db: None, handler: str) -> None:
    make_handler(blacklisting_enabled=False)
    [poison] = enqueue()
    for _ in range(4):
        claim()
        crash([poison])
        assert suspicion(poison) == ("TBDL", False, 0)


def test_an_approved_candidate_is_blacklisted_by_one_more_crash(handler: str) -> None:
    poison = blacklisted()
    approve([poison], **WHY)
    assert suspicion(poison) == ("TBDL", True, 2)
    assert claim_due(tasks=1) is None
    alone()
    crash([poison])
    assert suspicion(poison)[0] == "NDLV"


def test_an_approval_clears_the_suspicion_where_the_policy_says_so(handler: str) -> None:
    make_handler(approve_clears_candidate=True)
    poison = blacklisted()
    approve([poison], **WHY)
    assert suspicion(poison) == ("TBDL", False, 0)
    claim()
    crash([poison])
    assert suspicion(poison) == ("TBDL", True, 1)


def test_a_blacklisted_message_marked_fail_stays_fail(handler: str) -> None:
    poison = blacklisted()
    mark_fail([poison], **WHY)
    settle()
    assert states([poison]) == ["FAIL"]
    assert claim_isolated() is None


def test_under_the_plain_rule_candidates_run_beside_the_others(handler: str) -> None:
    make_handler(blame="all_in_flight")
    both = enqueue(2)
    for expected in ("TBDL", "NDLV"):
        claim()
        answer(both, "node_lost", **CRASH)
        settle()
        assert states(both) == [expected] * 2


def test_a_node_loss_only_suspects_what_had_begun(handler: str) -> None:
    begun, unbegun = enqueue(2)
    taken = claim()
    end_nodes(taken, "lost")
    crash([begun], "node_lost")
    assert suspicion(begun) == ("TBDL", True, 0)
    assert suspicion(unbegun) == ("TBDL", False, 0)
    event = History.objects.filter(message_id=unbegun).order_by("-seq").values_list("event", flat=True)[0]
    assert event == "released"


@pytest.mark.conformance("SAP-o", "R2")
def test_a_node_lost_with_a_candidate_alone_counts_as_a_crash(handler: str) -> None:
    [suspect] = enqueue()
    claim()
    crash([suspect], "node_lost")
    counts = []
    for _ in range(2):
        alone()
        crash([suspect], "node_lost")
        counts.append(suspicion(suspect)[2])
    assert counts == [1, 2]
    assert suspicion(suspect)[0] == "NDLV"


def test_a_lost_node_waits_for_its_pages_to_be_read(handler: str) -> None:
    [message] = enqueue()
    taken = claim()
    end_nodes(taken, "lost")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE node SET journals = 'somewhere'")
    settle()
    assert states([message]) == ["DLNG"]


def test_a_consumer_beyond_a_connection_is_alone_with_each_candidate(db: None) -> None:
    make_destination()
    poison, other = enqueue(2)
    claim()
    crash([poison])
    enqueue()
    assert claim_due(tasks=1) is None, "the destination is drained first"
    assert claim_isolated() is None, "something else is still under way"
    answer([other])
    settle()
    alone()
    assert claim_due(tasks=1) is None, "nothing beside a candidate"
    answer([poison])
    settle()
    assert claim().size == 1


def test_isolation_lanes_follow_their_address(handler: str) -> None:
    [poison] = enqueue()
    claim()
    crash([poison])
    pause("orders.eu", **WHY)
    assert claim_isolated() is None
    resume("orders.eu", **WHY)
    assert Lane.objects.get(is_isolation=True).is_open
    alone()
    assert Attempt.objects.filter(message_id=poison).count() == 1


def blacklisted() -> int:
    """Return a message that has crashed twice."""
    [poison] = enqueue()
    claim()
    crash([poison])
    (claim_isolated() or claim())
    crash([poison])
    assert states([poison]) == ["NDLV"]
    return poison
