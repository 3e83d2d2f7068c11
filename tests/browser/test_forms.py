"""Destinations and a directory are added in a real browser, on a narrow screen too, in light and in dark."""

import pytest
from playwright.sync_api import expect

from poisonadmin.core.domain.access import Role
from poisonadmin.store.models.access import Access
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.intake import Source
from tests.browser.axe import violations
from tests.browser.conftest import Visit

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_http_destination_is_added_after_a_correction_and_changed(visit: Visit) -> None:
    Access.objects.update(role=Role.ADMIN)
    page = visit.open("/destinations/")
    page.get_by_role("link", name="Add HTTP destination").click()
    page.get_by_label("Name").fill("hooks")
    page.get_by_label("URL").fill("https://hooks.example.org/in")
    page.get_by_label("Secret headers").fill("Authorization: Bearer planted-canary")
    page.get_by_label("Requests at once").fill("many")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was saved. Correct Requests at once.")
    expect(page.get_by_label("Secret headers")).to_have_value("")
    assert violations(page) == []
    page.get_by_label("Requests at once").fill("8")
    page.get_by_label("Secret headers").fill("Authorization: Bearer planted-canary")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#flash")).to_contain_text("The destination hooks is saved")
    page.get_by_role("link", name="Change", exact=True).click()
    assert "planted-canary" not in page.content()
    page.get_by_label("Method").select_option("PUT")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#flash")).to_contain_text("The destination hooks is saved")
    row = Destination.objects.get()
    assert row.config == {"url": "https://hooks.example.org/in", "method": "PUT", "concurrency": 8}
    assert row.secrets == {"Authorization": "Bearer planted-canary"}
    assert [line for line in visit.complaints if "422" not in line] == []


def test_a_directory_is_added(visit: Visit) -> None:
    Access.objects.update(role=Role.ADMIN)
    page = visit.open("/sources/")
    page.get_by_role("link", name="Add directory").click()
    page.get_by_label("Name").fill("files")
    page.get_by_label("Directory").fill("/srv/dead-letters")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/sources/*/")
    assert Source.objects.get().config == {"path": "/srv/dead-letters"}
    assert visit.complaints == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_forms_fit_a_narrow_screen_in_either_theme(visit: Visit, theme: str) -> None:
    Access.objects.update(role=Role.ADMIN)
    visit.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    for path in ("/destinations/http/", "/destinations/handler/", "/destinations/broker/", "/sources/directory/"):
        page = visit.open(path)
        page.set_viewport_size({"width": 320, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
        assert violations(page) == []
    assert visit.complaints == []
