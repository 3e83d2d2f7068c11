"""A broker set up in a real browser: found queues, a preview, and the source; the worker's checks are stood for."""

from collections.abc import Mapping
from typing import Any

import pytest
from playwright.sync_api import expect

from poisonadmin.core.domain.access import Role
from poisonadmin.sources.domain.broker_checks import BrokerCheckResult, FoundMessage, FoundQueue
from poisonadmin.store.models.access import Access
from poisonadmin.store.models.intake import Source
from tests.browser.axe import violations
from tests.browser.conftest import Visit
from tests.sources.checks import make_checks

pytestmark = pytest.mark.django_db(transaction=True)


def seen(purpose: str, kind: str, config: Mapping[str, Any], login: Mapping[str, str]) -> BrokerCheckResult:
    assert login == {"username": "drain", "password": "secret"}
    queues = [FoundQueue("orders.dlq", 12, "the policy dlx names it"), FoundQueue("orders", 0)]
    message = FoundMessage("orders.dlq", "m-1", None, False, "text/plain", 4, "body", {"x-tenant": "7"}, "orders")
    return BrokerCheckResult(12, queues if purpose == "queues" else [], [message] if purpose == "preview" else [])


def test_queues_are_found_previewed_and_drained(visit: Visit) -> None:
    Access.objects.update(role=Role.ADMIN)
    page = visit.open("/sources/broker/")
    expect(page.locator("#group")).to_be_hidden()
    page.select_option("#kind", "kafka")
    expect(page.locator("#group")).to_be_visible()
    expect(page.locator("#readers")).to_be_hidden()
    page.select_option("#kind", "rabbitmq")
    page.fill("#name", "shop")
    page.fill("#url", "amqp://rabbit.example.org")
    page.fill("#username", "drain")
    page.fill("#password", "secret")
    page.get_by_role("button", name="Find queues").click()
    check = page.locator("#broker-check")
    expect(check).to_contain_text("Checking the broker")
    assert violations(page) == []
    assert make_checks(seen) == 1
    expect(check).to_contain_text("the policy dlx names it")
    check.get_by_role("button", name="Add orders.dlq").click()
    expect(page.locator("#queues")).to_have_value("orders.dlq")
    expect(check.get_by_role("button", name="Add orders.dlq")).to_be_disabled()
    # What the bar at the top of the window covers in part would be counted as too small.
    page.evaluate("scrollTo(0, 0)")
    assert violations(page) == []
    page.get_by_role("button", name="Preview").click()
    expect(check).to_contain_text("Checking the broker")
    assert make_checks(seen) == 1
    expect(check).to_contain_text("12 messages wait")
    expect(check.locator("pre")).to_have_text("body")
    assert violations(page) == []
    page.set_viewport_size({"width": 320, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/sources/*/")
    expect(page.locator("#flash")).to_contain_text("The source shop is saved")
    assert Source.objects.get().config["queues"] == ["orders.dlq"]
    for path in ("/destinations/broker/", f"/sources/{Source.objects.get().id}/edit/"):
        assert violations(visit.open(path)) == []
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    assert visit.complaints == []
