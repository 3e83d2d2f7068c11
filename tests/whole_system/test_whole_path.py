"""From the API through Celery and Spark to a consumer and back, with real PostgreSQL, Valkey, workers and Spark."""

import base64
import itertools
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.faults.invariants import all_broken
from tests.patience import on_this_machine
from tests.whole_system.conftest import OpenShop
from tests.whole_system.consumer import Answer, Request, failing, refuses, takes
from tests.whole_system.installation import Installation, until

# From the issue: never early, and at most this late, on a machine that does nothing else.
LATENESS_SECONDS = 1.5


def test_a_message_is_delivered_by_a_spark_job_whose_row_says_so(
    installation: Installation, open_shop: OpenShop
) -> None:
    shop = open_shop("plain")
    body = b"\x00\xff not text \xf0\x9f\x98\x80"
    message_id = shop.send(payload=None, payload_base64=base64.b64encode(body).decode(), message_id="first")
    assert shop.until(message_id, "DLVD")["attempt_number"] == 1
    (came,) = shop.arrivals(message_id)
    assert (came.body, came.address, came.attempt, came.producer_id) == (body, shop.address, 1, "first")
    assert shop.events(message_id) == ["enqueued", "claimed", "delivered"]
    ((claim_id,),) = installation.rows("SELECT claim_id FROM attempt WHERE message_id = %s", [message_id])
    until(lambda: _job_of(installation, claim_id)["state"] == "succeeded")
    job = _job_of(installation, claim_id)
    assert (job["kind"], job["worker"], job["error"]) == ("redeliver", "spark-redelivery", None)
    assert job["counts"]["delivered"] >= 1
    assert job["done"] == job["total"]


def _job_of(installation: Installation, claim_id: int) -> dict[str, object]:
    jobs = installation.get("jobs/?limit=500")["results"]
    found: dict[str, object] = next(job for job in jobs if job["params"].get("claim") == claim_id)
    return found


def test_the_delay_schedule_is_kept_never_early_and_hardly_late(open_shop: OpenShop) -> None:
    shop = open_shop(
        "schedule",
        refuses,
        redelivery_delay=1000,
        redelivery_delay_multiplier=2,
        max_redelivery_delay=4000,
        redelivery_collision_avoidance_factor=0,
        max_delivery_attempts=5,
    )
    message_id = shop.send()
    message = shop.until(message_id, "NDLV", seconds=60)
    assert message["reason"] == "attempts_exhausted"
    came = [one.at for one in shop.arrivals(message_id)]
    waits = [later - earlier for earlier, later in itertools.pairwise(came)]
    assert len(waits) == 4
    late = [wait - meant for wait, meant in zip(waits, (1, 2, 4, 4), strict=True)]
    print("waits", [round(wait, 3) for wait in waits])
    assert min(late) >= 0
    assert max(late) <= on_this_machine(LATENESS_SECONDS)


def test_an_exhausted_message_waits_for_a_person_and_is_delivered_once_its_consumer_is_well(
    open_shop: OpenShop,
) -> None:
    shop = open_shop("exhausted", refuses)
    message_id = shop.send()
    message = shop.until(message_id, "NDLV")
    assert (message["reason"], message["failure_count"]) == ("attempts_exhausted", 3)
    shop.consumer.behaviour = takes
    shop.decide(message_id, "approve")
    message = shop.until(message_id, "DLVD")
    assert (message["attempt_number"], message["failure_count"]) == (4, 0)
    assert shop.events(message_id)[-3:] == ["approved", "claimed", "delivered"]
    attempts = shop.installation.get(f"messages/{message_id}/attempts/")["results"]
    assert [(one["attempt_number"], one["status_code"]) for one in attempts] == [(4, 200), (3, 503), (2, 503), (1, 503)]


def test_a_message_marked_fail_stays_fail(open_shop: OpenShop) -> None:
    shop = open_shop("given-up", failing(1), max_delivery_attempts=1)
    message_id, other = shop.send(), shop.send()
    shop.until(message_id, "NDLV")
    shop.decide(message_id, "fail")
    shop.until(other, "NDLV")
    shop.decide(other, "approve")
    shop.until(other, "DLVD")
    assert shop.message(message_id)["state"] == "FAIL"
    assert len(shop.arrivals(message_id)) == 1
    refused = shop.installation.ask("POST", f"messages/{message_id}/approve/", {"reason": "too late"})
    assert (refused.status, refused.json["code"]) == (409, "transition_not_allowed")


def test_a_file_dropped_into_a_directory_is_taken_exactly_once(
    installation: Installation, open_shop: OpenShop, inbox: Path
) -> None:
    shop = open_shop("files")
    source = installation.post("sources/", {"name": "files", "kind": "directory", "config": {"path": str(inbox)}})
    lines = [json.dumps({"address": shop.address, "payload": f"line {n}", "message_id": f"f{n}"}) for n in range(50)]
    (inbox / "orders.ndjson.part").write_text("\n".join([*lines, "{ not json", lines[0], ""]))
    (inbox / "orders.ndjson.part").rename(inbox / "orders.ndjson")
    until(lambda: len(shop.consumer.arrivals) == 50, 60, lambda: installation.get(f"sources/{source['id']}/files/"))
    (file,) = installation.get(f"sources/{source['id']}/files/")["results"]
    assert (file["state"], file["accepted"], file["duplicates"], file["rejected"]) == ("taken", 50, 1, 1)
    (rejected,) = installation.get(f"sources/{source['id']}/rejected/")["results"]
    assert rejected["line"] == 51
    jobs = [job for job in installation.get("jobs/?limit=500")["results"] if job["kind"] == "ingest"]
    assert [job["state"] for job in jobs] == ["succeeded"]
    installation.post(f"sources/{source['id']}/ingest/")
    message_id = shop.send()
    shop.until(message_id, "DLVD")
    assert len(shop.consumer.arrivals) == 51
    assert {one.body for one in shop.consumer.arrivals} == {*(b"line %d" % n for n in range(50)), b"a body"}


def test_retry_after_is_a_lower_bound_of_the_wait(open_shop: OpenShop) -> None:
    def later(request: Request) -> Answer:
        return Answer(429, headers={"Retry-After": "2"}) if request.nth == 1 else Answer()

    shop = open_shop("later", later)
    message_id = shop.send()
    shop.until(message_id, "DLVD")
    first, second = shop.arrivals(message_id)
    assert second.at - first.at >= 2


def test_a_message_that_expires_while_it_waits_is_given_up(open_shop: OpenShop) -> None:
    shop = open_shop("expiring", refuses, redelivery_delay=60_000, max_redelivery_delay=60_000)
    soon = (datetime.now(UTC) + timedelta(seconds=4)).isoformat()
    message_id = shop.send(expires_at=soon)
    message = shop.until(message_id, "FAIL")
    assert message["reason"] == "expired"
    assert len(shop.arrivals(message_id)) == 1
    assert shop.events(message_id) == ["enqueued", "claimed", "failed", "expired"]


def test_a_paused_address_keeps_its_messages_until_it_is_resumed(
    installation: Installation, open_shop: OpenShop
) -> None:
    shop = open_shop("paused")
    shop.until(shop.send(), "DLVD")
    installation.post(f"addresses/{shop.address}/pause/", {"reason": "maintenance"})
    kept = shop.send()
    passing = shop.send(address="paused.others")
    shop.until(passing, "DLVD")
    assert shop.message(kept)["state"] == "TBDL"
    assert shop.message(kept)["address_status"] == "PAUSED"
    installation.post(f"addresses/{shop.address}/resume/", {"reason": "done"})
    shop.until(kept, "DLVD")


def test_a_dead_letter_handed_in_waits_for_a_person_and_goes_to_its_original_address(open_shop: OpenShop) -> None:
    shop = open_shop("original")
    dead = {
        "reason": "gave up",
        "exception_class": "java.lang.IllegalStateException",
        "exception_message": "no such order",
        "original_address": shop.address,
        "delivery_count": 7,
    }
    message_id = shop.send(address="parking.dead", dead_letter=dead)
    message = shop.message(message_id)
    assert (message["state"], message["reason"], message["failure_count"]) == ("NDLV", "imported", 7)
    shop.decide(message_id, "approve")
    assert shop.until(message_id, "DLVD")["address"] == shop.address
    assert [one.address for one in shop.arrivals(message_id)] == [shop.address]


def test_a_destination_that_hangs_does_not_delay_another(open_shop: OpenShop) -> None:
    hanging = open_shop(
        "hanging",
        lambda _: Answer(seconds=4),
        destination={"timeout_ms": 3000, "concurrency": 4},
        max_delivery_attempts=1,
    )
    prompt = open_shop("prompt")
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
