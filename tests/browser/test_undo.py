"""A wrong FAIL is taken back: with one click when it is seen at once, with three an hour later (job J4)."""

import pytest
from playwright.sync_api import expect

from poisonadmin.store.models.message import Message
from tests.browser.conftest import Visit
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
            page.locator("#flash").get_by_role("button", name="Undo").click()
        else:
            visit.open("/operations/")
            page.locator("main table a[href^='/operations/']").first.click()
            page.get_by_role("button", name="Undo").click()
        expect(page.locator("#flash")).to_contain_text("3 messages wait for a decision again.")
        assert set(Message.objects.values_list("state", flat=True)) == {"NDLV"}
