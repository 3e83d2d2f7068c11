"""Conformance SSB-1 to SSB-12, vectors SSB-b to SSB-e, R6: through the API, the redelivery and a sandbox.

A failure that the procedure handles is an exception of the handler; an abort of the whole transaction is its
`Rollback`.
"""

import pytest

from tests.conformance.controlled_handler import SECONDS, ControlledHandler
from tests.conformance.local_redelivery import JOB, LocalRedelivery
from tests.whole_system.consumer import Answer
from tests.whole_system.http_destination import CreateHttpDestination
from tests.whole_system.installation import until

RETURNED = ("failed", "TBDL")


def opened(redelivery: LocalRedelivery, name: str) -> ControlledHandler:
    """Return a handler with the limits of the preset, and a short wait."""
    return ControlledHandler.create(redelivery, name, preset="service_broker", max_delivery_attempts=-1)


def count(handler: ControlledHandler, conversation: str) -> int:
    """Return the count of a conversation's failures, 0 where there is none."""
    found = handler.destination.installation.rows(
        "SELECT failures FROM conversation WHERE conversation_id = %s", [conversation]
    )
    return int(found[0][0]) if found else 0


def status(handler: ControlledHandler) -> dict[str, object]:
    """Return the address as the API shows it."""
    shown: dict[str, object] = handler.destination.installation.get(f"addresses/{handler.destination.address}/")
    return shown


@pytest.mark.conformance("SSB-b", "SSB-6", "SSB-10", "R6", by="exception")
def test_ssb_b_the_fourth_failure_ends_the_conversation_with_error_500_and_parks_what_else_of_it_waits(
    redelivery: LocalRedelivery,
) -> None:
    handler = opened(redelivery, "ssb-b-2")
    poison = handler.send(conversation_id="ssb-b-2")
    for attempt in (1, 2, 3):
        handler.end(poison, attempt, "reject")
    handler.until_begun(poison, 4)
    assert (handler.suspicion(poison).failure_count, count(handler, "ssb-b-2")) == (3, 3)
    handler.hold()
    behind, elsewhere = handler.send(conversation_id="ssb-b-2"), handler.send(conversation_id="another")
    handler.end(poison, 4, "reject")
    assert handler.until(poison, "FAIL", "failed").reason == "conversation_ended"
    assert handler.until(behind, "NDLV", "conversation_ended").reason == "conversation_ended"
    assert count(handler, "ssb-b-2") == 0
    note = redelivery.rows("SELECT note FROM history WHERE message_id = %s ORDER BY seq DESC LIMIT 1", [poison])
    assert note == [("conversation ended with error 500: Unable to process message.",)]
    assert handler.suspicion(elsewhere).state == "TBDL"
    handler.release()
    handler.deliver(elsewhere, 1)
    handler.until(elsewhere, "DLVD", "delivered")
    assert handler.jobs(poison) == [JOB] * 4


@pytest.mark.conformance("SSB-c", "SSB-6", "SSB-7", "SSB-9", by="exception")
def test_ssb_c_a_success_clears_the_failures_of_a_conversation_before_its_successor_fails(
    redelivery: LocalRedelivery,
) -> None:
    handler = opened(redelivery, "ssb-c")
    first, second = handler.send(conversation_id="ssb-c"), handler.send(conversation_id="ssb-c")
    for attempt in (1, 2, 3):
        handler.end(first, attempt, "reject")
    handler.until_begun(first, 4)
    assert count(handler, "ssb-c") == 3
    assert not handler.has_begun(second, 1), "the successor waits for its predecessor"
    handler.deliver(first, 4)
    handler.until(first, "DLVD", "delivered")
    for _ in range(3):
        handler.end(second, handler.until_in_turn(second), "reject")
    last = handler.until_in_turn(second)
    assert count(handler, "ssb-c") == 3
    for message in (first, second):
        assert [step for step in handler.steps(message) if step[0] == "failed"] == [RETURNED] * 3
    handler.deliver(second, last)
    handler.until(second, "DLVD", "delivered")
    assert handler.jobs(first) == handler.jobs(second) == [JOB] * 4


@pytest.mark.conformance("SSB-d", "SSB-e", "SSB-1", "SSB-12", "R3", by="roll-back, exception")
def test_ssb_d_and_e_five_aborts_in_a_row_switch_the_queue_off_until_the_poison_is_quarantined(
    redelivery: LocalRedelivery,
) -> None:
    handler = opened(redelivery, "ssb-d")
    poison = handler.send(conversation_id="ssb-d")
    handler.end(poison, 1, "reject")
    for attempt in (2, 3, 4, 5, 6):
        handler.end(poison, attempt, "rollback")
    until(lambda: status(handler)["status"] == "STOPPED", SECONDS, lambda: handler.steps(poison))
    assert handler.steps(poison).count(("rolled_back", "TBDL")) == 5
    assert (handler.suspicion(poison).state, handler.suspicion(poison).failure_count) == ("TBDL", 1)
    assert count(handler, "ssb-d") == 1
    assert status(handler)["status_message_id"] == str(poison)
    assert "queue_off_after_rollbacks" in str(status(handler)["status_note"])
    assert handler.jobs(poison) == [JOB] * 6

    others = [handler.send(conversation_id="ssb-e"), handler.send()]
    for other in others:
        handler.deliver(other, 1)
    assert [handler.suspicion(other).state for other in others] == ["TBDL", "TBDL"]
    redelivery.post(
        f"addresses/{handler.destination.address}/resume/", {"reason": "found it", "quarantine": str(poison)}
    )
    for other in others:
        handler.until(other, "DLVD", "delivered")
    assert (handler.suspicion(poison).state, handler.suspicion(poison).reason) == ("NDLV", "quarantined")
    assert (status(handler)["status"], handler.has_begun(poison, 7)) == ("ON", False)


@pytest.mark.conformance("SSB-8", "R6", by="HTTP status")
def test_an_end_with_an_error_is_a_failure_that_has_a_group_and_is_listed(
    create_http_destination: CreateHttpDestination, redelivery: LocalRedelivery
) -> None:
    said = {"PoisonAdmin-Outcome": 'end-conversation; code=17; error="no such order"'}
    destination = create_http_destination("ssb-error", lambda _: Answer(200, headers=said), preset="service_broker")
    message = destination.send(conversation_id="ssb-error")
    ended = destination.until(message, "FAIL")
    assert ended["failed_at"] is not None
    assert ended["group_title"] == "ConversationError 17: no such order"
    [attempt] = redelivery.get(f"messages/{message}/attempts/")["results"]
    assert (attempt["outcome"], attempt["error_class"], attempt["error_message"]) == (
        "conversation_ended",
        "ConversationError 17",
        "no such order",
    )
    found = redelivery.get(f"messages/?reason=conversation_ended&group={ended['group_id']}")["results"]
    assert [one["id"] for one in found] == [str(message)]
    parked = destination.until(destination.send(conversation_id="ssb-error"), "NDLV")
    note = destination.history(int(parked["id"]))[-1]["note"]
    assert note == "its conversation has ended with error 17: no such order"


@pytest.mark.conformance("SSB-8", "R6", by="exception")
def test_ssb_8_a_handler_that_ends_the_conversation_clears_its_count_and_parks_the_rest(
    redelivery: LocalRedelivery,
) -> None:
    handler = opened(redelivery, "ssb-8")
    last = handler.send(conversation_id="ssb-8")
    handler.end(last, 1, "reject")
    handler.until_begun(last, 2)
    assert count(handler, "ssb-8") == 1
    handler.hold()
    behind = handler.send(conversation_id="ssb-8")
    handler.end(last, 2, "end_conversation")
    assert handler.until(last, "FAIL", "conversation_ended").reason == "conversation_ended"
    assert handler.until(behind, "NDLV", "conversation_ended").reason == "conversation_ended"
    assert count(handler, "ssb-8") == 0
