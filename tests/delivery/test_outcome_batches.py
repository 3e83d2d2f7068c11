"""A batch says what was delivered, and a claim how much of it is settled: so little is read twice."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from poisonadmin.delivery.commands.settle import Settled, settle
from poisonadmin.store.models.claim import Claim, Node, OutcomeBatch
from poisonadmin.store.models.history import History
from poisonadmin.store.models.message import Message
from tests.fixtures.delivery import answer, claim, end_nodes, enqueue, states

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("destination")]


def test_a_batch_names_the_attempt_of_what_was_delivered_and_none_of_what_was_not() -> None:
    delivered, failed = enqueue(2)
    claim()
    answer([delivered])
    answer([failed], "failed")
    batches = OutcomeBatch.objects.order_by("id").values_list("message_ids", "delivered")
    assert list(batches) == [([delivered], [1]), ([failed], [None])]


def test_a_delivery_by_another_attempt_than_the_current_one_settles_nothing() -> None:
    ids = enqueue()
    taken = claim()
    answer(ids)
    OutcomeBatch.objects.update(delivered=[7])
    assert settle(taken.id) == Settled()
    assert states(ids) == ["DLNG"]


def test_a_delivery_of_another_claim_settles_nothing() -> None:
    ids = enqueue()
    taken = claim()
    answer(ids)
    Message.objects.filter(id__in=ids).update(claim_id=taken.id + 1)
    assert settle(taken.id) == Settled()
    assert states(ids) == ["DLNG"]


def test_a_message_in_two_batches_is_settled_once() -> None:
    ids = enqueue()
    taken = claim()
    answer(ids)
    OutcomeBatch.objects.create(claim_id=taken.id, message_ids=ids, delivered=[1])
    assert settle(taken.id) == Settled(delivered=1)
    assert list(History.objects.filter(message_id=ids[0], event="delivered").values_list("to_state")) == [("DLVD",)]
    assert Claim.objects.get().settled == 1


def test_what_ended_nodes_left_is_not_looked_for_where_every_message_is_settled() -> None:
    ids = enqueue(3)
    taken = claim()
    answer(ids[:2])
    answer(ids[2:], "failed")
    end_nodes(taken)
    with CaptureQueriesContext(connection) as ran:
        assert settle(taken.id) == Settled(delivered=2, failed=1)
    assert not any("ended.message_ids" in one["sql"] for one in ran.captured_queries)
    assert (Claim.objects.get().settled, Claim.objects.get().is_open) == (3, False)
    assert not Node.objects.filter(settled_at=None)


def test_what_ended_nodes_left_goes_back_where_a_message_is_missing() -> None:
    ids = enqueue(3)
    taken = claim()
    answer(ids[:2])
    end_nodes(taken)
    assert settle(taken.id) == Settled(delivered=2, returned=1)
    assert states(ids) == ["DLVD", "DLVD", "TBDL"]
    assert (Claim.objects.get().settled, Claim.objects.get().is_open) == (2, False)
