"""A wrong FAIL is taken back: with one click when it is seen at once, with three an hour later (job J4)."""

import pytest
from playwright.sync_api import expect

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import begin
from poisonadmin.decisions.operations.commands.operations import carry_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.operation import Operation
from tests.browser.axe import violations
from tests.browser.conftest import Visit
from tests.browser.test_night import Clicks
from tests.fixtures.api import take_dead
from tests.fixtures.pages import dead_letter

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("width", [1440, 390])
def test_a_wrong_fail_is_taken_back_at_once_and_later(visit: Visit, width: int) -> None:
    ids = [dead_letter().id for _ in range(3)]
    page = visit.open("/triage/?state=NDLV")
    page.set_viewport_size({"width": width, "height": 900})
    for at_once in (True, False):
        visit.open("/triage/?state=NDLV")
        for one in ids:
            page.locator(f"#m-{one} input[name=id]").click()
        page.click("[data-decision=fail]")
        page.locator("#dialog textarea").fill("A mistake.")
        page.locator("#dialog button[type=submit]").click()
        expect(page.locator("#flash")).to_contain_text("3 messages marked FAIL.")
        if at_once:
            assert violations(page) == []
            page.locator("#flash").get_by_role("button", name="Undo").click()
        else:
            visit.open("/operations/")
            page.locator("main table a[href^='/operations/']").first.click()
            page.get_by_role("button", name="Undo").click()
        expect(page.locator("#flash")).to_contain_text("3 messages wait for a decision again.")
        assert set(Message.objects.values_list("state", flat=True)) == {"NDLV"}


def test_the_page_of_a_group_counts_what_was_decided_on_it(visit: Visit) -> None:
    ids = [dead_letter().id for _ in range(3)]
    page = visit.open(f"/groups/{Message.objects.get(id=ids[0]).group_id}/")
    page.locator(f"#m-{ids[0]} input[name=id]").click()
    page.click("[data-decision=fail]")
    page.locator("#dialog textarea").fill("Not wanted.")
    page.locator("#dialog button[type=submit]").click()
    expect(page.locator("#flash").get_by_role("link", name="Open it")).to_have_attribute("href", f"/messages/{ids[0]}/")
    expect(page.locator("#flash")).to_be_in_viewport(ratio=1)
    expect(page.locator("#group-counts .tile", has_text="Given up")).to_contain_text("1")
    expect(page.locator("#group-counts .tile", has_text="Needs decision")).to_contain_text("2")
    expect(page.locator("#group-side")).to_contain_text("Decide on all 2…")
    expect(page.locator("#group-side")).to_contain_text("Not wanted.")
    assert violations(page) == []
    assert visit.complaints == []


def test_a_wrong_fail_of_two_hundred_is_one_click_at_once_and_three_an_hour_later(visit: Visit) -> None:
    for _ in range(200):
        take_dead()
    for route in ("at once", "later"):
        begin({"state": ["NDLV"]}, OperationAction.FAIL, reason="A mistake.", principal=SYSTEM)
        carry_on()
        page = visit.open("/" if route == "later" else f"/operations/{Operation.objects.latest('id').id}/")
        click = Clicks(page)
        if route == "later":
            click(role="link", name="Operations")
            click(role="link", name="Mark FAIL #")
        click(role="button", name="Undo")
        expect(page.locator("#flash")).to_contain_text("200 messages wait for a decision again.")
        assert click.count == (3 if route == "later" else 1)
        assert set(Message.objects.values_list("state", flat=True)) == {"NDLV"}
