"""Counts that are not a message's own: of conversations, and of roll-backs in a row (SSB-1 to SSB-11)."""

from typing import Any

import pytest

from poisonadmin.addresses.commands import NotOnAddress
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.releases import resume_without
from poisonadmin.delivery.commands import settle as settle_module
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.store.models.history import History
from poisonadmin.store.models.lane import Address, Conversation
from poisonadmin.store.models.message import Message
from tests.fixtures.delivery import answer, claim, counted, counters, enqueue, make_destination, states

FAILURE = {"error_class": "HandlerSegfault", "fingerprint": "c" * 16, "title": "Segfault"}


@pytest.fixture
def broker(db: None) -> None:
    """Counted as in the preset `service_broker`, without waits."""
    make_destination(
        max_delivery_attempts=-1,
        conversation_failure_limit=4,
        queue_off_after_rollbacks=5,
        blacklisting_enabled=False,
    )


def refuse(ids: list[int], times: int = 1, outcome: str = "failed") -> None:
    """Have the messages delivered and refused so often."""
    for _ in range(times):
        claim()
        answer(ids, outcome, **(FAILURE if outcome in ("crashed", "node_lost", "suspected") else {}))
        settle()


def failures(conversation: str) -> int:
    """Return the count of a conversation, 0 for none."""
    found = Conversation.objects.filter(conversation_id=conversation).values_list("failures", flat=True)
    return found[0] if found else 0


@pytest.mark.conformance("SSB-a", "SSB-9")
def test_three_failures_of_a_conversation_leave_it_queued(broker: None) -> None:
    [message] = enqueue(conversation_id="c-1")
    refuse([message], 3)
    assert states([message]) == ["TBDL"]
    assert failures("c-1") == 3


@pytest.mark.conformance("SSB-b", "SSB-10", "R6")
def test_the_fourth_ends_it_parks_the_rest_and_clears_the_count(broker: None) -> None:
    first = enqueue(conversation_id="c-1")
    refuse(first, 3)
    claim()
    others = enqueue(2, conversation_id="c-1") + enqueue(1, conversation_id="c-2")
    answer(first, "failed")
    settle()
    assert states(first + others) == ["FAIL", "NDLV", "NDLV", "TBDL"]
    reasons = list(Message.objects.filter(id__in=[*first, *others[:2]]).values_list("reason", flat=True))
    assert reasons == ["conversation_ended"] * 3
    assert failures("c-1") == 0
    assert History.objects.filter(message_id=others[0], event="conversation_ended").exists()
    assert counted() == counters()


@pytest.mark.conformance("SSB-c", "SSB-7")
def test_a_conversation_is_counted_over_its_messages_and_cleared_by_a_delivery(broker: None) -> None:
    one = enqueue(conversation_id="c-1")
    refuse(one, 2)
    other = enqueue(conversation_id="c-1")
    claim()
    answer(one + other, "failed")
    settle()
    assert states(one + other) == ["NDLV", "FAIL"], "the fourth failure ends it, the one before is parked"

    one = enqueue(conversation_id="c-2")
    refuse(one, 3)
    claim()
    answer(one)
    settle()
    assert failures("c-2") == 0
    again = enqueue(conversation_id="c-2")
    refuse(again, 3)
    assert states(again) == ["TBDL"]


@pytest.mark.conformance("SSB-c", "SSB-7")
def test_a_delivery_that_is_written_while_deliveries_are_settled_still_clears_the_count_first(
    broker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    [first] = enqueue(conversation_id="c-1")
    refuse([first], 3)
    [second] = enqueue(conversation_id="c-1")
    beside = enqueue()
    claim()
    answer(beside)
    settle_delivered = settle_module._settle_delivered

    def settle_then_both_answers_arrive(*of: Any) -> int:
        count = settle_delivered(*of)
        monkeypatch.setattr(settle_module, "_settle_delivered", settle_delivered)
        answer([first])
        answer([second], "failed")
        return count

    monkeypatch.setattr(settle_module, "_settle_delivered", settle_then_both_answers_arrive)
    settle_module.settle()
    assert (states([first, second]), failures("c-1")) == (["DLVD", "TBDL"], 1)


@pytest.mark.conformance("SSB-8", "SSB-10")
def test_a_conversation_that_its_handler_ends_is_counted_anew(broker: None) -> None:
    [message] = enqueue(conversation_id="c-1")
    refuse([message], 2)
    refuse([message], 1, "conversation_ended")
    assert (states([message]), failures("c-1")) == (["DLVD"], 0)


@pytest.mark.conformance("SSB-f", "SSB-11")
def test_without_a_conversation_nothing_is_counted(broker: None) -> None:
    [message] = enqueue()
    refuse([message], 6)
    assert states([message]) == ["TBDL"]
    assert not Conversation.objects.exists()


@pytest.mark.conformance("SSB-d", "SSB-12")
def test_five_roll_backs_in_a_row_stop_the_address_and_count_nothing_else(broker: None) -> None:
    [message] = enqueue(conversation_id="c-1")
    refuse([message], 4, "rolled_back")
    assert Address.objects.get(name="orders.eu").status == "ON"
    refuse([message], 1, "rolled_back")
    stopped = Address.objects.get(name="orders.eu")
    assert (stopped.status, stopped.status_message_id, stopped.rollbacks_in_row) == ("STOPPED", message, 0)
    assert "queue_off_after_rollbacks" in (stopped.status_note or "")
    assert (states([message]), failures("c-1"), Message.objects.get(id=message).failure_count) == (["TBDL"], 0, 0)


@pytest.mark.conformance("SSB-i", "R3")
@pytest.mark.parametrize("between", ["crashed", "node_lost", "failed", "suspected"])
def test_a_crash_counts_among_roll_backs_and_an_exception_ends_no_row(broker: None, between: str) -> None:
    [message] = enqueue()
    refuse([message], 4, "rolled_back")
    assert Address.objects.get(name="orders.eu").rollbacks_in_row == 4
    refuse([message], 1, between)
    status = Address.objects.get(name="orders.eu").status
    assert status == ("STOPPED" if between in ("crashed", "node_lost") else "ON")
    if status == "ON":
        refuse([message], 1, "rolled_back")
        assert Address.objects.get(name="orders.eu").status == "STOPPED"


@pytest.mark.conformance("SSB-i")
def test_five_crashes_in_a_row_stop_the_address(broker: None) -> None:
    [message] = enqueue()
    refuse([message], 5, "crashed")
    stopped = Address.objects.get(name="orders.eu")
    assert (stopped.status, stopped.status_message_id) == ("STOPPED", message)
    assert Message.objects.get(id=message).failure_count == 0


@pytest.mark.parametrize("outcome", ["delivered", "discarded", "moved"])
def test_a_transaction_that_was_committed_ends_a_row_of_roll_backs(broker: None, outcome: str) -> None:
    [message] = enqueue()
    refuse([message], 4, "rolled_back")
    [other] = enqueue()
    claim()
    answer([other], outcome, move_to="orders.us" if outcome == "moved" else None)
    settle()
    assert Address.objects.get(name="orders.eu").rollbacks_in_row == 0


@pytest.mark.conformance("SSB-e")
def test_a_stopped_address_is_resumed_without_the_message_that_stopped_it(broker: None) -> None:
    [poison] = enqueue()
    refuse([poison], 5, "rolled_back")
    others = enqueue(2)
    resume_without("orders.eu", poison, principal=SYSTEM, reason="found it")
    claim()
    answer(others)
    settle()
    assert states([poison, *others]) == ["NDLV", "DLVD", "DLVD"]
    assert Message.objects.get(id=poison).reason == "quarantined"


def test_an_address_is_not_resumed_without_a_message_that_is_elsewhere(broker: None) -> None:
    [poison] = enqueue()
    refuse([poison], 5, "rolled_back")
    [elsewhere] = enqueue(address="orders.us")
    with pytest.raises(NotOnAddress):
        resume_without("orders.eu", elsewhere, principal=SYSTEM, reason="found it")
    assert Address.objects.get(name="orders.eu").status == "STOPPED"
