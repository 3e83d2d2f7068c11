"""Kinds of failures, through the whole system over real time: exceptions, crashes, roll-backs (R3, R11).

Nothing is held back, and no due time is moved.
"""

from itertools import pairwise

import pytest

from tests.whole_system.consumer import Answer, Behaviour, Request
from tests.whole_system.handler_destination import HandlerDestination
from tests.whole_system.http_destination import CreateHttpDestination, HttpDestination
from tests.whole_system.installation import Installation, until

CRASH, ROLL_BACK, REJECT = "kill SIGKILL", "rollback", "reject"
SYSTEM_DESTINATION = "_SYSTEM.Exception.Destination.poisonadmin"


def answers(outcome: str, status: int = 200) -> Behaviour:
    """Return a consumer that answers with this `PoisonAdmin-Outcome`."""
    return lambda _: Answer(status, headers={"PoisonAdmin-Outcome": outcome})


@pytest.mark.conformance("ART-i", "ART-j", "R3", by="crash, roll-back")
@pytest.mark.parametrize(("vector", "deed"), [("art-i", CRASH), ("art-j", ROLL_BACK)])
def test_art_i_and_j_crashes_and_roll_backs_exhaust_a_message(
    installation: Installation, vector: str, deed: str
) -> None:
    destination = HandlerDestination.create(
        installation, vector, preset="artemis", max_delivery_attempts=3, dead_letter_address=f"{vector}-dead"
    )
    message = destination.send(deed)
    ended = destination.until(message, "NDLV", 60)
    assert (ended["address"], ended["reason"], ended["failure_count"]) == (f"{vector}-dead", "attempts_exhausted", 3)
    attempts = destination.attempts(message)
    assert [one["outcome"] for one in attempts] == ["crashed" if deed == CRASH else "rolled_back"] * 3
    assert attempts[-1]["group_id"] is not None


@pytest.mark.conformance("WAS-k", "R3", "R12", by="roll-back")
def test_was_k_a_handler_that_rolls_back_five_times_reaches_the_exception_destination(
    installation: Installation,
) -> None:
    destination = HandlerDestination.create(
        installation, "was-k", preset="websphere", redelivery_delay=400, max_delivery_attempts=-1
    )
    message = destination.send(ROLL_BACK)
    ended = destination.until(message, "NDLV", 60)
    assert (ended["address"], ended["failure_count"]) == (SYSTEM_DESTINATION, 5)
    ends = [one["finished_at"] for one in destination.attempts(message)]
    waits = installation.rows(
        "SELECT extract(epoch FROM started_at - lag(finished_at) OVER (ORDER BY attempt_number)) FROM attempt"
        " WHERE message_id = %s ORDER BY attempt_number",
        [message],
    )
    assert len(ends) == 5
    assert all(wait >= 0.4 for (wait,) in waits[1:]), waits


@pytest.mark.conformance("WAS-k", "R12", by="HTTP roll-back")
def test_was_k_an_http_consumer_that_rolls_back_five_times_reaches_the_exception_destination(
    create_http_destination: CreateHttpDestination,
) -> None:
    destination = create_http_destination(
        "was-k-http", answers("rollback"), preset="websphere", max_delivery_attempts=-1
    )
    message = destination.send()
    ended = destination.until(message, "NDLV", 60)
    assert (ended["address"], ended["failure_count"]) == (SYSTEM_DESTINATION, 5)
    assert [one.status for one in destination.arrivals(message)] == [200] * 5


@pytest.mark.conformance("R12")
@pytest.mark.parametrize(
    ("name", "outcome", "state", "reason"),
    [
        ("discard", "discard", "FAIL", "discarded_by_policy"),
        ("move", 'move; address="r12-elsewhere"', "TBDL", None),
        ("end", 'end-conversation; code=17; error="no such order"', "FAIL", "conversation_ended"),
        ("end-well", "end-conversation", "DLVD", None),
        ("nonsense", "explode", "NDLV", "attempts_exhausted"),
        ("nowhere", "move", "NDLV", "attempts_exhausted"),
    ],
)
def test_an_http_consumer_answers_what_a_handler_can(
    create_http_destination: CreateHttpDestination, name: str, outcome: str, state: str, reason: str | None
) -> None:
    destination = create_http_destination(f"r12-{name}", answers(outcome, 503 if name == "end-well" else 200))
    message = destination.send(conversation_id=f"r12-{name}")
    until(lambda: destination.arrivals(message))
    ended = destination.until(message, state, 60)
    until(lambda: destination.message(message)["reason"] == reason)
    assert ended["address"] == ("r12-elsewhere" if name == "move" else destination.address)


@pytest.mark.conformance("R12", by="HTTP status")
def test_a_request_says_how_often_it_was_delivered(create_http_destination: CreateHttpDestination) -> None:
    destination = create_http_destination("r12-count", lambda request: Answer(503 if request.nth < 3 else 200))
    message = destination.send()
    destination.until(message, "DLVD", 60)
    said = [
        (one.headers["PoisonAdmin-Delivery-Count"], one.headers["PoisonAdmin-Redelivered"])
        for one in destination.arrivals(message)
    ]
    assert said == [("1", "false"), ("2", "true"), ("3", "true")]


@pytest.mark.conformance("ART-l", "R12", by="HTTP status")
def test_art_l_a_dead_letter_carries_its_origin(create_http_destination: CreateHttpDestination) -> None:
    dead = create_http_destination("art-l-dead")
    destination = create_http_destination(
        "art-l",
        lambda _: Answer(503),
        preset="artemis",
        max_delivery_attempts=1,
        dead_letter_address=dead.address,
    )
    message = destination.send()
    destination.until(message, "NDLV", 60)
    until(lambda: dead.consumer.of(dead.address))
    [arrival] = dead.consumer.of(dead.address)
    names = ("_AMQ_ORIG_ADDRESS", "_AMQ_ORIG_QUEUE", "PoisonAdmin-Original-Address")
    assert [arrival.headers.get(name) for name in names] == [destination.address] * 3


@pytest.mark.conformance("ART-k", "R9", by="HTTP status")
def test_art_k_of_two_address_settings_the_more_specific_adds_its_settings(
    create_http_destination: CreateHttpDestination, installation: Installation
) -> None:
    destination = create_http_destination(
        "art-k", lambda _: Answer(503), preset="artemis", max_delivery_attempts=3, dead_letter_address="art-k-dead"
    )
    installation.post("policies/", {"match": "art-k.x.#", "preset": "artemis", "settings": {"redelivery_delay": 700}})
    message = destination.send(address="art-k.x.y")
    assert destination.until(message, "NDLV", 60)["address"] == "art-k-dead"
    assert len(destination.arrivals(message)) == 3
    assert all(wait >= 0.7 for wait in _waits(destination, message))


@pytest.mark.conformance("SSB-i", "R3", by="crash, roll-back")
@pytest.mark.parametrize(("name", "last"), [("ssb-i-1", CRASH), ("ssb-i-2", ROLL_BACK)])
def test_ssb_i_five_aborts_in_a_row_switch_the_queue_off(installation: Installation, name: str, last: str) -> None:
    destination = HandlerDestination.create(installation, name, preset="service_broker", max_delivery_attempts=-1)
    message = destination.send(last, conversation_id=name)

    def address() -> dict[str, object]:
        shown: dict[str, object] = installation.get(f"addresses/{destination.address}/")
        return shown

    until(lambda: address()["status"] == "STOPPED", 60, lambda: destination.events(message))
    outcomes = [one["outcome"] for one in destination.attempts(message)]
    assert outcomes == ["crashed" if last == CRASH else "rolled_back"] * 5
    assert address()["status_message_id"] == str(message)
    assert destination.message(message)["failure_count"] == 0


def _waits(destination: HttpDestination, message: int) -> list[float]:
    """Return the seconds between a message's requests."""
    return [later.at - earlier.at for earlier, later in pairwise(destination.arrivals(message))]


@pytest.mark.conformance("R11", "SSB-f", by="HTTP status")
def test_r11_what_nothing_ends_is_delivered_once_a_second_after_ten_immediate_redeliveries(
    create_http_destination: CreateHttpDestination,
) -> None:
    def refuses(_: Request) -> Answer:
        return Answer(503)

    destination = create_http_destination(
        "r11", refuses, preset="service_broker", redelivery_delay=0, max_delivery_attempts=-1
    )
    message = destination.send()
    until(lambda: len(destination.arrivals(message)) >= 14, 120, lambda: destination.events(message))
    # Where the machine is too slow for eleven deliveries in ten seconds, there is no hot loop either.
    waits = _waits(destination, message)
    is_hot = destination.arrivals(message)[10].at - destination.arrivals(message)[0].at < 9
    assert not is_hot or all(wait >= 1 for wait in waits[10:]), waits
    assert destination.message(message)["state"] in ("TBDL", "DLNG")
    destination.installation.post(f"addresses/{destination.address}/pause/", {"reason": "the test is over"})
