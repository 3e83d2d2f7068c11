"""SEMANTICS SAP-13: a restart job through the API and Celery's tick."""

import pytest

from tests.conformance.gate import Gate
from tests.whole_system.installation import Installation

NEVER = "0 0 29 2 *"


@pytest.mark.conformance("SAP-13")
def test_sap_13_a_restart_job_approves_with_or_without_blacklisted_messages_and_each_so_often_at_most(
    installation: Installation,
) -> None:
    gate = Gate.open(installation, "sap-13", max_delivery_attempts=1)
    exhausted, blacklisted = gate.send(), gate.send()
    gate.end(exhausted, 1, "reject")
    gate.end(exhausted, 2, "reject")
    gate.crash(blacklisted, 1)
    gate.crash(blacklisted, 2)
    gate.deliver(blacklisted, 3)
    assert gate.until(exhausted, "NDLV", "failed").reason == "attempts_exhausted"
    assert gate.until(blacklisted, "NDLV", "crashed").reason == "blacklisted"

    job = {"schedule": NEVER, "filter": {"address": gate.shop.address}, "max_restarts": 1}
    made = installation.post("restart-jobs/", {"name": "sap-13", **job})
    installation.post(f"restart-jobs/{made['id']}/run/")
    gate.until_begun(exhausted, 2)
    gate.until(exhausted, "NDLV", "failed")
    assert gate.suspicion(blacklisted).state == "NDLV"

    place = f"restart-jobs/{made['id']}/"
    installation.ask("PUT", place, {"include_blacklisted": True, **job}).expect(200)
    installation.post(f"{place}run/")
    gate.until(blacklisted, "DLVD", "delivered")
    assert gate.steps(exhausted).count(("approved", "TBDL")) == 1
    assert gate.suspicion(exhausted).state == "NDLV"
