"""Circles of dead letters end with a person, whoever moves the message (R15)."""

import pytest

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.commands.refused_decisions import only
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.policies.commands import save_policy
from poisonadmin.store.models.history import History
from poisonadmin.store.models.message import Hop, Message
from tests.fixtures.decisions import approve
from tests.fixtures.delivery import answer, claim, counted, counters, end_nodes, enqueue, make_destination


@pytest.fixture(autouse=True)
def circle(db: None) -> None:
    """Have `orders.a` send its dead letters to `orders.b`, and that back, after one attempt without a wait."""
    make_destination(max_delivery_attempts=1)
    for here, there in (("a", "b"), ("b", "a")):
        save_policy(
            f"orders.{here}",
            preset=None,
            settings={"dead_letter_address": f"orders.{there}"},
            destination=None,
            principal=SYSTEM,
        )


def fail_all(**columns: object) -> int:
    """Have everything that is due fail until nothing is; return how many deliveries that were."""
    count = 0
    while waiting := list(Message.objects.filter(state="TBDL").values_list("id", flat=True)):
        assert count < 50
        taken = claim()
        answer(waiting, "failed", **columns)
        end_nodes(taken)
        settle()
        count += len(waiting)
    return count


def ends() -> list[tuple[str, str | None, str]]:
    """Return state, reason and address of all messages, oldest first."""
    return list(Message.objects.order_by("id").values_list("state", "reason", "address__name"))


def test_two_dead_letter_addresses_that_name_each_other_deliver_once_each() -> None:
    enqueue(address="orders.a")
    assert fail_all() == 2
    assert ends() == [("NDLV", "attempts_exhausted", "orders.b"), ("NDLV", "dead_letter_loop", "orders.b")]
    last = History.objects.order_by("-seq")[0]
    assert (last.event, last.note) == ("failed", "it would be moved in a circle: orders.a > orders.b > orders.a")
    assert counted() == counters()


def test_a_decision_of_a_person_opens_the_way_again() -> None:
    enqueue(address="orders.a")
    fail_all()
    parked = Message.objects.get(reason="dead_letter_loop")
    only(approve([parked.id], principal=SYSTEM, reason="again"), parked.id, SYSTEM)
    assert fail_all() == 2
    assert ends()[1:] == [("NDLV", "attempts_exhausted", "orders.a"), ("NDLV", "dead_letter_loop", "orders.a")]
    assert list(Hop.objects.filter(message_id=Message.objects.latest("id").id).values_list("from_address")) == [
        ("orders.b",)
    ]


def test_a_way_without_a_circle_ends_too() -> None:
    [message] = enqueue(address="orders.eu")
    for turn in range(33):
        claim()
        answer([message], "moved", move_to=f"orders.on.{turn}")
        settle()
    assert (Message.objects.get().reason, Hop.objects.count()) == ("dead_letter_loop", 32)
