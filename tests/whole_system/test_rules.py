"""Rules through the whole system: tried by a Spark job, asked by delivering tasks, overriding a verdict."""

import json
from typing import Any

import pytest

from tests.whole_system.consumer import Answer, Request
from tests.whole_system.http_destination import CreateHttpDestination, HttpDestination
from tests.whole_system.installation import Installation, until

Json = dict[str, Any]


def conflicts(_: Request) -> Answer:
    """Answer 409 to every delivery."""
    return Answer(409)


def order(destination: HttpDestination, amount: float, **fields: Any) -> int:
    return destination.send(json.dumps({"amount": amount}), content_type="application/json", **fields)


def rule(installation: Installation, **fields: Any) -> str:
    made: Json = installation.post("rules/", fields)
    return f"rules/{made['id']}/"


def switch_on(installation: Installation, path: str) -> None:
    installation.post(f"{path}enable/", {"reason": "a test"})


def switch_off(installation: Installation, path: str) -> None:
    installation.post(f"{path}disable/", {"reason": "the test is over"})


@pytest.mark.usefixtures("batch_worker")
def test_a_rule_is_tried_on_the_backlog_and_then_rejects_what_it_found(
    installation: Installation, create_http_destination: CreateHttpDestination
) -> None:
    destination = create_http_destination("ruled")
    destination.until(order(destination, 1), "DLVD")  # the first message makes the address
    installation.post(f"addresses/{destination.address}/pause/", {"reason": "a backlog"})
    bad, good = order(destination, -1), order(destination, 1)
    path = rule(
        installation,
        name="no negative amounts",
        stage="before",
        match={"address": "ruled.#", "json": [{"path": "$.amount", "outside": {"min": 0}}]},
        action={"do": "reject", "tags": ["negative"]},
    )
    installation.post(f"{path}dry_run/", {})
    until(lambda: installation.get(f"{path}dry_run/")["ended_at"] is not None, 60)
    found = installation.get(f"{path}dry_run/")
    result = found["result"]
    assert (found["state"], found["error"], result["read"], result["matched"]) == ("succeeded", None, 2, 1)
    assert [(place["address"], place["sample_ids"]) for place in result["found"]] == [(destination.address, [str(bad)])]
    job = installation.get(f"jobs/{found['id']}/")
    assert (job["kind"], job["state"], job["done"]) == ("dry_run", "succeeded", 2)
    assert job["worker"].startswith("spark-batch@")

    switch_on(installation, path)
    installation.post(f"addresses/{destination.address}/resume/", {"reason": "tried"})
    destination.until(good, "DLVD")
    rejected = destination.until(bad, "NDLV")
    assert (rejected["reason"], rejected["failure_count"], rejected["attempt_number"]) == ("rejected", 0, 1)
    assert destination.arrivals(bad) == []
    assert destination.history(bad)[-1]["note"] == "rule no negative amounts: reject"
    assert installation.get(path)["hits"] == 1
    tags = installation.rows("SELECT tags FROM annotation WHERE message_id = %s", [bad])
    assert tags == [(["negative"],)]

    switch_off(installation, path)
    destination.decide(bad, "approve")
    destination.until(bad, "DLVD")
    assert len(destination.arrivals(bad)) == 1


@pytest.mark.parametrize(
    ("action", "state", "reason"),
    [({"do": "park"}, "NDLV", "rule"), ({"do": "fail"}, "FAIL", "discarded_by_policy")],
)
def test_a_failure_rule_ends_what_the_policy_would_try_again(
    installation: Installation, create_http_destination: CreateHttpDestination, action: Json, state: str, reason: str
) -> None:
    destination = create_http_destination(f"conflicts-{action['do']}", conflicts)
    path = rule(
        installation,
        name=f"conflicts: {action['do']}",
        stage="after",
        match={"address": f"{destination.name}.#", "status_code": 409},
        action=action,
    )
    switch_on(installation, path)
    message = destination.until(destination.send(), state)
    assert (message["reason"], message["failure_count"]) == (reason, 1)
    assert destination.history(int(message["id"]))[-1]["note"] == f"rule conflicts: {action['do']}: {action['do']}"
    assert len(destination.arrivals(int(message["id"]))) == 1
    switch_off(installation, path)
