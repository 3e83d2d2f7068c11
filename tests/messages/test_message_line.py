"""The line at the top of a message's page: what happened, and what happens next."""

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.store.models.message import Message
from tests.fixtures import decisions
from tests.fixtures.api import take
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import dead_letter, html_of

pytestmark = pytest.mark.django_db


def line_of(browser: Client, message_id: int) -> str:
    page = html_of(browser.get(f"/messages/{message_id}/"))
    start = page.index('class="card now wild"')
    return page[start : page.index("</p>", start)]


def test_each_state_says_what_happened_and_what_follows(operator_browser: Client) -> None:
    make_orders_destination()
    message = dead_letter().id
    assert "Nothing happens until somebody decides." in line_of(operator_browser, message)
    decisions.mark_fail([message], principal=SYSTEM, reason="r")
    line = line_of(operator_browser, message)
    assert "Failed by an administrator" in line
    assert "can be restored." in line
    assert "It has not failed here.</strong> Attempt 1 of 10 is due" in line_of(operator_browser, take())
    Message.objects.filter(id=message).update(state="DLVD", reason=None)
    assert "accepted it</strong>" in line_of(operator_browser, message)
