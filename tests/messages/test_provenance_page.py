"""Where a message came from at its broker, and to whom it was delivered: on its page, in the API, in the overview."""

import json
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.desk.queries.detail import get_message
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.message import Body, Confirmation, Hop, Message
from tests.fixtures.pages import dead_letter, html_of, waiting

pytestmark = pytest.mark.django_db

TRANSPORT = {
    "broker": "rabbitmq",
    "exchange": "",
    "routing_key": "orders.<eu>",
    "properties": {"delivery_mode": 2, "correlation_id": {"base64": "/wA="}},
    "headers": {"base64": "AAAA"},
}


def page(client: Client, path: str) -> str:
    return html_of(client.get(path))


def test_what_the_broker_said_is_shown_as_text(operator_browser: Client) -> None:
    message = dead_letter()
    Body.objects.filter(id=message.id).update(transport=json.dumps(TRANSPORT).encode())
    text = page(operator_browser, f"/messages/{message.id}/")
    for shown in ("From the broker", "RabbitMQ", "orders.&lt;eu&gt;", "properties.delivery_mode", "\\xff\\x00"):
        assert shown in text
    told = operator_browser.get(f"/api/v1/messages/{message.id}/transport/").json()
    assert told == {"transport": TRANSPORT}


@pytest.mark.parametrize("stored", [None, b"no json", b"[]", b"[" * 100_000])
def test_a_transport_that_nobody_can_read_is_none(stored: bytes | None, operator_browser: Client) -> None:
    message = dead_letter()
    Body.objects.filter(id=message.id).update(transport=stored)
    assert "From the broker" not in page(operator_browser, f"/messages/{message.id}/")
    assert operator_browser.get(f"/api/v1/messages/{message.id}/transport/").json() == {"transport": None}


def test_a_broker_s_hops_are_told_in_its_own_words(operator_browser: Client) -> None:
    message = dead_letter()
    Hop.objects.create(
        message_id=message.id, from_address="orders", to_address="dlq", reason="rejected", by="rabbitmq", times=3
    )
    text = page(operator_browser, f"/messages/{message.id}/")
    assert "orders → dlq" in text
    assert "rejected</span> · 3 times" in text


def delivered(*, confirm_by_minutes: int | None = None, confirmed: bool = False) -> Message:
    """Return a message as it is after its delivery to a broker."""
    message, now = waiting(), timezone.now()
    destination, _ = Destination.objects.get_or_create(name="back", kind="rabbitmq", config={"url": "amqp://r"})
    Message.objects.filter(id=message.id).update(state="DLVD", due_at=None, attempt_number=1)
    Attempt.objects.create(
        message_id=message.id,
        attempt_number=1,
        outcome="delivered",
        destination_id=destination.id,
        started_at=now,
        finished_at=now,
    )
    Confirmation.objects.create(
        message_id=message.id,
        attempt_number=1,
        destination_id=destination.id,
        delivered_at=now,
        confirm_by=None if confirm_by_minutes is None else now + timedelta(minutes=confirm_by_minutes),
        confirmed_at=now if confirmed else None,
        confirmed_by="token shop" if confirmed else None,
        note="<booked>" if confirmed else None,
    )
    return Message.objects.get(id=message.id)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({}, "no consumer confirmation is awaited"),
        ({"confirm_by_minutes": 10}, "the consumer’s confirmation is awaited until"),
        ({"confirm_by_minutes": -10}, "unconfirmed</span>"),
        ({"confirm_by_minutes": -10, "confirmed": True}, "by token shop: &lt;booked&gt;"),
    ],
)
def test_delivered_says_to_whom(
    message: dict[str, int], said: str, orders_destination: None, operator_browser: Client
) -> None:
    row = delivered(**message)  # type: ignore[arg-type]
    assert said in page(operator_browser, f"/messages/{row.id}/")
    to = "consumer" if "confirmed" in message else "broker"
    assert get_message(row.id, principal=SYSTEM).delivered_to == to


def test_what_consumers_have_not_answered_is_counted_and_listed(
    orders_destination: None, operator_browser: Client
) -> None:
    late, awaited = delivered(confirm_by_minutes=-10), delivered(confirm_by_minutes=10)
    text = page(operator_browser, "/")
    assert "1 delivery was not confirmed in time" in text
    listed = page(operator_browser, "/triage/?confirmation=unanswered")
    assert f"#{late.id}" in listed
    assert f"#{awaited.id}" not in listed
    assert "consumer confirmation" in listed
