"""Conformance SAP-14: an ordered address through the API, the redelivery and a sandbox."""

from typing import Any

import pytest

from tests.conformance.controlled_handler import ControlledHandler
from tests.conformance.courses import bring_forward
from tests.conformance.local_redelivery import LocalRedelivery
from tests.whole_system.consumer import Answer
from tests.whole_system.http_destination import CreateHttpDestination
from tests.whole_system.installation import until

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


@pytest.mark.conformance("OP-h", "R17", by="HTTP status")
def test_op_h_successors_of_a_parked_head_are_held_until_their_selection_has_it_too(
    redelivery: LocalRedelivery, create_http_destination: CreateHttpDestination
) -> None:
    fixed: list[str] = []
    destination = create_http_destination(
        "op-h", lambda _: Answer(200 if fixed else 503), ordered=True, max_delivery_attempts=1
    )
    first, *behind = (destination.send(conversation_id="op-h") for _ in range(21))
    destination.until(first, "NDLV")
    held = redelivery.get("messages/?held=true&address=op-h.%23&limit=100")["results"]
    assert sorted(int(one["id"]) for one in held) == behind
    assert {one["predecessor_id"] for one in held} == {str(first)}
    for message in behind:
        destination.decide(message, "quarantine")

    def approved(ids: list[int]) -> tuple[int, list[tuple[str, int]], dict[str, Any]]:
        selection = redelivery.post("selections/", {"ids": [str(one) for one in ids]})["id"]
        seen = redelivery.get(f"selections/{selection}/preview/?action=approve")
        asked = {"action": "approve", "selection": selection, "reason": "fixed"}
        operation = redelivery.post("operations/", asked)["id"]
        until(lambda: redelivery.get(f"operations/{operation}/")["state"] == "completed")
        ledger = redelivery.get(f"operations/{operation}/")["ledger"]
        return seen["accepted"], [(one["code"], one["count"]) for one in seen["refused"]], ledger

    accepted, refused, ledger = approved(behind)
    assert (accepted, refused, ledger["skipped"]) == (0, [("held_by_predecessor", 20)], 20)
    fixed.append("now")
    accepted, refused, ledger = approved([first, *behind])
    assert (accepted, refused, ledger["delivered"]) == (21, [], 21)
    assert [one.message_id for one in destination.consumer.arrivals] == [first, first, *behind]


def head(redelivery: LocalRedelivery, conversation: str) -> int:
    """Return the message behind which the conversation is held."""
    ((head_id,),) = redelivery.rows("SELECT head_id FROM lane WHERE conversation_id = %s", [conversation])
    return int(head_id)
