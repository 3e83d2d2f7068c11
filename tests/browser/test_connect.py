"""A queue is connected to an endpoint in a real browser, wide and on a phone; the worker's checks are stood for."""

from collections.abc import Mapping
from typing import Any

import pytest
from playwright.sync_api import expect

from poisonadmin.core.domain.access import Role
from poisonadmin.sources.domain.broker_checks import BrokerCheckResult, FoundMessage, FoundQueue
from poisonadmin.store.models.access import Access
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.rule import PolicyRow
from tests.browser.conftest import Visit
from tests.browser.connect_walk import connect_queue
from tests.fixtures.pages import dead_letter
from tests.sources.checks import make_checks

pytestmark = pytest.mark.django_db(transaction=True)

QUEUE = "orders-of-the-european-shop-1795688288801760999.dlq"
TYPED = {"url": "amqp://rabbit.example.org", "username": "drain", "password": "secret"}


def seen(purpose: str, kind: str, config: Mapping[str, Any], login: Mapping[str, str]) -> BrokerCheckResult:
    assert login == {"username": "drain", "password": "secret"}
    queues = [FoundQueue(QUEUE, 12, "dead letters of orders go here"), FoundQueue("orders", 0)]
    message = FoundMessage(QUEUE, "m-1", None, False, "text/plain", 4, "body", {"x-tenant": "7"}, "orders")
    return BrokerCheckResult(12, queues if purpose == "queues" else [], [message] if purpose == "preview" else [])


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_a_queue_is_connected_to_an_endpoint(width: int, height: int, visit: Visit) -> None:
    Access.objects.update(role=Role.ADMIN)
    visit.page.set_viewport_size({"width": width, "height": height})
    page = visit.open("/")
    click = connect_queue(page, TYPED, QUEUE, "https://orders.example.org/in", worker=lambda: make_checks(seen))
    assert Source.objects.get().config["queues"] == [QUEUE]
    assert PolicyRow.objects.get().match == "orders"
    dead_letter("orders")
    click(role="link", name="Open message")
    click(role="button", name="Approve")
    page.get_by_label("Reason").fill("connected")
    page.locator("#dialog").get_by_role("button", name="Approve").click()
    expect(page.locator("#flash")).to_contain_text("approved")
    assert click.count + 1 <= 12
    assert visit.complaints == []


def test_the_tab_of_a_page_is_seen_on_a_phone(visit: Visit) -> None:
    Access.objects.update(role=Role.ADMIN)
    visit.page.set_viewport_size({"width": 390, "height": 844})
    page = visit.open("/connect/")
    expect(page.locator(".sections").get_by_role("link", name="Connect")).to_be_in_viewport(ratio=1)


def test_only_what_fits_the_kind_of_broker_is_shown(visit: Visit) -> None:
    Access.objects.update(role=Role.ADMIN)
    page = visit.open("/connect/")
    page.locator("summary", has_text="Settings").click()
    expect(page.locator("#group")).to_be_hidden()
    page.select_option("#kind", "kafka")
    expect(page.locator("#group")).to_be_visible()
    expect(page.locator("#readers")).to_be_hidden()
    assert visit.complaints == []
