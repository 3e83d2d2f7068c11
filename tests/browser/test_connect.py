"""A queue is connected to an endpoint in a real browser, wide and on a phone; the worker's checks are stood for."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from poisonadmin.core.domain.access import Role
from poisonadmin.sources.domain.broker_checks import BrokerCheckResult, FoundGroup, FoundMessage, FoundQueue
from poisonadmin.store.models.access import Access
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.rule import PolicyRow
from tests.browser.conftest import Visit
from tests.browser.connect_walk import assert_is_fine, connect_queue
from tests.fixtures.pages import dead_letter
from tests.sources.checks import make_checks

pytestmark = pytest.mark.django_db(transaction=True)

QUEUE = "orders-of-the-european-shop-1795688288801760999.dlq"
TYPED = {"url": "amqp://rabbit.example.org", "username": "drain", "password": "secret"}


def seen(purpose: str, kind: str, config: Mapping[str, Any], login: Mapping[str, str]) -> BrokerCheckResult:
    assert login == {"username": "drain", "password": "secret"}
    queues = [FoundQueue(QUEUE, 12, "dead letters of orders go here"), FoundQueue("orders", 0)]
    message = FoundMessage(QUEUE, "m-1", None, False, "text/plain", 4, "body", {"x-tenant": "7"}, "orders")
    if purpose == "groups":
        at = datetime.now(UTC) - timedelta(hours=3)
        titles = {"NoCustomer in orders/Handler.java:handle": 4_211, "422 Unprocessable Entity: currency (a text)": 780}
        groups = [FoundGroup(title, title, n, ["orders", "bills.eu"], at, at, message) for title, n in titles.items()]
        return BrokerCheckResult(6_204, groups=groups, groups_of=4_991)
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
    Source.objects.update(accepted=1)
    click(role="link", name="Open message")
    click(role="button", name="Approve")
    page.get_by_label("Reason").fill("connected")
    page.locator("#dialog").get_by_role("button", name="Approve").click()
    expect(page.locator("#flash")).to_contain_text("approved")
    assert click.count + 1 <= 12
    assert visit.complaints == []


@pytest.mark.parametrize("width", [1440, 390])
def test_a_topic_is_observed_only(width: int, visit: Visit) -> None:
    Access.objects.update(role=Role.ADMIN)
    visit.page.set_viewport_size({"width": width, "height": 900})
    page = visit.open("/connect/")
    page.select_option("#kind", "kafka")
    for field, text in {**TYPED, "name": "kafka", "url": "kafka://kafka.example.org"}.items():
        page.fill(f"#{field}", text)
    page.get_by_role("button", name="Find queues").click()
    page.fill("#queues", QUEUE)
    page.get_by_role("button", name="See a message").click()
    page.get_by_role("link", name="Next").click()
    page.get_by_role("radio", name="Nowhere yet").check()
    page.get_by_role("button", name="Next").click()
    page.get_by_role("radio", name="Observe only").check()
    page.get_by_role("button", name="Begin").click()
    expect(page.locator("#broker-check")).to_contain_text("Checking the broker")
    make_checks(seen)
    expect(page.locator("#broker-check")).to_contain_text("4,991 of them were read")
    page.get_by_text("NoCustomer in orders").click()
    expect(page.locator("#broker-check")).to_contain_text("x-tenant")
    assert_is_fine(page, "observed")
    assert not Source.objects.get().is_enabled
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
