"""The poison list and stored messages, through the whole system (R7)."""

import json

import pytest

from tests.whole_system.consumer import Answer
from tests.whole_system.http_destination import CreateHttpDestination
from tests.whole_system.installation import Installation, until


def listed(installation: Installation, source: str, bookmark: str, **report: object) -> int:
    """Report a bookmark as a consumer does, and return the id of its entry."""
    body = {"source": source, "bookmark": bookmark, "why": "it cannot be read"} | report
    return int(installation.post("poison-list/", body)["id"])


@pytest.mark.conformance("AMPS-g", "R7")
def test_amps_g_what_arrives_with_a_listed_bookmark_is_never_delivered(
    installation: Installation, create_http_destination: CreateHttpDestination
) -> None:
    destination = create_http_destination("amps-g")
    entry = listed(installation, destination.address, "B1")
    message = destination.send(bookmark="B1")
    by_batch = {"address": destination.address, "payload": "a body", "bookmark": "B1", "message_id": "amps-g-batch"}
    installation.ask("POST", "messages/batch/", _line(by_batch)).expect(202)
    other = destination.send(bookmark="B0")
    destination.until(other, "DLVD")
    stopped = destination.until(message, "NDLV")
    assert (stopped["reason"], destination.arrivals(message)) == ("listed", [])
    until(lambda: _states(installation, destination.address) == {"NDLV": 2, "DLVD": 1})
    assert len(destination.consumer.of(destination.address)) == 1

    installation.post(f"poison-list/{entry}/release/", {"reason": "it can be read now"})
    destination.until(message, "DLVD")
    until(lambda: _states(installation, destination.address) == {"DLVD": 3})


@pytest.mark.conformance("AMPS-h", "R7", by="HTTP status")
def test_amps_h_what_waits_when_its_bookmark_is_listed_is_never_delivered(
    installation: Installation, create_http_destination: CreateHttpDestination
) -> None:
    destination = create_http_destination("amps-h", lambda _: Answer(503), redelivery_delay=60_000)
    message = destination.send(bookmark="B2")
    until(lambda: destination.events(message)[-1] == "failed")
    entry = listed(installation, destination.address, "B2")
    assert destination.until(message, "NDLV")["reason"] == "listed"
    destination.consumer.behaviour = lambda _: Answer()
    installation.post(f"poison-list/{entry}/release/", {"reason": "mended"})
    destination.until(message, "DLVD")
    assert len(destination.arrivals(message)) == 2


@pytest.mark.conformance("R7")
def test_what_a_guarded_consumer_sent_in_is_handed_back_and_is_the_same_message_when_reported_again(
    installation: Installation,
) -> None:
    sent = {"payload": "poison", "content_type": "text/plain"}
    entry = listed(installation, "handed.back", "B3", **sent)
    [(message,)] = installation.rows("SELECT message_id FROM poison_entry WHERE id = %s", [entry])
    assert installation.get(f"messages/{message}/")["state"] == "NDLV"
    approved = installation.post(f"messages/{message}/approve/", {"reason": "mended"})
    shown = installation.get(f"messages/{message}/")
    assert (shown["state"], shown["reason"]) == ("DLVD", "handed_back"), approved
    assert installation.rows("SELECT is_listed FROM poison_entry WHERE id = %s", [entry]) == [(False,)]
    assert listed(installation, "handed.back", "B3", **sent) == entry
    shown = installation.get(f"messages/{message}/")
    assert (shown["state"], shown["reason"]) == ("NDLV", "listed")
    assert _states(installation, "handed.back") == {"NDLV": 1}


def _line(body: dict[str, object]) -> bytes:
    return json.dumps(body).encode() + b"\n"


def _states(installation: Installation, address: str) -> dict[str, int]:
    rows = installation.rows(
        "SELECT state, count(*) FROM message JOIN address ON address.id = address_id WHERE name = %s GROUP BY 1",
        [address],
    )
    return dict(rows)  # type: ignore[arg-type]
