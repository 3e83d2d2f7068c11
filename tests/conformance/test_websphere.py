"""Conformance WAS-3, WAS-11: what the vectors leave behind, and the way back from there."""

import pytest

from tests.conformance.courses import Went
from tests.conformance.local_redelivery import LocalRedelivery
from tests.whole_system.installation import until


@pytest.mark.conformance("WAS-3", by="HTTP status")
def test_was_3_a_message_that_was_moved_is_sent_back_to_where_it_was_and_delivered(
    redelivery: LocalRedelivery, courses: dict[str, Went]
) -> None:
    moved = courses["was-d.orders"].message_id
    assert redelivery.get(f"messages/{moved}/")["address"] == "park.here"
    redelivery.post(f"messages/{moved}/return/", {"reason": "its consumer is well"})
    until(lambda: redelivery.get(f"messages/{moved}/")["state"] == "DLVD")
    assert redelivery.get(f"messages/{moved}/")["address"] == "was-d.orders"
    hops = redelivery.rows("SELECT from_address, to_address FROM hop WHERE message_id = %s ORDER BY id", [moved])
    assert hops == [("was-d.orders", "park.here"), ("park.here", "was-d.orders")]


@pytest.mark.conformance("WAS-e", "WAS-11", by="HTTP status")
def test_was_11_a_stopped_port_claims_nothing_and_says_by_which_message(
    redelivery: LocalRedelivery, courses: dict[str, Went]
) -> None:
    stopping = courses["was-e.orders"].message_id
    port = redelivery.get("addresses/was-e.orders/")
    assert (port["status"], port["status_message_id"]) == ("STOPPED", str(stopping))
    assert "listener_max_retries" in port["status_note"]
    later = redelivery.post("messages/", {"address": "was-e.orders", "payload": "later"})["id"]
    redelivery.post("addresses/was-e.orders/resume/", {"reason": "set aside", "quarantine": str(stopping)})
    until(lambda: redelivery.get(f"messages/{later}/")["state"] == "DLVD")
    assert redelivery.rows("SELECT event FROM history WHERE message_id = %s ORDER BY seq", [later]) == [
        ("enqueued",),
        ("claimed",),
        ("delivered",),
    ]
    assert redelivery.get(f"messages/{stopping}/")["reason"] == "quarantined"
