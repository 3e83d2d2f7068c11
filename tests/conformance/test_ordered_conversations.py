"""Conformance SAP-14: an ordered address through the API, the redelivery and a sandbox."""

import pytest

from tests.conformance.controlled_handler import ControlledHandler
from tests.conformance.courses import bring_forward
from tests.conformance.local_redelivery import LocalRedelivery

# What is claimed behind a message that fails goes back unbegun, and its next attempt has the next number.
CLAIMS = range(1, 6)


@pytest.mark.conformance("SAP-14", by="exception")
def test_sap_14_a_message_is_held_while_its_predecessor_waits_or_is_not_delivered(redelivery: LocalRedelivery) -> None:
    handler = ControlledHandler.create(
        redelivery, "sap-14", ordered=True, redelivery_delay=600_000, max_delivery_attempts=2
    )
    handler.hold()
    first, second, third = (handler.send(conversation_id="sap-14") for _ in range(3))
    another = handler.send(conversation_id="sap-14 too")
    for message in (second, third, another):
        for attempt in CLAIMS:
            handler.deliver(message, attempt)
    handler.end(first, 1, "reject")
    handler.end(first, 2, "reject")
    handler.release()

    handler.until(another, "DLVD", "delivered")
    handler.until(first, "TBDL", "failed")
    assert head(redelivery, "sap-14") == first
    bring_forward(redelivery, first)
    handler.until(first, "NDLV", "failed")
    assert not any(handler.has_begun(message, attempt) for message in (second, third) for attempt in CLAIMS)
    assert [handler.suspicion(message).state for message in (second, third)] == ["TBDL", "TBDL"]

    handler.destination.decide(first, "approve")
    handler.deliver(first, 3)
    for message in (first, second, third):
        handler.until(message, "DLVD", "delivered")
    begun = [handler.destination.attempts(message)[-1]["started_at"] for message in (first, second, third)]
    ended = [handler.destination.attempts(message)[-1]["finished_at"] for message in (first, second, third)]
    assert ended[0] <= begun[1]
    assert ended[1] <= begun[2]


@pytest.mark.conformance("R13", "SAP-14", by="exception")
def test_r13_a_message_that_is_moved_lets_its_successor_go_and_one_that_is_parked_holds_it(
    redelivery: LocalRedelivery,
) -> None:
    for name, settings in (("r13-moved", {"dead_letter_address": "r13-dead"}), ("r13-parked", {})):
        handler = ControlledHandler.create(
            redelivery, name, preset="artemis", ordered=True, max_delivery_attempts=1, on_exhausted="park", **settings
        )
        first, second = handler.send(conversation_id=name), handler.send(conversation_id=name)
        for attempt in CLAIMS:
            handler.deliver(second, attempt)
        handler.end(first, 1, "reject")
        handler.until(first, "NDLV", "failed")
        if settings:
            handler.until(second, "DLVD", "delivered")
        else:
            later = handler.send()
            handler.deliver(later, 1)
            handler.until(later, "DLVD", "delivered")
            assert not any(handler.has_begun(second, attempt) for attempt in CLAIMS)


def head(redelivery: LocalRedelivery, conversation: str) -> int:
    """Return the message behind which the conversation is held."""
    ((head_id,),) = redelivery.rows("SELECT head_id FROM lane WHERE conversation_id = %s", [conversation])
    return int(head_id)
