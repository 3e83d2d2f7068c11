"""Claim, settle, recover, expire: on a real database, without Spark."""

import itertools
from datetime import timedelta

import pytest
from django.db import connection

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.commands.refused_decisions import only
from poisonadmin.delivery.commands.claim import ClaimRef, claim_due, seconds_until_due
from poisonadmin.delivery.commands.recovery import recover
from poisonadmin.delivery.commands.settle import Settled, settle
from poisonadmin.delivery.domain.claim_plan import slot_distance
from poisonadmin.destinations.commands import save_destination
from poisonadmin.messages.commands.admission import expire_due
from poisonadmin.messages.commands.counts import fold
from poisonadmin.store.models.claim import Claim
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.history import History
from poisonadmin.store.models.lane import Lane
from poisonadmin.store.models.message import Hop, Message
from tests.fixtures.decisions import approve, mark_fail, postpone, quarantine, restore
from tests.fixtures.delivery import answer, claim, counted, counters, end_nodes, enqueue, make_destination, states

pytestmark = pytest.mark.django_db


def test_a_delivered_message_goes_from_tbdl_over_dlng_to_dlvd(destination: str) -> None:
    (message_id,) = enqueue()
    taken = claim()
    assert states([message_id]) == ["DLNG"]
    answer([message_id])
    end_nodes(taken)
    assert settle() == Settled(delivered=1)
    assert states([message_id]) == ["DLVD"]
    events = list(History.objects.filter(message_id=message_id).order_by("seq").values_list("event", flat=True))
    assert events == ["enqueued", "claimed", "delivered"]
    assert not Claim.objects.filter(is_open=True).exists()


def test_settling_twice_changes_nothing(destination: str) -> None:
    ids = enqueue(3)
    claim()
    answer(ids)
    settle()
    history = History.objects.count()
    assert settle() == Settled()
    assert History.objects.count() == history


def test_a_failed_message_waits_as_the_policy_says(db: None) -> None:
    make_destination(redelivery_delay=60_000, max_redelivery_delay=60_000)
    (message_id,) = enqueue()
    claim()
    answer([message_id], "failed")
    settle()
    message = Message.objects.get(id=message_id)
    assert (message.state, message.failure_count) == ("TBDL", 1)
    assert message.due_at is not None
    assert (message.due_at - message.state_at).total_seconds() == 60
    assert 59 < (seconds_until_due() or 0) <= 60
    assert claim_due(tasks=1) is None


def test_the_retry_after_of_the_consumer_is_a_lower_bound(destination: str) -> None:
    (message_id,) = enqueue()
    claim()
    answer([message_id], "failed", retry_after_ms=7_000)
    settle()
    message = Message.objects.get(id=message_id)
    assert message.due_at is not None
    assert (message.due_at - message.state_at).total_seconds() == 7


def test_an_exhausted_message_stops_in_ndlv_and_is_delivered_again_after_approval(destination: str) -> None:
    (message_id,) = enqueue()
    for _ in range(3):
        claim()
        answer([message_id], "failed")
        settle()
    message = Message.objects.get(id=message_id)
    assert (message.state, message.reason, message.failure_count) == ("NDLV", "attempts_exhausted", 3)
    assert claim_due(tasks=1) is None
    only(approve([message_id], principal=SYSTEM, reason="fixed"), message_id, SYSTEM)
    message.refresh_from_db()
    assert (message.state, message.reason, message.failure_count, message.attempt_number) == ("TBDL", None, 0, 3)
    claim()
    answer([message_id])
    settle()
    assert states([message_id]) == ["DLVD"]
    notes = History.objects.filter(message_id=message_id, event="approved").values_list("actor", "note")
    assert list(notes) == [("system", "fixed")]


def test_an_exhausted_message_is_moved_to_its_dead_letter_address_and_returns_from_there(db: None) -> None:
    make_destination(max_delivery_attempts=1, dead_letter_address="dead", auto_create_dead_letter_resources=True)
    (message_id,) = enqueue(address="orders.eu")
    claim()
    answer([message_id], "failed")
    settle()
    message = Message.objects.select_related("address", "original_address").get(id=message_id)
    assert (message.state, message.address.name) == ("NDLV", "dead")
    assert message.original_address is not None
    assert message.original_address.name == "orders.eu"
    assert list(Hop.objects.values_list("from_address", "to_address", "queue")) == [
        ("orders.eu", "dead", "DLQ.orders.eu")
    ]
    only(approve([message_id], principal=SYSTEM, reason="again"), message_id, SYSTEM)
    message.refresh_from_db()
    assert (message.state, message.address.name, message.original_address) == ("TBDL", "orders.eu", None)
    assert Hop.objects.count() == 2


def test_a_dead_letter_address_with_a_destination_gets_a_child(db: None) -> None:
    make_destination(max_delivery_attempts=1, dead_letter_address="orders.dead")
    (message_id,) = enqueue(address="orders.eu", headers={"a": "b"})
    claim()
    answer([message_id], "failed")
    settle()
    child = Message.objects.select_related("address").exclude(id=message_id).get()
    assert (child.state, child.address.name) == ("TBDL", "orders.dead")
    assert states([message_id]) == ["NDLV"]
    claim()
    assert states([child.id]) == ["DLNG"]


def test_a_message_that_is_moved_beside_a_dead_letter_gets_no_child(db: None) -> None:
    make_destination(max_delivery_attempts=1, dead_letter_address="orders.dead")
    dead, moved = enqueue(2, address="orders.eu")
    claim()
    answer([dead], "failed")
    answer([moved], "moved", move_to="orders.late")
    settle()
    assert Message.objects.exclude(id__in=[dead, moved]).count() == 1


def test_the_moves_of_a_child_go_on_from_its_parents(db: None) -> None:
    """A consumer that moves every message to an address whose dead letters come back to it ends with a person."""
    make_destination(max_delivery_attempts=1, dead_letter_address="orders.dead")
    enqueue(address="orders.eu")
    for _ in range(40):
        if seconds_until_due() is None:
            break
        taken = claim()
        [waiting] = Message.objects.filter(claim_id=taken.id, state="DLNG").values_list("id", "address__name")
        if waiting[1] == "orders.late":
            answer([waiting[0]], "failed")
        else:
            answer([waiting[0]], "moved", move_to="orders.late")
        end_nodes(taken)
        settle()
    assert seconds_until_due() is None
    assert Message.objects.filter(state="NDLV", reason="dead_letter_loop").count() == 1


def test_a_stale_outcome_changes_nothing(destination: str) -> None:
    (message_id,) = enqueue()
    taken = claim()
    end_nodes(taken, "lost")
    settle()
    assert states([message_id]) == ["TBDL"]
    claim()
    Message.objects.filter(id=message_id).update(attempt_number=1)
    answer([message_id])  # the answer of attempt 1
    Message.objects.filter(id=message_id).update(attempt_number=2)
    assert settle() == Settled()
    assert states([message_id]) == ["DLNG"]


def test_what_a_node_had_not_begun_goes_back_and_nothing_is_counted(destination: str) -> None:
    ids = enqueue(3)
    taken = claim()
    answer(ids[:1])
    end_nodes(taken, "clean", unanswered=[ids[1]])
    assert settle() == Settled(delivered=1, returned=2)
    assert states(ids) == ["DLVD", "TBDL", "TBDL"]
    events = [History.objects.filter(message_id=one).order_by("-seq").values_list("event", flat=True)[0] for one in ids]
    assert events == ["delivered", "outcome_lost", "released"]
    assert set(Message.objects.values_list("failure_count", "candidate")) == {(0, False)}
    claim()
    assert states(ids[1:]) == ["DLNG", "DLNG"]


def test_a_shard_that_no_task_took_goes_back_when_its_lease_has_run_out(destination: str) -> None:
    ids = enqueue(2)
    taken = claim()
    assert recover() == Settled()
    Claim.objects.filter(id=taken.id).update(lease_until="2020-01-01T00:00:00Z")
    assert recover() == Settled(returned=2)
    assert states(ids) == ["TBDL", "TBDL"]


def test_messages_past_their_expiry_are_given_up_and_never_claimed(destination: str) -> None:
    ids = enqueue(2, expires_at="2020-01-01T00:00:00Z")
    assert claim_due(tasks=1) is None
    assert expire_due() == 2
    assert set(Message.objects.filter(id__in=ids).values_list("state", "reason")) == {("FAIL", "expired")}


def test_a_destination_gets_no_more_at_once_than_its_concurrency(destination: str) -> None:
    Destination.objects.update(config={"url": "http://127.0.0.1:9/", "concurrency": 2}, window=256)
    ids = enqueue(5)
    assert claim().size == 5
    enqueue()
    assert claim_due(tasks=1) is None
    answer(ids[:3])
    assert claim_due(tasks=1) is None
    answer(ids[3:4])
    assert claim().size == 1


def test_a_destination_that_has_not_shown_how_fast_it_is_gets_no_more_than_the_next_message_waiting(
    destination: str,
) -> None:
    config = {"url": "http://127.0.0.1:9/slow", "concurrency": 2}
    Destination.objects.update(window=256, slowed_by="5 of 5 deliveries failed: no answer")
    save_destination(destination, kind="http", config=config, secrets=None, principal=SYSTEM)
    ids = enqueue(40)
    taken = claim()
    assert taken.size == 3
    assert claim_due(tasks=1) is None
    answer(ids[:2])
    assert claim().size == 2
    assert claim_due(tasks=1) is None


def test_two_claims_share_a_destinations_concurrency_while_more_waits_than_one_takes(destination: str) -> None:
    Destination.objects.update(config={"url": "http://127.0.0.1:9/", "concurrency": 5}, window=256)
    enqueue(10)
    first, second = claim(limit=4), claim(limit=4)
    assert claim_due(tasks=1, limit=4) is None
    assert [slots_of(one) for one in (first, second)] == [3, 2]


def test_all_claims_together_have_no_more_under_way_than_the_window_of_a_destination(destination: str) -> None:
    """Else an endpoint that hangs, whose window is small, would hold a task for each of many small claims."""
    Destination.objects.update(window=4, slowed_by="5 of 5 deliveries failed: no answer")
    enqueue(20)
    assert claim().size == 4
    assert claim_due(tasks=1) is None
    answer(Message.objects.filter(state="DLNG").values_list("id", flat=True)[:3])
    assert claim().size == 3
    assert claim_due(tasks=1) is None


def slots_of(taken: ClaimRef) -> int:
    """Return how many deliveries at once a claim for one destination may have."""
    (plan,) = Claim.objects.get(id=taken.id).plan.values()
    return int(plan["slots"]) * len(taken.shards)


def test_a_rate_reserves_slots_and_takes_no_more_than_start_within_a_second(destination: str) -> None:
    Destination.objects.update(max_rate_per_second=4, next_slot="2020-01-01T00:00:00Z")
    enqueue(20)
    taken = claim(tasks=2)
    assert taken.size == 4
    assert len(taken.shards) == 1
    starts = list(Message.objects.filter(state="DLNG").order_by("start_at").values_list("start_at", flat=True))
    gaps = {round((b - a).total_seconds(), 3) for a, b in itertools.pairwise(starts) if a and b}
    assert gaps == {round(slot_distance(4), 3)}
    assert claim_due(tasks=2) is None


@pytest.mark.django_db(transaction=True)
def test_the_slots_of_two_claims_never_overlap_and_a_few_have_a_while_to_be_begun_in(destination: str) -> None:
    Destination.objects.update(max_rate_per_second=1000, next_slot="2020-01-01T00:00:00Z")
    first = enqueue(2)
    claim()
    second = enqueue(2)
    claim()
    starts = dict(Message.objects.values_list("id", "start_at"))
    assert starts[second[0]] - starts[first[0]] >= timedelta(seconds=0.25)
    assert starts[second[1]] - starts[second[0]] == timedelta(seconds=slot_distance(1000))


def test_a_backlog_on_one_address_does_not_hide_the_others(destination: str) -> None:
    Destination.objects.update(window=8, slowed_by="5 of 5 deliveries failed: no answer")
    enqueue(20, address="orders.big")
    (small,) = enqueue(1, address="orders.small")
    claim()
    assert states([small]) == ["DLNG"]


def test_the_floor_of_a_lane_stays_below_what_waits(destination: str) -> None:
    ids = enqueue(3)
    postpone(ids[2:], until="2099-01-01T00:00:00Z", principal=SYSTEM, reason="later")
    claim()
    lane = Lane.objects.get()
    assert lane.next_due is not None
    assert lane.next_due.year == 2099
    answer(ids[:1], "failed")
    settle()
    due_in = seconds_until_due()
    assert due_in is not None
    assert due_in <= 0


def test_decisions_refuse_what_the_table_does_not_allow(destination: str) -> None:
    (message_id,) = enqueue()
    assert mark_fail([message_id, 0], principal=SYSTEM, reason="x").refused == {message_id: "TBDL", 0: "not_found"}
    assert quarantine([message_id], principal=SYSTEM, reason="look at it").changed == (message_id,)
    assert mark_fail([message_id], principal=SYSTEM, reason="x").changed == (message_id,)
    assert approve([message_id], principal=SYSTEM, reason="x").refused == {message_id: "FAIL"}
    assert restore([message_id], principal=SYSTEM, reason="x").changed == (message_id,)
    assert list(Message.objects.values_list("state", "reason")) == [("NDLV", "quarantined")]


def test_counters_equal_a_full_count_after_everything(destination: str) -> None:
    ids = enqueue(10)
    claim()
    answer(ids[:4])
    answer(ids[4:], "failed")
    settle()
    fold()
    quarantine(ids[4:6], principal=SYSTEM, reason="x")
    claim()
    assert counters() == counted()
    fold()
    assert counters() == counted()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM counter_delta")
        assert cursor.fetchone() == (0,)
