"""Ordered addresses: a conversation's messages one after the other; what cannot be delivered holds its successors."""

import time

import pytest
from django.db import connection, transaction

from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.archive.commands.restoring import restore_from_archive
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import OperationTerms, begin
from poisonadmin.decisions.operations.commands.operations import carry_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.delivery.commands.claim import claim_due, seconds_until_due
from poisonadmin.delivery.commands.ordered_conversations import RUN, clear_lanes
from poisonadmin.delivery.commands.recovery import recover
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.claim import ClaimShard
from poisonadmin.store.models.lane import Lane, StaleHeads
from poisonadmin.store.models.message import Message
from tests.archive.fixtures import age, archive_with, in_process, place  # noqa: F401  (fixtures)
from tests.archive.in_process import InProcessStore
from tests.fixtures.decisions import approve, mark_fail, quarantine, redirect, restore
from tests.fixtures.delivery import answer, claim, counted, counters, end_nodes, enqueue, make_destination, states
from tests.messages.overlap import overlap, rows

WHY = {"principal": SYSTEM, "reason": "looked at it"}


@pytest.fixture
def ordered(db: None) -> str:
    """Return an address whose conversations are delivered in order."""
    make_destination(ordered=True)
    return "orders.eu"


def taken(tasks: int = 1) -> list[int]:
    """Claim, and return what was claimed in the order in which it is to begin; empty when nothing can be."""
    claimed = claim_due(tasks=tasks)
    if claimed is None:
        return []
    shards = ClaimShard.objects.filter(claim_id=claimed.id).order_by("shard")
    return [message_id for shard in shards for message_id in shard.message_ids]


def deliver(ids: list[int]) -> None:
    """Write that all were delivered, and settle."""
    answer(ids)
    settle()


def test_a_run_of_a_conversation_is_claimed_in_order_and_nothing_behind_it(ordered: str) -> None:
    first = enqueue(3, conversation_id="c-1")
    assert taken() == first
    later = enqueue(2, conversation_id="c-1")
    assert taken() == [], "its predecessors are under way"
    deliver(first)
    assert taken() == later


def test_nothing_is_due_once_it_is_on_the_lanes_of_its_conversation(ordered: str) -> None:
    """Else a dispatcher without anything to do would claim ten times a second."""
    ids = enqueue(2, conversation_id="c-1")
    assert taken() == ids
    assert seconds_until_due() is None
    deliver(ids)
    assert taken() == []
    assert seconds_until_due() is None


def test_conversations_do_not_wait_for_each_other(ordered: str) -> None:
    [one] = enqueue(1, conversation_id="c-1")
    claim()
    [other] = enqueue(1, conversation_id="c-2")
    assert taken() == [other]
    assert states([one, other]) == ["DLNG", "DLNG"]


def test_messages_without_a_conversation_have_no_order(ordered: str) -> None:
    loose = enqueue(2)
    claim()
    more = enqueue(1)
    assert taken() == more
    assert states(loose) == ["DLNG", "DLNG"]


def test_a_conversation_is_in_one_shard(ordered: str) -> None:
    for name in "abcd":
        enqueue(5, conversation_id=name)
    claimed = claim_due(tasks=2)
    assert claimed is not None
    assert claimed.size == 20
    for shard in ClaimShard.objects.filter(claim_id=claimed.id):
        assert len(shard.message_ids) % 5 == 0
        for start in range(0, len(shard.message_ids), 5):
            run = shard.message_ids[start : start + 5]
            assert run == list(range(run[0], run[0] + 5))


def test_a_failure_holds_its_successors_until_it_is_delivered(ordered: str) -> None:
    make_destination(ordered=True, redelivery_delay=60_000)
    first, *rest = enqueue(3, conversation_id="c-1")
    refused = claim()
    answer([first], "failed")
    end_nodes(refused)
    settle()
    assert states([first, *rest]) == ["TBDL"] * 3
    assert taken() == [], "the first waits for its next try"
    Message.objects.filter(id=first).update(due_at="2020-01-01T00:00:00Z")
    Lane.objects.filter(conversation_id=None).update(next_due="2020-01-01T00:00:00Z")
    assert taken() == [first, *rest]


def test_what_waits_for_a_decision_holds_its_successors(ordered: str) -> None:
    make_destination(ordered=True, max_delivery_attempts=1)
    first, second = enqueue(2, conversation_id="c-1")
    refused = claim()
    answer([first], "failed")
    end_nodes(refused)
    settle()
    assert states([first, second]) == ["NDLV", "TBDL"]
    assert taken() == []
    assert Lane.objects.get(conversation_id="c-1").head_id == first
    approve([first], **WHY)
    assert taken() == [first, second]


def test_what_is_given_up_lets_its_successors_go(ordered: str) -> None:
    first, second = enqueue(2, conversation_id="c-1")
    quarantine([first], **WHY)
    assert taken() == []
    mark_fail([first], **WHY)
    settle()
    assert taken() == [second]


def given_up_then_delivered() -> list[int]:
    """Return three messages of a conversation: given up, delivered, and the head, which is claimed."""
    first, second, third = ids = enqueue(3, conversation_id="c-1")
    quarantine([first], **WHY)
    assert taken() == []
    mark_fail([first], **WHY)
    assert taken() == [second, third]
    deliver([second])
    assert Lane.objects.get(conversation_id="c-1").delivered_below == third
    return ids


def test_what_is_restored_holds_its_successors_again(ordered: str) -> None:
    make_destination(ordered=True, redelivery_delay=0)
    first, second, third = given_up_then_delivered()
    answer([third], "failed")
    settle()
    assert not StaleHeads.objects.exists(), "it is on the address that it was on"
    restore([first], **WHY)
    assert states([first, second, third]) == ["NDLV", "DLVD", "TBDL"]
    assert taken() == [], "the head is the one that was restored"
    assert Lane.objects.get(conversation_id="c-1").head_id == first
    approve([first], **WHY)
    assert taken() == [first, third]


@pytest.mark.django_db(transaction=True)
def test_what_is_restored_while_heads_are_read_holds_its_successors_too() -> None:
    make_destination(ordered=True, redelivery_delay=0)
    first, _, third = given_up_then_delivered()
    answer([third], "failed")
    race = overlap(lambda: restore([first], **WHY), settle)
    assert not race.waited
    assert taken() == []
    assert Lane.objects.get(conversation_id="c-1").head_id == first


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("in_process")
def test_what_is_restored_from_the_archive_holds_its_successors_again(place: str) -> None:  # noqa: F811
    make_destination(ordered=True, redelivery_delay=0)
    first, _, third = given_up_then_delivered()
    age([first], days=500)
    request_archive_run(principal=SYSTEM)
    archive_with(InProcessStore(place))
    assert not Message.objects.filter(id=first).exists()
    restore_from_archive(first, **WHY)
    answer([third], "failed")
    settle()
    assert taken() == []
    approve([first], **WHY)
    assert taken()[0] == first


@pytest.mark.django_db(transaction=True)
def test_what_is_restored_holds_what_an_operation_delivers() -> None:
    make_destination(ordered=True, redelivery_delay=0)
    first, second, third = ids = enqueue(3, conversation_id="c-1")
    quarantine(ids, **WHY)
    mark_fail([first], **WHY)
    selection = freeze(ids=[second, third], principal=SYSTEM)
    begin(selection, OperationAction.APPROVE, terms=OperationTerms(Pace(1.0)), **WHY)
    carry_on()
    assert taken() == [second], "one a second"
    deliver([second])
    restore([first], **WHY)
    time.sleep(1.1)
    assert taken() == [], "the next slot has come, and its member is held"
    mark_fail([first], **WHY)
    assert taken() == [third]


def test_what_comes_from_another_address_holds_its_successors_there(ordered: str) -> None:
    make_destination(ordered=True, redelivery_delay=0)
    (moved,) = enqueue(address="orders.us", conversation_id="c-1")
    (later,) = enqueue(conversation_id="c-1")
    quarantine([moved], **WHY)
    assert taken() == [later]
    redirect([moved], params={"address": "orders.eu"}, **WHY)
    answer([later], "failed")
    settle()
    assert taken() == [moved, later]


def test_what_arrives_late_goes_first(ordered: str) -> None:
    """A transaction may be committed after another that began later and has greater ids."""
    make_destination(ordered=True, redelivery_delay=0)
    late, later = enqueue(2, conversation_id="c-1")
    Message.objects.filter(id=late).update(due_at="2100-01-01T00:00:00Z", address_id=0)
    assert taken() == [later]
    answer([later], "failed")
    settle()
    Message.objects.filter(id=late).update(
        due_at="2020-01-01T00:00:00Z", address_id=Message.objects.get(id=later).address_id
    )
    Lane.objects.filter(conversation_id=None).update(next_due="2020-01-01T00:00:00Z")
    assert taken() == [late, later]


@pytest.mark.django_db(transaction=True)
def test_the_delivered_part_of_a_long_conversation_is_not_read_again() -> None:
    make_destination(ordered=True)
    delivered = enqueue(2_000, conversation_id="c-1")
    while ids := taken():
        deliver(ids)
    assert states(delivered) == ["DLVD"] * 2_000
    (next_one,) = enqueue(conversation_id="c-1")
    with transaction.atomic():
        before = messages_read()
        assert taken() == [next_one]
        assert messages_read() - before < 50


def messages_read() -> int:
    """Return how many messages this session has found by an index, as far as that is not yet reported."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'message'")
        return int(cursor.fetchone()[0])


def test_a_run_has_a_greatest_length(ordered: str) -> None:
    many = enqueue(RUN + 5, conversation_id="c-1")
    assert taken() == many[:RUN]
    deliver(many[:RUN])
    assert taken() == many[RUN:]
    deliver(many[RUN:])
    assert counted() == counters()
    assert Lane.objects.get(conversation_id="c-1").head_id is None


def test_an_address_that_is_ordered_no_longer_delivers_all_that_is_due(ordered: str) -> None:
    first, second = enqueue(2, conversation_id="c-1")
    quarantine([first], **WHY)
    assert taken() == []
    make_destination(ordered=False)
    settle()
    assert taken() == [second]


def conversations_with_lanes() -> set[str | None]:
    """Return the conversations that have a lane."""
    return set(Lane.objects.filter(conversation_id__isnull=False).values_list("conversation_id", flat=True))


def test_the_lanes_of_conversations_that_are_over_are_removed_and_no_others(ordered: str) -> None:
    names = ["delivered", "failed", "undecided", "under way"]
    delivered, failed, undecided, _ = (enqueue(conversation_id=name)[0] for name in names)
    assert len(taken()) == 4
    deliver([delivered])
    make_destination(ordered=True, max_delivery_attempts=1)
    answer([failed, undecided], "failed")
    settle()
    mark_fail([failed], **WHY)
    recover()
    assert clear_lanes() == 2
    assert conversations_with_lanes() == {"undecided", "under way"}


def test_a_conversation_goes_on_after_its_lane_was_removed(ordered: str) -> None:
    (first,) = enqueue(conversation_id="c-1")
    assert taken() == [first]
    deliver([first])
    assert clear_lanes() == 1
    (second,) = enqueue(conversation_id="c-1")
    assert taken() == [second]
    deliver([second])
    assert states([first, second]) == ["DLVD", "DLVD"]


def test_more_lanes_than_one_transaction_removes_are_all_removed(ordered: str) -> None:
    ids = [enqueue(conversation_id=f"c-{n}")[0] for n in range(5)]
    assert len(taken()) == 5
    deliver(ids)
    assert clear_lanes(limit=2) == 5
    assert conversations_with_lanes() == set()


@pytest.mark.django_db(transaction=True)
def test_a_lane_is_kept_when_a_claim_that_is_not_committed_puts_the_next_message_on_it() -> None:
    make_destination(ordered=True)
    (first,) = enqueue(conversation_id="c-1")
    assert taken() == [first]
    deliver([first])
    (second,) = enqueue(conversation_id="c-1")
    race = overlap(lambda: claim_due(tasks=1), clear_lanes)
    assert race.waited
    assert race.second == 0
    assert conversations_with_lanes() == {"c-1"}
    deliver([second])
    assert states([first, second]) == ["DLVD", "DLVD"]


@pytest.mark.django_db(transaction=True)
def test_settling_waits_for_no_lane_that_a_claim_has_locked() -> None:
    """Each would wait for a lane of the other, for a claim and a settling lock many."""
    make_destination(ordered=True)
    heads = enqueue(conversation_id="c-1") + enqueue(conversation_id="c-2")
    assert sorted(taken()) == heads
    behind = enqueue(conversation_id="c-1") + enqueue(conversation_id="c-2")
    assert taken() == []
    answer(heads)
    race = overlap(lambda: rows("SELECT id FROM lane WHERE conversation_id = 'c-1' FOR NO KEY UPDATE"), settle)
    assert not race.waited
    assert states(heads) == ["DLVD", "DLVD"]
    assert due_conversations() == {"c-2"}
    recover()
    assert due_conversations() == {"c-1", "c-2"}
    assert sorted(taken()) == behind


def due_conversations() -> set[str | None]:
    """Return the conversations of which something is due."""
    return set(
        Lane.objects.filter(conversation_id__isnull=False, next_due__isnull=False).values_list(
            "conversation_id", flat=True
        )
    )
