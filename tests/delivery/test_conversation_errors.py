"""The error of an ended conversation, enqueued for the other side (R6)."""

import json

import pytest

from poisonadmin.delivery.commands.settle import settle
from poisonadmin.store.models.lane import Conversation
from poisonadmin.store.models.message import Body, Envelope, Message
from tests.fixtures.delivery import answer, claim, counted, counters, enqueue, make_destination, states


@pytest.fixture
def broker(db: None) -> None:
    """End a conversation with its second failure, and say so on `orders.errors`."""
    make_destination(
        max_delivery_attempts=-1,
        redelivery_delay=0,
        conversation_failure_limit=2,
        conversation_error_address="orders.errors",
    )


def errors() -> list[dict[str, object]]:
    """Return the bodies of what was enqueued on `orders.errors`, oldest first."""
    ids = Message.objects.filter(address__name="orders.errors").order_by("id").values_list("id", flat=True)
    return [json.loads(bytes(Body.objects.get(id=one).payload)) for one in ids]


def deliver(message: int, outcome: str, **columns: object) -> None:
    claim()
    answer([message], outcome, **columns)
    settle()


@pytest.mark.conformance("R6", "SSB-10")
def test_too_many_failures_send_error_500(broker: None) -> None:
    [message] = enqueue(conversation_id="c-1")
    deliver(message, "failed")
    assert errors() == []
    deliver(message, "failed")
    assert errors() == [{"conversation_id": "c-1", "code": 500, "description": "Unable to process message."}]
    told = Message.objects.get(address__name="orders.errors")
    envelope = Envelope.objects.get(id=told.id)
    assert (told.state, envelope.parent_id, envelope.conversation_id) == ("TBDL", message, "c-1")
    assert counted() == counters()


@pytest.mark.conformance("R6", "R12")
def test_a_consumers_own_error_is_sent_as_it_is(broker: None) -> None:
    [message] = enqueue(conversation_id="c-1")
    deliver(message, "conversation_ended", error_code=17, error_message="no such order")
    assert states([message]) == ["FAIL"]
    assert errors() == [{"conversation_id": "c-1", "code": 17, "description": "no such order"}]
    ended = Conversation.objects.get()
    assert (ended.error_code, ended.error, ended.ended_at is not None) == (17, "no such order", True)


@pytest.mark.conformance("R6")
@pytest.mark.parametrize("conversation", ["c-1", None])
def test_a_normal_end_and_an_end_without_a_conversation_send_nothing(broker: None, conversation: str | None) -> None:
    [message] = enqueue(conversation_id=conversation)
    deliver(message, "conversation_ended", **({} if conversation else {"error_code": 17}))
    assert states([message]) == ["DLVD" if conversation else "FAIL"]
    assert errors() == []


@pytest.mark.conformance("SSB-j", "R6")
def test_a_content_rule_ends_a_conversation_with_an_error(broker: None) -> None:
    first, behind = enqueue(2, conversation_id="c-1")
    claim(limit=1)
    answer([first], "ruled", rule_action="end_conversation", error_message="rule no employee: end_conversation")
    settle()
    assert states([first, behind]) == ["FAIL", "NDLV"]
    assert errors() == [{"conversation_id": "c-1", "code": 500, "description": "rule no employee: end_conversation"}]
