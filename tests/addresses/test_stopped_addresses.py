"""A stopped address says why, since when and by which message, and is resumed without it."""

import pytest
from django.test import Client
from django.utils import timezone

from poisonadmin.store.models.lane import Address
from poisonadmin.store.models.message import Message
from tests.fixtures.pages import html_of, usable_of, waiting

pytestmark = pytest.mark.django_db


@pytest.fixture
def stopped(orders_destination: None) -> Message:
    """Return the message that has stopped its address."""
    message = waiting("orders.eu")
    Address.objects.filter(name="orders.eu").update(
        status="STOPPED",
        status_by="system",
        status_note="failure 1 of a message reached listener_max_retries",
        status_message_id=message.id,
        status_at=timezone.now(),
    )
    return message


def test_its_page_says_why_and_by_which_message_and_offers_to_go_on_without_it(
    stopped: Message, operator_browser: Client
) -> None:
    text = html_of(operator_browser.get("/addresses/one/?name=orders.eu"))
    assert "<strong>Stopped</strong> by system because of" in text
    assert f'<a href="/messages/{stopped.id}/">message #{stopped.id}</a>' in text
    assert "failure 1 of a message reached listener_max_retries" in text
    assert f'name="quarantine" value="{stopped.id}"' in text
    assert "Quarantine it and resume" in text
    assert f'because of <a href="/messages/{stopped.id}/">#{stopped.id}</a>' in html_of(
        operator_browser.get("/addresses/")
    )


def test_the_dialog_asks_about_the_message(stopped: Message, operator_browser: Client) -> None:
    asked = {"name": "orders.eu", "quarantine": str(stopped.id)}
    text = html_of(operator_browser.post("/addresses/one/resume/", asked))
    assert f'name="quarantine" value="{stopped.id}" checked' in text
    plain = html_of(operator_browser.post("/addresses/one/resume/", {"name": "orders.eu"}))
    assert f'name="quarantine" value="{stopped.id}">' in plain


def test_it_is_resumed_without_the_message(stopped: Message, operator_browser: Client) -> None:
    operator_browser.post(
        "/addresses/one/resume/now/", {"name": "orders.eu", "reason": "poison", "quarantine": str(stopped.id)}
    )
    stopped.refresh_from_db()
    assert (stopped.state, stopped.reason) == ("NDLV", "quarantined")
    address = Address.objects.get(name="orders.eu")
    assert (address.status, address.status_message_id) == ("ON", None)


def test_it_is_resumed_with_the_message_when_nobody_ticks_it(stopped: Message, operator_browser: Client) -> None:
    operator_browser.post("/addresses/one/resume/now/", {"name": "orders.eu", "reason": "mended"})
    stopped.refresh_from_db()
    assert stopped.state == "TBDL"
    assert Address.objects.get(name="orders.eu").status == "ON"


def test_a_message_elsewhere_is_left_alone(stopped: Message, operator_browser: Client) -> None:
    other = waiting("orders.us")
    answer = operator_browser.post(
        "/addresses/one/resume/now/", {"name": "orders.eu", "reason": "r", "quarantine": str(other.id)}
    )
    assert answer.status_code == 409
    other.refresh_from_db()
    assert other.state == "TBDL"
    assert Address.objects.get(name="orders.eu").status == "STOPPED"


def test_a_viewer_is_told_but_offered_nothing(stopped: Message, browser_of) -> None:  # type: ignore[no-untyped-def]
    answer = browser_of("viewer").get("/addresses/one/?name=orders.eu")
    assert 'title="For the role operator or reviewer or admin"' in html_of(answer)
    text = usable_of(answer)
    assert "<strong>Stopped</strong>" in text
    assert "Quarantine it" not in text
