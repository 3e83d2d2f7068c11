"""The night after a bad deploy: thousands of dead letters, decided on with a few clicks and one reason."""

import pytest
from django.db.models.functions import Now
from playwright.sync_api import expect

from poisonadmin.core.domain.access import SYSTEM, Role
from poisonadmin.decisions.operations.commands.operations import carry_on
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.store.models.access import Access, Audit
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.operation import Operation
from tests.browser.axe import violations
from tests.browser.conftest import Visit
from tests.browser.connect_walk import Clicks
from tests.fixtures.api import take_dead
from tests.fixtures.delivery import make_orders_destination

pytestmark = pytest.mark.django_db(transaction=True)
GOOD, NOWHERE = 170, 35


def test_a_deploys_dead_letters_are_approved_at_once_and_the_rest_is_mended(visit: Visit) -> None:
    make_orders_destination()
    Access.objects.update(role=Role.ADMIN)
    for _ in range(GOOD):
        take_dead("dead", original_address="orders.eu")
    for _ in range(NOWHERE):
        take_dead("dead", original_address="invoices.created")
    page = visit.open("/")
    click = Clicks(page)
    click(role="link", name=f"Needs decision {GOOD + NOWHERE}")
    expect(page.locator(".facets .total")).to_have_text(f"{GOOD + NOWHERE} messages")
    click(role="button", name=f"Decide on all {GOOD + NOWHERE} that match…")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{GOOD + NOWHERE} messages selected")
    expect(page.get_by_role("heading", name=f"{GOOD} of {GOOD + NOWHERE} will be approved")).to_be_visible()
    assert violations(page) == []
    click(role="link", name="Choose what invoices.created delivers to")
    click.choose("Delivers to", "shop")
    click(role="button", name="Save")
    expect(page.get_by_role("heading", name=f"{GOOD + NOWHERE} of {GOOD + NOWHERE} will be approved")).to_be_visible()
    page.get_by_label("Reason").fill("the parser is mended")
    click(role="button", name=f"Approve {GOOD + NOWHERE}")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Approve {GOOD + NOWHERE} messages")
    carry_on()
    expect(page.locator("#operation")).to_contain_text("Not answered yet")
    assert violations(page) == []
    assert click.count <= 8
    found = get_operation(Operation.objects.get().id, principal=SYSTEM)
    assert (found.ledger.unanswered, found.ledger.total) == (GOOD + NOWHERE, GOOD + NOWHERE)
    assert Audit.objects.filter(action="operation.begun").count() == 1
    assert visit.complaints == []


def test_sets_are_ticked_and_decided_on(visit: Visit) -> None:
    make_orders_destination()
    for name, count in (("a", 3), ("b", 2), ("c", 4)):
        for _ in range(count):
            take_dead("dead", original_address=f"orders.{name}")
    page = visit.open("/triage/?state=NDLV&group_by=original_address")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.get_by_label("Tick orders.b").check()
    expect(page.locator("[data-ticked]")).to_have_text("2 ticked")
    assert violations(page) == []
    page.get_by_role("button", name="Decide on the ticked").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("6 messages selected")
    page.go_back()
    page.locator(".facets summary", has_text="Address").first.click()
    assert violations(page) == []
    page.get_by_role("link", name="dead").first.click()
    expect(page.locator(".chips")).to_contain_text("address")
    assert visit.complaints == []


def test_the_palette_leads_anywhere_by_keys(visit: Visit) -> None:
    message = take_dead("orders.eu")
    page = visit.open("/audit/")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette-places a").first).to_be_visible()
    assert violations(page) == []
    page.keyboard.type("orders.e")
    expect(page.locator("#palette-places")).to_contain_text("orders.eu")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/addresses/one/?name=orders.eu")
    # Whoever is faster than the server goes to what was typed, not to what was found before.
    page.keyboard.press("Control+k")
    expect(page.locator("#palette-places a").first).to_be_visible()
    page.keyboard.type(f"{message}")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/messages/{message}/")
    page.locator("#search").press_sequentially("address:ord")
    expect(page.locator("#completions option").first).to_have_attribute("value", "address:orders.eu")
    assert visit.complaints == []


def test_a_refusal_that_is_waived_is_one_no_more_at_once(visit: Visit) -> None:
    make_orders_destination()
    for _ in range(3):
        message = take_dead("orders.eu")
        Attempt.objects.create(
            message_id=message, attempt_number=-1, outcome="failed", error_class="HttpTimeout", finished_at=Now()
        )
    page = visit.open("/triage/?state=NDLV")
    page.get_by_role("button", name="Decide on all 3 that match…").click()
    expect(page.get_by_role("heading", name="None of them can be approved")).to_be_visible()
    page.get_by_label("Reason").fill("seen")
    page.get_by_role("checkbox", name="Deliver also what may have been processed already").check()
    expect(page.get_by_role("heading", name="3 of 3 will be approved")).to_be_visible()
    expect(page.get_by_label("Reason")).to_have_value("seen")
    expect(page.get_by_role("checkbox", name="Deliver also what may have been processed already")).to_be_checked()
    page.get_by_role("button", name="Approve 3").click()
    expect(page.locator("#operation")).to_contain_text("have a result")
    assert visit.complaints == []
