"""An administrator's work in a real browser, against the real server."""

import pytest
from playwright.sync_api import expect

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.store.models.history import History
from poisonadmin.store.models.message import Message
from tests.browser.axe import violations
from tests.browser.conftest import Visit
from tests.fixtures import decisions
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import dead_letter, waiting

pytestmark = pytest.mark.django_db(transaction=True)


def test_messages_are_approved_and_failed_from_the_list_and_stay_in_sight(visit: Visit) -> None:
    make_orders_destination()
    first, second, third = dead_letter(), dead_letter(), dead_letter()
    page = visit.open("/triage/?state=NDLV")
    expect(page.locator("[data-decision=approve]")).to_be_disabled()
    page.locator(f"#m-{third.id} input[name=id]").click()
    page.locator(f"#m-{second.id} input[name=id]").click()
    expect(page.locator("[data-ticked]")).to_have_text("2 ticked")
    page.click("[data-decision=approve]")
    dialog = page.locator("#dialog")
    expect(dialog.get_by_role("heading")).to_have_text("Approve 2 messages?")
    expect(dialog.locator("textarea")).to_be_focused()
    assert violations(page) == []
    dialog.locator("textarea").fill("The parser is repaired.")
    dialog.locator("button[type=submit]").click()
    expect(dialog).to_be_hidden()
    expect(page.locator(f"#m-{third.id} .state")).to_have_text("Waiting TBDL")
    expect(page.locator(f"#m-{second.id}")).to_have_class("changed")
    expect(page.locator("#flash")).to_contain_text("2 messages approved.")
    expect(page.locator("#undecided-count")).to_contain_text("1")
    page.locator(f"#m-{first.id} input[name=id]").click()
    page.click("[data-decision=fail]")
    dialog.locator("textarea").fill("Nobody waits for it.")
    dialog.locator("button[type=submit]").click()
    expect(page.locator(f"#m-{first.id} .state")).to_have_text("Given up FAIL")
    states = dict(Message.objects.values_list("id", "state"))
    assert states == {first.id: "FAIL", second.id: "TBDL", third.id: "TBDL"}
    notes = History.objects.filter(actor="mara").order_by("seq").values_list("event", "note")
    assert list(notes) == [
        ("approved", "The parser is repaired."),
        ("approved", "The parser is repaired."),
        ("marked_fail", "Nobody waits for it."),
    ]
    assert visit.complaints == []


def test_a_message_is_decided_on_its_own_page_and_a_stale_page_is_refused(visit: Visit) -> None:
    make_orders_destination()
    message = dead_letter()
    page = visit.open(f"/messages/{message.id}/")
    page.click("[data-decision=fail]")
    page.locator("#dialog textarea").fill("Nobody waits for it.")
    page.locator("#dialog button[type=submit]").click()
    expect(page.locator("#flash")).to_contain_text(" marked FAIL.")
    expect(page.get_by_role("button", name="Restore…")).to_be_visible()
    page.click("[data-decision=restore]")
    page.locator("#dialog textarea").fill("Too early.")
    decisions.restore([message.id], principal=SYSTEM, reason="somebody was quicker")
    page.locator("#dialog button[type=submit]").click()
    expect(page.locator("#dialog")).to_contain_text("It changed since your page was made")
    expect(page.locator("#dialog")).to_contain_text("nothing was changed")


def test_the_list_is_worked_with_the_keyboard_alone(visit: Visit) -> None:
    make_orders_destination()
    made = [dead_letter() for _ in range(4)][::-1]
    page = visit.open("/triage/?state=NDLV")
    for key in ("j", "x", "j", "j", "x"):
        page.keyboard.press(key)
    expect(page.locator("[data-ticked]")).to_have_text("2 ticked")
    page.keyboard.press("f")
    dialog = page.locator("#dialog")
    expect(dialog.get_by_role("heading")).to_have_text("Mark FAIL 2 messages?")
    expect(dialog.locator("textarea")).to_be_focused()
    page.keyboard.type("jjxx")
    expect(dialog.locator("textarea")).to_have_value("jjxx")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert set(Message.objects.values_list("state", flat=True)) == {"NDLV"}
    page.keyboard.press("k")
    page.keyboard.press("o")
    page.wait_for_url(f"**/messages/{made[1].id}/?list=state%3DNDLV")
    page.keyboard.press("?")
    page.get_by_role("button", name="Keyboard shortcuts").click()
    page.locator("#shortcuts-on").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("o")
    expect(page).to_have_url(f"{visit.base}/messages/{made[1].id}/?list=state%3DNDLV")


def test_shift_ticks_a_range(visit: Visit) -> None:
    made = [dead_letter() for _ in range(6)][::-1]
    page = visit.open("/triage/")
    page.locator(f"#m-{made[1].id} input[name=id]").click()
    page.locator(f"#m-{made[4].id} input[name=id]").click(modifiers=["Shift"])
    expect(page.locator("[data-ticked]")).to_have_text("4 ticked")
    page.locator("[data-tick-all]").check()
    expect(page.locator("[data-ticked]")).to_have_text("6 ticked")


def test_the_theme_and_the_zone_are_remembered(visit: Visit) -> None:
    message = waiting()
    page = visit.open(f"/messages/{message.id}/")
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "light")
    page.click("[data-toggle-theme]")
    page.click("[data-toggle-theme]")
    page.click("[data-toggle-zone]")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    expect(page.locator("[data-zone-name]")).to_have_text("Local")


def test_home_refreshes_itself_and_keeps_the_focus(visit: Visit) -> None:
    dead_letter()
    page = visit.open_with_clock("/")
    expect(page.locator("#outcomes-chart canvas")).to_be_visible()
    expect(page.locator(".needs")).to_contain_text("1 message needs a decision")
    page.locator("#tile-NDLV").focus()
    dead_letter()
    page.clock.fast_forward(5_000)
    expect(page.locator("#tile-NDLV .figure")).to_have_text("2")
    expect(page.locator("#tile-NDLV")).to_be_focused()
    assert visit.complaints == []


def test_without_scripts_a_decision_takes_a_page_more(visit: Visit) -> None:
    make_orders_destination()
    message = dead_letter()
    context = visit.page.context.browser.new_context(java_script_enabled=False)  # type: ignore[union-attr]
    context.add_cookies(visit.page.context.cookies())  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{visit.base}/triage/?state=NDLV")
    page.locator("input[name=id]").check()
    page.get_by_role("button", name="Approve…").click()
    page.locator("textarea").fill("The parser is repaired.")
    page.get_by_role("button", name="Approve 1").click()
    expect(page.locator("#flash")).to_contain_text(" approved.")
    assert Message.objects.get(id=message.id).state == "TBDL"
    context.close()
