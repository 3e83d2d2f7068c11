"""SEMANTICS SSB-1 to SSB-12, vectors SSB-b to SSB-e, ruling R6: through the API, Celery, Spark and a sandbox.

A failure that the procedure handles is an exception of the handler; an abort of the whole transaction is its
`Rollback`.
"""

import pytest

from tests.conformance.gate import SECONDS, Gate
from tests.whole_system.installation import Installation, until

SPARK_JOB = ("redeliver", "spark-redelivery", "succeeded")
RETURNED = ("failed", "TBDL")


def opened(installation: Installation, name: str) -> Gate:
    """Return a gate with the limits of the preset, and a short wait."""
    return Gate.open(installation, name, preset="service_broker", max_delivery_attempts=-1)


def count(gate: Gate, conversation: str) -> int:
    """Return the count of a conversation's failures, 0 where there is none."""
    found = gate.shop.installation.rows("SELECT failures FROM conversation WHERE conversation_id = %s", [conversation])
    return int(found[0][0]) if found else 0


def status(gate: Gate) -> dict[str, object]:
    """Return the address as the API shows it."""
    shown: dict[str, object] = gate.shop.installation.get(f"addresses/{gate.shop.address}/")
    return shown


@pytest.mark.conformance("SSB-b", "SSB-6", "SSB-10", "R6")
def test_ssb_b_the_fourth_failure_ends_the_conversation_with_error_500_and_parks_what_else_of_it_waits(
    installation: Installation,
) -> None:
    gate = opened(installation, "ssb-b-gate")
    poison = gate.send(conversation_id="ssb-b-gate")
    for attempt in (1, 2, 3):
        gate.end(poison, attempt, "reject")
    gate.until_begun(poison, 4)
    assert (gate.suspicion(poison).failure_count, count(gate, "ssb-b-gate")) == (3, 3)
    gate.hold()
    behind, elsewhere = gate.send(conversation_id="ssb-b-gate"), gate.send(conversation_id="another")
    gate.end(poison, 4, "reject")
    assert gate.until(poison, "FAIL", "failed").reason == "conversation_ended"
    assert gate.until(behind, "NDLV", "conversation_ended").reason == "conversation_ended"
    assert count(gate, "ssb-b-gate") == 0
    note = installation.rows("SELECT note FROM history WHERE message_id = %s ORDER BY seq DESC LIMIT 1", [poison])
    assert note == [("conversation ended with error 500: Unable to process message.",)]
    assert gate.suspicion(elsewhere).state == "TBDL"
    gate.release()
    gate.deliver(elsewhere, 1)
    gate.until(elsewhere, "DLVD", "delivered")
    assert gate.jobs(poison) == [SPARK_JOB] * 4


@pytest.mark.conformance("SSB-c", "SSB-6", "SSB-7", "SSB-9")
def test_ssb_c_failures_are_counted_over_the_messages_of_a_conversation_and_a_success_clears_them(
    installation: Installation,
) -> None:
    gate = opened(installation, "ssb-c")
    first = gate.send(conversation_id="ssb-c")
    gate.end(first, 1, "reject")
    gate.end(first, 2, "reject")
    gate.until_begun(first, 3)
    second = gate.send(conversation_id="ssb-c")
    gate.end(second, 1, "reject")
    gate.until_begun(second, 2)
    assert count(gate, "ssb-c") == 3
    gate.deliver(second, 2)
    gate.until(second, "DLVD", "delivered")
    assert count(gate, "ssb-c") == 0
    for attempt in (3, 4, 5):
        gate.end(first, attempt, "reject")
    gate.until_begun(first, 6)
    assert count(gate, "ssb-c") == 3
    assert [step for step in gate.steps(first) if step[0] == "failed"] == [RETURNED] * 5
    gate.deliver(first, 6)
    gate.until(first, "DLVD", "delivered")
    assert gate.jobs(first) == [SPARK_JOB] * 6


@pytest.mark.conformance("SSB-d", "SSB-e", "SSB-1", "SSB-12", "R3")
def test_ssb_d_and_e_five_aborts_in_a_row_switch_the_queue_off_until_the_poison_is_quarantined(
    installation: Installation,
) -> None:
    gate = opened(installation, "ssb-d")
    poison = gate.send(conversation_id="ssb-d")
    gate.end(poison, 1, "reject")
    for attempt in (2, 3, 4, 5, 6):
        gate.end(poison, attempt, "rollback")
    until(lambda: status(gate)["status"] == "STOPPED", SECONDS, lambda: gate.steps(poison))
    assert gate.steps(poison).count(("rolled_back", "TBDL")) == 5
    assert (gate.suspicion(poison).state, gate.suspicion(poison).failure_count) == ("TBDL", 1)
    assert count(gate, "ssb-d") == 1
    assert status(gate)["status_message_id"] == str(poison)
    assert "queue_off_after_rollbacks" in str(status(gate)["status_note"])
    assert gate.jobs(poison) == [SPARK_JOB] * 6

    others = [gate.send(conversation_id="ssb-e"), gate.send()]
    for other in others:
        gate.deliver(other, 1)
    assert [gate.suspicion(other).state for other in others] == ["TBDL", "TBDL"]
    installation.post(f"addresses/{gate.shop.address}/resume/", {"reason": "found it", "quarantine": str(poison)})
    for other in others:
        gate.until(other, "DLVD", "delivered")
    assert (gate.suspicion(poison).state, gate.suspicion(poison).reason) == ("NDLV", "quarantined")
    assert (status(gate)["status"], gate.has_begun(poison, 7)) == ("ON", False)


@pytest.mark.conformance("SSB-8", "R6")
def test_ssb_8_a_handler_that_ends_the_conversation_clears_its_count_and_parks_the_rest(
    installation: Installation,
) -> None:
    gate = opened(installation, "ssb-8")
    last = gate.send(conversation_id="ssb-8")
    gate.end(last, 1, "reject")
    gate.until_begun(last, 2)
    assert count(gate, "ssb-8") == 1
    gate.hold()
    behind = gate.send(conversation_id="ssb-8")
    gate.end(last, 2, "end_conversation")
    assert gate.until(last, "FAIL", "conversation_ended").reason == "conversation_ended"
    assert gate.until(behind, "NDLV", "conversation_ended").reason == "conversation_ended"
    assert count(gate, "ssb-8") == 0
