"""SEMANTICS AMPS-3, AMPS-c, AMPS-f, R7 for what Spark delivers; tests/poisonguard takes the vectors elsewhere."""

import pytest

from tests.conformance.courses import Went
from tests.conformance.gate import Gate
from tests.whole_system.installation import Installation


def entries(installation: Installation, source: str) -> dict[str, dict[str, object]]:
    """Return the entries of a source's poison list by bookmark."""
    found = installation.get(f"poison-list/?source={source}")["results"]
    return {entry["bookmark"]: entry for entry in found}


@pytest.mark.conformance("AMPS-3", "AMPS-13", "R7")
def test_amps_13_the_first_failure_of_a_stored_message_lists_it_with_the_exception_s_text(
    installation: Installation, courses: dict[str, Went]
) -> None:
    message = installation.get(f"messages/{courses['amps-13.orders'].message_id}/")
    entry = entries(installation, "amps-13.orders")[message["message_id"]]
    assert (entry["is_listed"], entry["is_fatal"]) == (True, False)
    assert "503" in str(entry["why"])


@pytest.mark.conformance("AMPS-3", "AMPS-c", "AMPS-f", "R7")
def test_amps_c_and_f_the_first_crash_lists_a_message_as_fatal_and_approving_it_releases_its_bookmark(
    installation: Installation,
) -> None:
    gate = Gate.open(installation, "amps-c", preset="amps", max_delivery_attempts=-1)
    message = gate.send(bookmark="b-5")
    gate.crash(message, 1)
    assert gate.until(message, "NDLV", "crashed").reason == "listed"
    entry = entries(installation, gate.shop.address)["b-5"]
    assert (entry["why"], entry["is_listed"], entry["is_fatal"]) == ("Fatal error.", True, True)
    assert gate.jobs(message) == [("redeliver", "spark-redelivery", "succeeded")]
    gate.shop.decide(message, "approve")
    gate.deliver(message, 2)
    gate.until(message, "DLVD", "delivered")
    assert not entries(installation, gate.shop.address).get("b-5", {}).get("is_listed")
