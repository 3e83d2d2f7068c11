"""SEMANTICS SAP-14: an ordered address through the API, Celery, Spark and a sandbox."""

import pytest

from tests.conformance.courses import bring_forward
from tests.conformance.gate import Gate
from tests.whole_system.installation import Installation

# What is claimed behind a message that fails goes back unbegun, and its next attempt has the next number.
CLAIMS = range(1, 6)


@pytest.mark.conformance("SAP-14")
def test_sap_14_a_message_is_held_while_its_predecessor_waits_or_is_not_delivered(installation: Installation) -> None:
    gate = Gate.open(installation, "sap-14", ordered=True, redelivery_delay=600_000, max_delivery_attempts=2)
    gate.hold()
    first, second, third = (gate.send(conversation_id="sap-14") for _ in range(3))
    another = gate.send(conversation_id="sap-14 too")
    for message in (second, third, another):
        for attempt in CLAIMS:
            gate.deliver(message, attempt)
    gate.end(first, 1, "reject")
    gate.end(first, 2, "reject")
    gate.release()

    gate.until(another, "DLVD", "delivered")
    gate.until(first, "TBDL", "failed")
    assert head(installation, "sap-14") == first
    bring_forward(installation, first)
    gate.until(first, "NDLV", "failed")
    assert not any(gate.has_begun(message, attempt) for message in (second, third) for attempt in CLAIMS)
    assert [gate.suspicion(message).state for message in (second, third)] == ["TBDL", "TBDL"]

    gate.shop.decide(first, "approve")
    gate.deliver(first, 3)
    for message in (first, second, third):
        gate.until(message, "DLVD", "delivered")
    begun = [gate.shop.attempts(message)[-1]["started_at"] for message in (first, second, third)]
    ended = [gate.shop.attempts(message)[-1]["finished_at"] for message in (first, second, third)]
    assert ended[0] <= begun[1]
    assert ended[1] <= begun[2]


def head(installation: Installation, conversation: str) -> int:
    """Return the message behind which the conversation is held."""
    ((head_id,),) = installation.rows("SELECT head_id FROM lane WHERE conversation_id = %s", [conversation])
    return int(head_id)
