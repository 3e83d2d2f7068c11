"""Destinations and a directory are added in a real browser, on a narrow screen too, in light and in dark."""

import pytest
from playwright.sync_api import expect

from poisonadmin.core.domain.access import SYSTEM, Role
from poisonadmin.policies.commands import save_policy
from poisonadmin.rules.commands import create_rule
from poisonadmin.rules.domain.rules import RuleFields
from poisonadmin.store.models.access import Access
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.rule import PolicyRow, Rule
from tests.browser.axe import violations
from tests.browser.conftest import Visit
from tests.rules.dry_runs import end_dry_run

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
    expect(page.get_by_role("alert")).to_contain_text("Nothing was saved. To correct: Requests at once.")
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
    page.get_by_role("link", name="Connect a directory").click()
    page.get_by_label("Name").fill("files")
    page.get_by_label("Directory", exact=True).fill("/srv/dead-letters")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("radio", name="Nowhere yet").check()
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Begin").click()
    page.wait_for_url("**/connect/made/")
    assert Source.objects.get().config == {"path": "/srv/dead-letters"}
    assert visit.complaints == []


def test_a_conflict_keeps_what_was_typed_and_leads_out(visit: Visit) -> None:
    Access.objects.update(role=Role.ADMIN)
    row = save_policy("bills.#", preset=None, settings={}, destination=None, principal=SYSTEM)
    page = visit.open(f"/policies/{row.id}/")
    page.locator("[name='setting.redelivery_delay']").fill("9")
    save_policy("bills.#", preset=None, settings={"redelivery_delay": 5}, destination=None, principal=SYSTEM)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("system saved a change")
    expect(page.locator("[name='setting.redelivery_delay']")).to_have_value("9")
    assert violations(page) == []
    with page.context.expect_page() as other:
        page.get_by_role("link", name="See the current state").click()
    expect(other.value.locator("[name='setting.redelivery_delay']")).to_have_value("5 ms")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/policies/")
    assert PolicyRow.objects.get().settings == {"redelivery_delay": 9}


def test_a_rule_s_page_follows_its_dry_run_and_keeps_the_reason(visit: Visit) -> None:
    Access.objects.update(role=Role.ADMIN)
    fields = RuleFields(name="no orders", match={"address": "orders.#"}, action={"do": "reject"})
    rule = create_rule("before", fields, principal=SYSTEM)
    page = visit.open(f"/rules/{rule.id}/")
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_role("button", name="Dry run")).to_be_disabled()
    page.get_by_label("Reason").fill("tried out")
    Rule.objects.update(checked_version=1)
    end_dry_run(read=13, matched=1)
    expect(page.locator("#flash")).to_contain_text("The dry run has ended.")
    expect(page.get_by_role("button", name="Dry run")).to_be_enabled()
    expect(page.get_by_text("Without a dry run")).to_have_count(0)
    expect(page.get_by_label("Reason")).to_have_value("tried out")
    assert violations(page) == []
    page.get_by_role("button", name="Switch it on").click()
    expect(page.locator("#flash")).to_contain_text("is on")
    assert visit.complaints == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_forms_fit_a_narrow_screen_in_either_theme(visit: Visit, theme: str) -> None:
    Access.objects.update(role=Role.ADMIN)
    visit.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    for path in ("/destinations/http/", "/destinations/handler/", "/destinations/broker/", "/connect/"):
        page = visit.open(path)
        page.set_viewport_size({"width": 320, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
        assert violations(page) == []
    assert visit.complaints == []
