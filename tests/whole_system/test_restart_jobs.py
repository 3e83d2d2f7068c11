"""A restart job through the whole system, beside messages that crashed what processed them (SAP-p)."""

import pytest

from tests.whole_system.handler_destination import HandlerDestination
from tests.whole_system.installation import Installation, until

pytestmark = pytest.mark.long


@pytest.mark.conformance("SAP-p", by="crash, exception")
@pytest.mark.parametrize(
    ("preset", "settings", "reason"),
    [
        ("sap", {}, "blacklisted"),
        ("amps", {}, "listed"),
        ("artemis", {"max_delivery_attempts": 2, "on_exhausted": "park"}, "attempts_exhausted"),
    ],
)
def test_sap_p_a_restart_job_without_blacklisted_messages_leaves_alone_what_crashed(
    installation: Installation, preset: str, settings: dict[str, object], reason: str
) -> None:
    name = f"sap-p-{preset}"
    destination = HandlerDestination.create(installation, name, preset=preset, **settings)
    crashed = destination.send("abort")
    assert destination.until(crashed, "NDLV", 120)["reason"] == reason
    # What failed without a crash is given up at once, whatever the preset.
    destination.configure(max_delivery_attempts=1, on_exhausted="park")
    failed = destination.send("reject")
    destination.until(failed, "NDLV", 120)

    job = {"name": name, "action": "approve", "reason": "SAP-p", "filter": {"address": destination.address}}
    made = installation.post("restart-jobs/", job | {"include_blacklisted": False})
    installation.post(f"restart-jobs/{made['id']}/run/")
    until(lambda: "approved" in destination.events(failed), 60, lambda: destination.events(failed))
    until(lambda: not installation.get(f"restart-jobs/{made['id']}/")["is_running"], 60)
    shown = destination.message(crashed)
    assert (shown["state"], shown["reason"]) == ("NDLV", reason)
    assert "approved" not in destination.events(crashed)
