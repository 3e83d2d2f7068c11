"""The API's page in a real browser, under the same strict policy as every other page."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit

pytestmark = pytest.mark.django_db(transaction=True)


def test_requests_can_be_tried_out_under_ones_own_session(visit: Visit) -> None:
    page = visit.open("/api/v1/docs/")
    wanted = page.get_by_text("Compute the wait before each redelivery", exact=False).first
    page.mouse.move(600, 600)
    for _ in range(100):  # the page shows more operations as one scrolls
        if wanted.count():
            break
        page.mouse.wheel(0, 700)
        page.wait_for_timeout(100)
    wanted.click()
    operation = page.locator(".opblock.is-open")
    operation.get_by_role("button", name="Try it out").click()
    operation.locator("textarea").fill('{"settings": {}, "failures": 2}')
    operation.get_by_role("button", name="Execute").click()
    expect(operation.locator(".live-responses-table tbody .response-col_status").first).to_contain_text("200")
    expect(operation.locator(".live-responses-table")).to_contain_text("delays_ms")
    assert visit.complaints == []
