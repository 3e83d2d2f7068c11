"""Conformance SAP-13: runs of a restart job through the API, and their operations carried out by the tick."""

import pytest

from tests.conformance.controlled_handler import ControlledHandler
from tests.conformance.local_redelivery import LocalRedelivery
from tests.whole_system.installation import until


@pytest.mark.conformance("SAP-13", "SAP-p", by="exception, crash")
def test_sap_13_a_restart_job_approves_with_or_without_blacklisted_messages_and_each_so_often_at_most(
    redelivery: LocalRedelivery,
) -> None:
    handler = ControlledHandler.create(redelivery, "sap-13", max_delivery_attempts=1)
    exhausted = handler.send()
    handler.end(exhausted, 1, "reject")
    handler.end(exhausted, 2, "reject")
    assert handler.until(exhausted, "NDLV", "failed").reason == "attempts_exhausted"
    blacklisted = handler.send()
    handler.crash(blacklisted, 1)
    handler.crash(blacklisted, 2)
    handler.deliver(blacklisted, 3)
    assert handler.until(blacklisted, "NDLV", "crashed").reason == "blacklisted"

    job = {"action": "approve", "reason": "SAP-13", "filter": {"address": handler.destination.address}}
    made = redelivery.post("restart-jobs/", {"name": "sap-13", **job})
    redelivery.post(f"restart-jobs/{made['id']}/run/")
    handler.until_begun(exhausted, 2)
    handler.until(exhausted, "NDLV", "failed")
    assert handler.suspicion(blacklisted).state == "NDLV"

    place = f"restart-jobs/{made['id']}/"
    until(lambda: not redelivery.get(place)["is_running"], 60)
    redelivery.ask("PUT", place, {"include_blacklisted": True, **job}).expect(200)
    redelivery.post(f"{place}run/")
    handler.until(blacklisted, "DLVD", "delivered")
    assert handler.steps(exhausted).count(("approved", "TBDL")) == 1
    assert handler.suspicion(exhausted).state == "NDLV"
