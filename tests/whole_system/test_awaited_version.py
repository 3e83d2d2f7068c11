"""An operation through the whole system that waits until its consumer is mended, as its answers say themselves."""

import pytest

from tests.whole_system.consumer import Answer, Behaviour, Request
from tests.whole_system.http_destination import CreateHttpDestination
from tests.whole_system.installation import Installation, until

pytestmark = pytest.mark.long
VERSION = "PoisonAdmin-Consumer-Version"


def of_version(version: str, *, takes: str) -> Behaviour:
    """Return a consumer of a version that takes what holds a text, and refuses all else."""

    def answer(request: Request) -> Answer:
        return Answer(200 if takes.encode() in request.body else 422, headers={VERSION: version})

    return answer


def test_an_operation_begins_by_itself_when_the_mended_version_answers_and_halts_when_it_is_not_mended(
    installation: Installation, create_http_destination: CreateHttpDestination
) -> None:
    shop = create_http_destination("gated", of_version("2.4.0", takes="good"), max_delivery_attempts=1)
    ids = [shop.send("bad") for _ in range(12)]
    for one in ids:
        shop.until(one, "NDLV", 60)

    def approve(version: str) -> str:
        made = installation.post(
            "operations/",
            {
                "selection": {"filter": {"address": [shop.address], "state": ["NDLV"]}},
                "action": "approve",
                "reason": "mended",
                "begin_when": {"consumer": "gated", "version": version},
            },
        )
        assert made["state"] == "waiting_for_version"
        return str(made["id"])

    def state(operation: str) -> str:
        return str(installation.get(f"operations/{operation}/")["state"])

    first = approve("2.5.0")
    shop.until(shop.send("good, from the old version"), "DLVD", 60)
    assert state(first) == "waiting_for_version"
    # It calls itself mended, and is not.
    shop.consumer.behaviour = of_version("2.5.0", takes="good")
    shop.until(shop.send("good, from the new version"), "DLVD", 60)
    until(lambda: state(first) == "halted", 90, lambda: installation.get(f"operations/{first}/"))
    assert sum(len(shop.arrivals(one)) for one in ids) == 13, "the canary, and no other"
    group = installation.get(f"messages/{ids[0]}/")["group_id"]
    assert installation.get(f"groups/{group}/")["regressed_version"] == "2.5.0"
    installation.post(f"operations/{first}/cancel/", {"reason": "not mended"})
    until(lambda: state(first) == "cancelled", 60, lambda: state(first))

    second = approve("2.5.1")
    shop.consumer.behaviour = of_version("2.5.1", takes="")
    installation.post("deployments/", {"consumer": "gated", "version": "2.5.1"})
    until(lambda: state(second) == "completed", 120, lambda: installation.get(f"operations/{second}/"))
    assert installation.get(f"operations/{second}/")["ledger"]["delivered"] == 12
    assert installation.get(f"groups/{group}/")["regressed_version"] is None
