"""Help in a real browser: a panel beside the page, a page of its own without scripts; and the choice of columns."""

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.axe import violations
from tests.browser.conftest import Visit
from tests.fixtures.pages import dead_letter

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("width", [1440, 390])
def test_help_opens_beside_the_page_at_what_belongs_to_it(visit: Visit, width: int) -> None:
    dead_letter("orders.eu")
    page = visit.open("/triage/?state=NDLV")
    page.set_viewport_size({"width": width, "height": 900})
    page.keyboard.press("?")
    panel = page.locator("#dialog")
    expect(panel.get_by_role("heading", name="The dashboard")).to_be_visible()
    expect(panel.locator("#help-triage")).to_be_in_viewport()
    expect(panel.get_by_role("heading", name="Where things are")).not_to_be_in_viewport()
    assert violations(page) == []
    assert panel.evaluate("panel => panel.scrollWidth <= panel.clientWidth")
    panel.get_by_role("link", name="all of them").click()
    expect(panel.get_by_role("heading", name="States of a message")).to_be_visible()
    expect(page).to_have_url(f"{visit.base}/triage/?state=NDLV")
    panel.get_by_text("Contents").click()
    panel.get_by_role("link", name="Masking").click()
    expect(panel.locator("#help-reveal")).to_be_attached()
    panel.get_by_role("button", name="Keyboard shortcuts").click()
    expect(page.locator("#shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    assert visit.complaints == []


def test_ctrl_k_finds_help_which_is_a_page_of_its_own(visit: Visit) -> None:
    page = visit.open("/")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette .place").first).to_be_visible()
    page.keyboard.type("approve when fixed")
    expect(page.locator("#palette .place").first).to_contain_text("Operations: Approve when fixed")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{visit.base}/help/use/operations/#help-approve-when-fixed")
    expect(page.locator("main #help-approve-when-fixed")).to_be_in_viewport()
    assert violations(page) == []


def test_help_and_columns_work_without_scripts(visit: Visit, chromium: Browser) -> None:
    dead_letter("orders.eu")
    context = chromium.new_context(java_script_enabled=False, storage_state=visit.page.context.storage_state())
    page = context.new_page()
    page.goto(f"{visit.base}/triage/?state=NDLV")
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("Tries").uncheck()
    page.get_by_role("button", name="Show these").click()
    expect(page).to_have_url(f"{visit.base}/triage/?state=NDLV")
    expect(page.get_by_role("columnheader", name="Failed")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Tries")).to_have_count(0)
    page.get_by_role("link", name="Help", exact=True).click()
    expect(page).to_have_url(f"{visit.base}/help/use/dashboard/#help-triage")
    page.locator("main").get_by_role("link", name="search", exact=True).first.click()
    expect(page.get_by_role("heading", name="Search jobs")).to_be_attached()
    context.close()
