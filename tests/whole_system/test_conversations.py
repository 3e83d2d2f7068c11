"""Conversations under the preset `service_broker`, through the whole system, with traffic (R6).

Good messages keep coming while the poison fails; nothing is held back and no due time is moved.
"""

import json
import threading
import time
from itertools import pairwise

import pytest

from tests.whole_system.consumer import Answer, Request
from tests.whole_system.handler_destination import HandlerDestination
from tests.whole_system.http_destination import CreateHttpDestination
from tests.whole_system.installation import Installation, until


@pytest.mark.conformance("SSB-g", "SSB-b", "SSB-k", "R6", by="HTTP status")
def test_ssb_g_and_k_a_poison_ends_its_conversation_at_failure_four_while_good_ones_come(
    create_http_destination: CreateHttpDestination,
) -> None:
    def refuses_the_poison(request: Request) -> Answer:
        return Answer(503 if request.body == b"poison" else 200)

    errors = create_http_destination("ssb-g-errors")
    destination = create_http_destination(
        "ssb-g",
        refuses_the_poison,
        preset="service_broker",
        redelivery_delay=300,
        max_delivery_attempts=-1,
        conversation_error_address=errors.address,
    )
    first = destination.send("good", conversation_id="ssb-g")
    poison = destination.send("poison", conversation_id="ssb-g")
    good: list[int] = []
    over = threading.Event()

    def send() -> None:
        while not over.wait(0.5):
            good.append(destination.send("good", conversation_id="ssb-g"))

    sender = threading.Thread(target=send)
    sender.start()
    try:
        ended = destination.until(poison, "FAIL", 90)
        time.sleep(1.5)
    finally:
        over.set()
        sender.join()
    assert (ended["reason"], len(destination.arrivals(poison))) == ("conversation_ended", 4)
    assert destination.message(first)["state"] == "DLVD"
    late = destination.send("good", conversation_id="ssb-g")
    for message in [*good, late]:
        parked = destination.until(message, "NDLV", 60)
        assert parked["reason"] == "conversation_ended"
        assert destination.arrivals(message) == [], "it overtook the poison"

    until(lambda: errors.consumer.of(errors.address), 30)
    [error] = errors.consumer.of(errors.address)
    assert json.loads(error.body) == {
        "conversation_id": "ssb-g",
        "code": 500,
        "description": "Unable to process message.",
    }

    for message in [*good, late]:
        destination.decide(message, "approve")
    for message in [*good, late]:
        destination.until(message, "DLVD", 60)


@pytest.mark.conformance("SSB-h", "R6")
def test_ssb_h_messages_of_one_conversation_come_one_at_a_time_and_in_order(
    create_http_destination: CreateHttpDestination,
) -> None:
    destination = create_http_destination(
        "ssb-h", lambda _: Answer(seconds=0.03), preset="service_broker", max_delivery_attempts=-1
    )
    sent = []
    for number in range(50):
        sent.append(destination.send(f"long {number}", conversation_id="ssb-h-long"))
        if number % 5 < 2:
            sent.append(destination.send(f"short {number}", conversation_id="ssb-h-short"))
    for message in sent:
        destination.until(message, "DLVD", 90)
    for conversation in (b"long", b"short"):
        arrivals = [one for one in destination.consumer.of(destination.address) if one.body.startswith(conversation)]
        numbers = [int(one.body.split()[1]) for one in arrivals]
        assert numbers == sorted(numbers)
        times = destination.installation.rows(
            """SELECT started_at, finished_at FROM attempt JOIN envelope ON envelope.id = attempt.message_id
               WHERE conversation_id = %s ORDER BY started_at""",
            [f"ssb-h-{conversation.decode()}"],
        )
        assert len(times) == len(numbers)
        assert all(began >= ended for (_, ended), (began, _) in pairwise(times)), "two were under way at once"


@pytest.mark.conformance("SSB-j", "R6", by="content rule")
def test_ssb_j_a_content_rule_ends_the_conversation_before_anything_is_delivered(
    create_http_destination: CreateHttpDestination, installation: Installation
) -> None:
    errors = create_http_destination("ssb-j-errors")
    destination = create_http_destination(
        "ssb-j", preset="service_broker", max_delivery_attempts=-1, conversation_error_address=errors.address
    )
    rule = {
        "name": "ssb-j",
        "stage": "before",
        "match": {"address": "ssb-j.#", "json": [{"path": "$.employee", "missing": True}]},
        "action": {"do": "end_conversation"},
    }
    made = installation.post("rules/", rule)
    installation.post(f"rules/{made['id']}/enable/", {"reason": "a test", "without_dry_run": True})
    destination.until(destination.send('{"employee": 1}', conversation_id="ssb-j-first"), "DLVD")  # makes the address
    destination.consumer.arrivals.clear()
    installation.post(f"addresses/{destination.address}/pause/", {"reason": "together"})
    message = destination.send("{}", conversation_id="ssb-j", content_type="application/json")
    behind = destination.send('{"employee": 7}', conversation_id="ssb-j", content_type="application/json")
    installation.post(f"addresses/{destination.address}/resume/", {"reason": "together"})
    assert destination.until(message, "FAIL", 60)["reason"] == "conversation_ended"
    assert destination.until(behind, "NDLV", 60)["reason"] == "conversation_ended"
    assert destination.consumer.of(destination.address) == []
    until(lambda: errors.consumer.of(errors.address), 30)
    assert json.loads(errors.consumer.of(errors.address)[0].body)["code"] == 500


@pytest.mark.conformance("R6")
def test_a_handler_that_ends_its_conversation_without_an_error_has_delivered(installation: Installation) -> None:
    destination = HandlerDestination.create(installation, "ssb-end", preset="service_broker")
    message = destination.send("end_normally", conversation_id="ssb-end")
    destination.until(message, "DLVD", 60)
    later = destination.send("ok", conversation_id="ssb-end")
    assert destination.until(later, "NDLV", 30)["reason"] == "conversation_ended"
