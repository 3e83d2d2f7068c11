"""Conformance ART-2, ART-11, ART-13, ART-14, ART-17, ART-18: waits and dead letters, delivered over HTTP."""

import pytest

from tests.conformance.courses import Went
from tests.conformance.local_redelivery import LocalRedelivery
from tests.whole_system.consumer import Answer
from tests.whole_system.http_destination import CreateHttpDestination
from tests.whole_system.installation import until


@pytest.mark.conformance("ART-2", by="HTTP status")
def test_art_2_only_the_message_that_failed_waits(create_http_destination: CreateHttpDestination) -> None:
    destination = create_http_destination(
        "art-2", lambda request: Answer(503 if request.body == b"poison" else 200), redelivery_delay=600_000
    )
    poison = destination.send("poison")
    until(lambda: destination.events(poison)[-1] == "failed")
    later = [destination.send() for _ in range(3)]
    for message in later:
        destination.until(message, "DLVD")
    assert (destination.message(poison)["state"], destination.message(poison)["failure_count"]) == ("TBDL", 1)


@pytest.mark.conformance("ART-g", "ART-11", "ART-13", "ART-14", by="HTTP status")
def test_art_g_what_arrives_on_the_dead_letter_address_says_where_it_comes_from(
    redelivery: LocalRedelivery, courses: dict[str, Went]
) -> None:
    dead = courses["stocks"].message_id
    ((child,),) = redelivery.rows("SELECT id FROM envelope WHERE parent_id = %s", [dead])
    until(lambda: redelivery.get(f"messages/{child}/")["state"] == "DLVD")
    arrived = redelivery.get(f"messages/{child}/")
    assert arrived["address"] == "art-g.dead"
    origin = {name: value for name, value in arrived["headers"].items() if name.startswith("_AMQ_ORIG")}
    assert origin == {
        "_AMQ_ORIG_ADDRESS": "stocks",
        "_AMQ_ORIG_QUEUE": "stocks",
        "_AMQ_ORIG_MESSAGE_ID": redelivery.get(f"messages/{dead}/")["message_id"],
    }


@pytest.mark.conformance("ART-17")
@pytest.mark.parametrize("name", ["stocks.DLQ", "art-g.dead::stocks.DLQ"])
def test_art_17_an_auto_created_queue_is_reached_by_its_name_alone_and_with_its_address(
    redelivery: LocalRedelivery, courses: dict[str, Went], name: str
) -> None:
    found = redelivery.get(f"messages/?address={name}")["results"]
    assert [int(one["id"]) for one in found] == [courses["stocks"].message_id]


@pytest.mark.conformance("ART-h", "ART-18", "R9")
def test_art_18_each_value_in_force_says_which_pattern_it_comes_from(
    redelivery: LocalRedelivery, courses: dict[str, Went]
) -> None:
    shown = redelivery.get("policies/resolve/?address=art-h.vip")
    origins = {name: origin["pattern"] for name, origin in shown["origins"].items()}
    assert (origins["max_delivery_attempts"], origins["redelivery_delay"]) == ("art-h.vip", "art-h.#")
    assert shown["policy"]["max_delivery_attempts"] == -1


@pytest.mark.conformance("ART-m", "R15", by="HTTP status")
def test_art_m_dead_letter_addresses_that_name_each_other_deliver_three_times_at_most(
    redelivery: LocalRedelivery, create_http_destination: CreateHttpDestination
) -> None:
    once = {"preset": "artemis", "redelivery_delay": 0, "max_delivery_attempts": 1}
    there = create_http_destination("art-m-b", lambda _: Answer(503), dead_letter_address="art-m-a.orders", **once)
    here = create_http_destination("art-m-a", lambda _: Answer(503), dead_letter_address=there.address, **once)
    message = here.send()
    here.until(message, "NDLV")
    ((child,),) = redelivery.rows("SELECT id FROM envelope WHERE parent_id = %s", [message])
    parked = there.until(child, "NDLV")
    assert (parked["reason"], parked["address"]) == ("dead_letter_loop", there.address)
    assert "art-m-a.orders > art-m-b.orders > art-m-a.orders" in there.history(child)[-1]["note"]
    assert (len(here.consumer.arrivals), len(there.consumer.arrivals)) == (1, 1)
    assert redelivery.rows("SELECT id FROM envelope WHERE parent_id = %s", [child]) == []
