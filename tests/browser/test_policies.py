"""Policies tried out and a stopped address mended, in a real browser, against the real server."""

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from poisonadmin.core.domain.access import SYSTEM, Role
from poisonadmin.policies.commands import save_policy
from poisonadmin.store.models.access import Access
from poisonadmin.store.models.lane import Address
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.rule import PolicyRow
from tests.browser.axe import violations
from tests.browser.conftest import Visit
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import waiting

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_policy_is_simulated_while_it_is_typed(visit: Visit) -> None:
    page = visit.open("/policies/simulator/")
    schedule = page.locator("#retry-schedule")
    expect(schedule.locator("canvas")).to_have_count(1)
    page.fill("[name='setting.redelivery_delay']", "1s")
    page.fill("[name='setting.redelivery_delay_multiplier']", "3")
    expect(schedule).to_contain_text("1000 ms x 3^2 = 9000, cap 50000")
    waits = "1000,3000,9000,27000,50000,50000,50000,50000,50000"
    expect(schedule.locator("[data-waits]")).to_have_attribute("data-waits", waits)
    expect(schedule.locator("canvas")).to_have_count(1)
    page.get_by_role("radio", name="websphere_mq").check()
    expect(schedule).to_contain_text("1 failure stops the address")
    page.locator("form summary", has_text="All settings").click()
    page.locator("form summary", has_text="WebSphere MQ").click()
    page.fill("[name='setting.backout_threshold']", "2")
    expect(schedule).to_contain_text("listener_max_retries (0) should exceed backout_threshold (2)")
    page.fill("[name='setting.redelivery_delay']", "soon")
    expect(schedule).to_contain_text("such as 90s, 5 min or 1 h 30 min, not 'soon'")
    assert violations(page) == []
    assert visit.complaints == []
    assert not PolicyRow.objects.exists()


def test_the_form_of_a_policy_shows_what_it_would_do(visit: Visit) -> None:
    Access.objects.update(role=Role.ADMIN)
    save_policy("orders.#", preset="sap", settings={}, destination=None, principal=SYSTEM)
    page = visit.open("/policies/new/")
    page.fill("#match", "orders.eu")
    page.fill("[name='setting.max_delivery_attempts']", "3")
    schedule = page.locator("#retry-schedule")
    expect(schedule.locator("[data-waits]")).to_have_attribute("data-waits", "300000,300000")
    expect(page.locator("#in-force")).to_contain_text("orders.# (sap)")
    # A preview that is still under way would be broken off.
    page.wait_for_load_state("networkidle")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/policies/")
    assert PolicyRow.objects.get(match="orders.eu").settings == {"max_delivery_attempts": 3}
    page.get_by_role("link", name="orders.eu").click()
    expect(page.locator("#t-versions")).to_be_visible()
    assert violations(page) == []
    assert visit.complaints == []


def test_a_stopped_address_goes_on_without_the_message_that_stopped_it(visit: Visit) -> None:
    make_orders_destination()
    message = waiting("orders.eu")
    Address.objects.filter(name="orders.eu").update(
        status="STOPPED",
        status_by="system",
        status_message_id=message.id,
        status_note="failure 1 of a message reached listener_max_retries",
        status_at=timezone.now(),
    )
    page = visit.open("/addresses/one/?name=orders.eu")
    page.get_by_role("button", name="Quarantine it and resume").click()
    dialog = page.locator("#dialog")
    expect(dialog.locator("[name=quarantine]")).to_be_checked()
    assert violations(page) == []
    dialog.locator("textarea").fill("Its IBAN is wrong.")
    dialog.locator("button[type=submit]").click()
    expect(page.locator("#flash")).to_contain_text(f"Message #{message.id} is quarantined")
    assert Message.objects.get(id=message.id).state == "NDLV"
    assert Address.objects.get(name="orders.eu").status == "ON"
    assert visit.complaints == []
