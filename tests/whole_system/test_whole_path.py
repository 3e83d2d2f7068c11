"""From the API through Celery and Spark to a consumer and back, with real PostgreSQL, Valkey, workers and Spark."""

import base64
import itertools
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from tests.faults.invariants import all_broken
from tests.patience import on_this_machine
from tests.whole_system.consumer import Answer, Request, failing, refuses, takes
from tests.whole_system.http_destination import CreateHttpDestination
from tests.whole_system.installation import SPARK_WORKERS, Installation, until

# From the issue: never early, and at most this late, on a machine that does nothing else.
LATENESS_SECONDS = 1.5


def test_a_message_is_delivered_by_a_spark_job_whose_row_says_so(
    installation: Installation, create_http_destination: CreateHttpDestination
) -> None:
    destination = create_http_destination("plain")
    body = b"\x00\xff not text \xf0\x9f\x98\x80"
    message_id = destination.send(payload=None, payload_base64=base64.b64encode(body).decode(), message_id="first")
    assert destination.until(message_id, "DLVD")["attempt_number"] == 1
    (came,) = destination.arrivals(message_id)
    assert (came.body, came.address, came.attempt, came.producer_id) == (body, destination.address, 1, "first")
    assert destination.events(message_id) == ["enqueued", "claimed", "delivered"]
    ((claim_id,),) = installation.rows("SELECT claim_id FROM attempt WHERE message_id = %s", [message_id])
    until(lambda: _job_of(installation, claim_id)["state"] == "succeeded")
    job = _job_of(installation, claim_id)
    assert (job["kind"], job["worker"].partition("@")[0], job["error"]) == ("redeliver", "spark-redelivery", None)
    assert job["result"]["delivered"] >= 1
    assert job["done"] == job["total"]


def test_when_spark_dies_both_workers_come_back_and_what_was_under_way_is_delivered(
    installation: Installation, create_http_destination: CreateHttpDestination
) -> None:
    installation.until_ready()
    destination = create_http_destination("outlives", lambda request: Answer(seconds=5 if request.attempt == 1 else 0))
    under_way = destination.send()
    until(lambda: destination.arrivals(under_way), 60, lambda: destination.events(under_way))
    former = {name: installation.pid_of(name) for name in ("spark", *SPARK_WORKERS)}
    psutil.Process(former["spark"]).kill()
    destination.until(under_way, "DLVD", 90)
    destination.until(destination.send(), "DLVD", 60)
    until(lambda: all(installation.pid_of(name) != pid for name, pid in former.items()), 60)
    installation.until_ready()


def _job_of(installation: Installation, claim_id: int) -> dict[str, object]:
    jobs = installation.get("jobs/?limit=500")["results"]
    found: dict[str, object] = next(job for job in jobs if job["params"].get("claim") == claim_id)
    return found


@pytest.mark.usefixtures("batch_worker")  # its start would keep the redelivery waiting
def test_the_delay_schedule_is_kept_never_early_and_hardly_late(create_http_destination: CreateHttpDestination) -> None:
    destination = create_http_destination(
        "schedule",
        refuses,
        redelivery_delay=600,
        redelivery_delay_multiplier=2,
        max_redelivery_delay=2400,
        redelivery_collision_avoidance_factor=0,
        max_delivery_attempts=5,
    )
    message_id = destination.send()
    message = destination.until(message_id, "NDLV", seconds=60)
    assert message["reason"] == "attempts_exhausted"
    came = [one.at for one in destination.arrivals(message_id)]
    waits = [later - earlier for earlier, later in itertools.pairwise(came)]
    assert len(waits) == 4
    late = [wait - meant for wait, meant in zip(waits, (0.6, 1.2, 2.4, 2.4), strict=True)]
    print("waits", [round(wait, 3) for wait in waits])
    assert min(late) >= 0
    assert max(late) <= on_this_machine(LATENESS_SECONDS)


def test_an_exhausted_message_waits_for_a_person_and_is_delivered_once_its_consumer_is_well(
    create_http_destination: CreateHttpDestination,
) -> None:
    destination = create_http_destination("exhausted", refuses)
    message_id = destination.send()
    message = destination.until(message_id, "NDLV")
    assert (message["reason"], message["failure_count"]) == ("attempts_exhausted", 3)
    destination.consumer.behaviour = takes
    destination.decide(message_id, "approve")
    message = destination.until(message_id, "DLVD")
    assert (message["attempt_number"], message["failure_count"]) == (4, 0)
    assert destination.events(message_id)[-3:] == ["approved", "claimed", "delivered"]
    attempts = destination.installation.get(f"messages/{message_id}/attempts/")["results"]
    assert [(one["attempt_number"], one["status_code"]) for one in attempts] == [(4, 200), (3, 503), (2, 503), (1, 503)]


def test_a_message_marked_fail_stays_fail(create_http_destination: CreateHttpDestination) -> None:
    destination = create_http_destination("given-up", failing(1), max_delivery_attempts=1)
    message_id, other = destination.send(), destination.send()
    destination.until(message_id, "NDLV")
    destination.decide(message_id, "fail")
    destination.until(other, "NDLV")
    destination.decide(other, "approve")
    destination.until(other, "DLVD")
    assert destination.message(message_id)["state"] == "FAIL"
    assert len(destination.arrivals(message_id)) == 1
    refused = destination.installation.ask("POST", f"messages/{message_id}/approve/", {"reason": "too late"})
    assert (refused.status, refused.json["code"]) == (409, "transition_not_allowed")


@pytest.mark.usefixtures("batch_worker")
def test_a_file_dropped_into_a_directory_is_taken_exactly_once(
    installation: Installation, create_http_destination: CreateHttpDestination, inbox: Path
) -> None:
    destination = create_http_destination("files")
    source = installation.post("sources/", {"name": "files", "kind": "directory", "config": {"path": str(inbox)}})
    lines = [
        json.dumps({"address": destination.address, "payload": f"line {n}", "message_id": f"f{n}"}) for n in range(50)
    ]
    (inbox / "orders.ndjson.part").write_text("\n".join([*lines, "{ not json", lines[0], ""]))
    (inbox / "orders.ndjson.part").rename(inbox / "orders.ndjson")
    until(
        lambda: len(destination.consumer.arrivals) == 50, 60, lambda: installation.get(f"sources/{source['id']}/files/")
    )
    (file,) = installation.get(f"sources/{source['id']}/files/")["results"]
    assert (file["state"], file["accepted"], file["duplicates"], file["rejected"]) == ("taken", 50, 1, 1)
    (rejected,) = installation.get(f"sources/{source['id']}/rejected/")["results"]
    assert rejected["line"] == 51
    jobs = [job for job in installation.get("jobs/?limit=500")["results"] if job["kind"] == "ingest"]
    assert [job["state"] for job in jobs] == ["succeeded"]
    installation.post(f"sources/{source['id']}/ingest/")
    message_id = destination.send()
    destination.until(message_id, "DLVD")
    assert len(destination.consumer.arrivals) == 51
    assert {one.body for one in destination.consumer.arrivals} == {*(b"line %d" % n for n in range(50)), b"a body"}


def test_retry_after_is_a_lower_bound_of_the_wait(create_http_destination: CreateHttpDestination) -> None:
    def later(request: Request) -> Answer:
        return Answer(429, headers={"Retry-After": "2"}) if request.nth == 1 else Answer()

    destination = create_http_destination("later", later)
    message_id = destination.send()
    destination.until(message_id, "DLVD")
    first, second = destination.arrivals(message_id)
    assert second.at - first.at >= 2


def test_a_message_that_expires_while_it_waits_is_given_up(create_http_destination: CreateHttpDestination) -> None:
    destination = create_http_destination("expiring", refuses, redelivery_delay=60_000, max_redelivery_delay=60_000)
    soon = (datetime.now(UTC) + timedelta(seconds=4)).isoformat()
    message_id = destination.send(expires_at=soon)
    message = destination.until(message_id, "FAIL")
    assert message["reason"] == "expired"
    assert len(destination.arrivals(message_id)) == 1
    assert destination.events(message_id) == ["enqueued", "claimed", "failed", "expired"]


def test_a_paused_address_keeps_its_messages_until_it_is_resumed(
    installation: Installation, create_http_destination: CreateHttpDestination
) -> None:
    destination = create_http_destination("paused")
    destination.until(destination.send(), "DLVD")
    installation.post(f"addresses/{destination.address}/pause/", {"reason": "maintenance"})
    kept = destination.send()
    passing = destination.send(address="paused.others")
    destination.until(passing, "DLVD")
    assert destination.message(kept)["state"] == "TBDL"
    assert destination.message(kept)["address_status"] == "PAUSED"
    installation.post(f"addresses/{destination.address}/resume/", {"reason": "done"})
    destination.until(kept, "DLVD")


def test_a_dead_letter_handed_in_waits_for_a_person_and_goes_to_its_original_address(
    create_http_destination: CreateHttpDestination,
) -> None:
    destination = create_http_destination("original")
    dead = {
        "reason": "gave up",
        "exception_class": "java.lang.IllegalStateException",
        "exception_message": "no such order",
        "original_address": destination.address,
        "delivery_count": 7,
    }
    message_id = destination.send(address="parking.dead", dead_letter=dead)
    message = destination.message(message_id)
    assert (message["state"], message["reason"], message["failure_count"]) == ("NDLV", "imported", 7)
    destination.decide(message_id, "approve")
    assert destination.until(message_id, "DLVD")["address"] == destination.address
    assert [one.address for one in destination.arrivals(message_id)] == [destination.address]


def test_a_destination_that_hangs_does_not_delay_another(create_http_destination: CreateHttpDestination) -> None:
    hanging = create_http_destination(
        "hanging",
        lambda _: Answer(seconds=3),
        destination={"timeout_ms": 2000, "concurrency": 4},
        max_delivery_attempts=1,
    )
    prompt = create_http_destination("prompt")
    stuck = [hanging.send() for _ in range(12)]
    began = time.monotonic()
    sent = [prompt.send() for _ in range(20)]
    for message_id in sent:
        prompt.until(message_id, "DLVD")
    took = time.monotonic() - began
    assert {hanging.message(message_id)["state"] for message_id in stuck} & {"TBDL", "DLNG"}, took
    assert all(one.is_taken for one in prompt.consumer.arrivals)
    for message_id in stuck:
        hanging.until(message_id, "NDLV", seconds=60)
    assert hanging.installation.get(f"messages/{stuck[0]}/attempts/")["results"][0]["error_class"] == "HttpTimeout"


def test_nothing_is_out_of_order_after_all_that(installation: Installation) -> None:
    assert all_broken(installation.rows) == []
