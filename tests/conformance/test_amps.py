"""Conformance AMPS-3, AMPS-c, AMPS-f, R7 for stored messages; tests/poisonguard takes the vectors elsewhere."""

import pytest

from tests.conformance.controlled_handler import ControlledHandler
from tests.conformance.courses import Went
from tests.conformance.local_redelivery import JOB, LocalRedelivery


def entries(redelivery: LocalRedelivery, source: str) -> dict[str, dict[str, object]]:
    """Return the entries of a source's poison list by bookmark."""
    found = redelivery.get(f"poison-list/?source={source}")["results"]
    return {entry["bookmark"]: entry for entry in found}


@pytest.mark.conformance("AMPS-3", "AMPS-13", "R7", by="exception")
def test_amps_13_the_first_failure_of_a_stored_message_lists_it_with_the_exception_s_text(
    redelivery: LocalRedelivery, courses: dict[str, Went]
) -> None:
    message = redelivery.get(f"messages/{courses['amps-13.orders'].message_id}/")
    entry = entries(redelivery, "amps-13.orders")[message["message_id"]]
    assert (entry["is_listed"], entry["is_fatal"]) == (True, False)
    assert "503" in str(entry["why"])


@pytest.mark.conformance("AMPS-3", "AMPS-c", "AMPS-f", "R7", by="crash")
def test_amps_c_and_f_the_first_crash_lists_a_message_as_fatal_and_approving_it_releases_its_bookmark(
    redelivery: LocalRedelivery,
) -> None:
    handler = ControlledHandler.create(redelivery, "amps-c", preset="amps", max_delivery_attempts=-1)
    message = handler.send(bookmark="b-5")
    handler.crash(message, 1)
    assert handler.until(message, "NDLV", "crashed").reason == "listed"
    entry = entries(redelivery, handler.destination.address)["b-5"]
    assert (entry["why"], entry["is_listed"], entry["is_fatal"]) == ("Fatal error.", True, True)
    assert handler.jobs(message) == [JOB]
    handler.destination.decide(message, "approve")
    handler.deliver(message, 2)
    handler.until(message, "DLVD", "delivered")
    assert not entries(redelivery, handler.destination.address).get("b-5", {}).get("is_listed")
