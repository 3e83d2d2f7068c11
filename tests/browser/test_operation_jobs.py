"""A night's approval with a canary, watched to its end (job J3), and who decided why and what came of it (J9)."""

import re

import pytest
from playwright.sync_api import expect

from poisonadmin.core.domain.access import Role
from poisonadmin.decisions.operations.commands.operations import carry_on
from poisonadmin.store.models.access import Access
from poisonadmin.store.models.message import Message
from tests.browser.axe import violations
from tests.browser.conftest import Visit
from tests.browser.test_night import GOOD, NOWHERE, Clicks
from tests.fixtures.api import take_dead
from tests.fixtures.delivery import make_orders_destination
from tests.operations.follow import answer_claim, approve_all

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("width", [1440, 390])
def test_a_canary_and_a_rate_take_seven_clicks_and_are_watched_to_their_end(visit: Visit, width: int) -> None:
    make_orders_destination()
    Access.objects.update(role=Role.ADMIN)
    for _ in range(GOOD):
        take_dead("dead", original_address="orders.eu")
    for _ in range(NOWHERE):
        take_dead("dead", original_address="invoices.created")
    visit.page.set_viewport_size({"width": width, "height": 900})
    page = visit.open("/")
    click = Clicks(page)
    click(role="link", name=f"Needs decision {GOOD + NOWHERE}")
    click(role="button", name=f"Decide on all {GOOD + NOWHERE} that match…")
    click(role="link", name="Choose what invoices.created delivers to")
    click.choose("Delivers to", "shop")
    click(role="button", name="Save")
    expect(page.get_by_role("heading", name=f"{GOOD + NOWHERE} of {GOOD + NOWHERE} will be approved")).to_be_visible()
    page.get_by_label("Reason").fill("the parser is mended")
    page.get_by_label("Deliveries a second").fill("500")
    click(role="checkbox", name=re.compile("Try 1, then 10, then 100"))
    click(role="button", name=re.compile(f"Approve {GOOD + NOWHERE}"))
    steps = page.locator(".stages > li")
    expect(steps).to_have_count(4)
    expect(page.locator("#operation")).to_contain_text("At most 500 deliveries a second")
    for done in range(5):
        expect(page.locator(".stages > .step-done")).to_have_count(done)
        if done == 2:
            expect(steps.nth(2)).to_have_text(re.compile(r"100\s+running"))
            assert violations(page) == []
        if done < 4:
            carry_on()
            # A destination is given a few at first, and no more than the rate allows.
            while Message.objects.filter(state="TBDL").exists():
                page.wait_for_timeout(200)
                answer_claim()
            carry_on()
    expect(page.locator("#operation")).to_contain_text("Completed")
    expect(page.locator(".ledger-bar a")).to_have_count(1)
    assert click.count <= 7
    assert set(Message.objects.values_list("state", flat=True)) == {"DLVD"}
    assert visit.complaints == []


@pytest.mark.parametrize("width", [1440, 390])
def test_who_decided_why_and_what_came_of_it_is_two_clicks_away(visit: Visit, width: int) -> None:
    make_orders_destination()
    for _ in range(3):
        take_dead()
    approve_all()
    answer_claim()
    carry_on()
    visit.page.set_viewport_size({"width": width, "height": 900})
    page = visit.open("/")
    click = Clicks(page)
    click(role="link", name=re.compile("Approve: 3 messages"))
    who = page.get_by_role("region", name="Who and why")
    expect(who).to_contain_text("system")
    expect(who).to_contain_text("mended")
    click(role="link", name=re.compile("^3 delivered"))
    expect(page.locator("tbody tr")).to_have_count(3)
    assert click.count <= 2


def test_a_word_explains_itself_on_focus_and_tap_and_a_bar_opens_by_keys(visit: Visit) -> None:
    make_orders_destination()
    take_dead()
    operation = approve_all()
    page = visit.open("/triage/")
    word = page.locator("tbody .state").first
    expect(word).to_have_attribute("title", "It is delivered when it is due; nobody has to do anything.")
    word.focus()
    hint = page.get_by_role("tooltip")
    expect(hint).to_have_text("It is delivered when it is due; nobody has to do anything.")
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(hint).to_be_hidden()
    word.click()
    expect(hint).to_be_visible()
    page.locator("footer").click()
    expect(hint).to_be_hidden()
    page = visit.open(f"/operations/{operation}/")
    page.get_by_role("link", name="1 not answered yet").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/members/unanswered/")
    assert visit.complaints == []


def test_a_brief_is_copied_and_is_a_page_of_its_own(visit: Visit) -> None:
    take_dead()
    group_id = Message.objects.get().group_id
    visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit.open(f"/groups/{group_id}/")
    page.get_by_role("link", name="Copy as Markdown").click()
    expect(page.get_by_role("link", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("# ")
    assert f"/groups/{group_id}/" in copied
    assert violations(page) == []
