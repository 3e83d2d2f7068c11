"""Groups that look alike in a browser: asked for, compared side by side, merged by one click."""

import pytest
from playwright.sync_api import expect

from poisonadmin.store.models.attempt import FailureGroup
from tests.alike_groups.proposals import search_due
from tests.alike_groups.test_searching import take_in_alike
from tests.browser.axe import violations
from tests.browser.conftest import Visit

pytestmark = pytest.mark.django_db(transaction=True)


def test_groups_that_look_alike_are_merged_by_one_click(visit: Visit) -> None:
    first, second = take_in_alike()
    page = visit.open("/groups/alike/")
    page.get_by_role("button", name="Search now").click()
    expect(page.get_by_role("heading", name="Waiting for a worker")).to_be_visible()
    assert violations(page) == []
    search_due()
    expect(page.locator("strong", has_text="% alike")).to_be_visible()
    expect(page.get_by_role("rowheader", name="≠ Frame 1")).to_be_visible()
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    page.reload()
    assert violations(page, "color-contrast", "link-in-text-block") == []
    page.set_viewport_size({"width": 320, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    page.get_by_role("button", name=f"Merge #{second} into #{first}").click()
    expect(page.get_by_text(f"Group {second} is merged into group {first}")).to_be_visible()
    expect(page.get_by_role("heading", name="No groups look alike")).to_be_visible()
    assert FailureGroup.objects.get(id=second).merged_into_id == first
    assert visit.complaints == []
