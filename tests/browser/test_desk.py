"""The first steps of the desk: what needs somebody, in how few clicks it is decided, and how much a screen shows."""

import re

import pytest
from playwright.sync_api import Page, expect

from poisonadmin.alerts.commands.record import record_alerts
from poisonadmin.alerts.commands.rules import save_alert_rule
from poisonadmin.alerts.domain.rules import AlertRuleFields
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.operations import carry_on
from poisonadmin.store.models.alert import Alert
from poisonadmin.store.models.attempt import FailureGroup
from poisonadmin.store.models.message import Message
from tests.browser.axe import violations
from tests.browser.conftest import Visit
from tests.browser.test_night import Clicks
from tests.fixtures.api import take_dead
from tests.fixtures.delivery import make_orders_destination

pytestmark = pytest.mark.django_db(transaction=True)
LEAST_ROWS, ROW_PIXELS = 18, range(36, 41)
GROUPS = "/triage/?state=NDLV&snoozed=false&group_by=failure"
LISTS = (GROUPS, "/triage/?state=NDLV", "/triage/", "/triage/?group_by=original_address", "/addresses/")
MANY = 25
LONG_CLASS = "com.example.billing.refunds.RefundRepositoryOfTheSecondLedgerException"
# Words of ordinary length whose letters stand on more than one line.
BROKEN = """() => {
  const found = [], walk = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode;
    if (!node.parentElement.checkVisibility() || node.parentElement.closest("pre, .visually-hidden, h1")) continue;
    for (const word of node.data.matchAll(/[\\p{L}\\p{N}]{1,24}(?![\\p{L}\\p{N}])/gu)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].filter((box) => box.width).map((box) => Math.round(box.top)));
      if (lines.size > 1) found.push(word[0]);
    }
  }
  return found;
}"""


def rows_in_sight(page: Page) -> list[int]:
    """Return the heights of the rows that are whole on the screen."""
    found: list[int] = page.evaluate(
        "[...document.querySelectorAll('tbody tr')].map((row) => row.getBoundingClientRect())"
        ".filter((box) => box.bottom <= innerHeight).map((box) => Math.round(box.height))"
    )
    return found


def make_many() -> None:
    """Hand in dead letters of many failures and addresses, with names that are long."""
    for number in range(MANY):
        letter = f"{'abcdefghijklmnopqrstuvwxyz'[number]}"
        take_dead(
            f"orders.eu.warehouse-{letter}",
            original_address=f"orders.eu.{letter}",
            exception_class=f"{LONG_CLASS}{letter}",
            stack=f"{LONG_CLASS}{letter}: no\n\tat com.example.billing.{letter}.RefundRepository.insert(R.java:1)",
        )


def test_a_screen_shows_many_rows_and_breaks_no_word(visit: Visit) -> None:
    make_many()
    for path in LISTS:
        visit.page.set_viewport_size({"width": 1440, "height": 900})
        page = visit.open(path)
        page.wait_for_load_state("networkidle")
        heights = rows_in_sight(page)
        assert len(heights) >= LEAST_ROWS, (path, heights)
        assert {height for height in heights if height not in ROW_PIXELS} == set(), path
        assert page.evaluate(BROKEN) == [], path
        assert violations(page) == [], path
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate(BROKEN) == [], f"{path}, narrow"
        assert violations(page) == [], f"{path}, narrow"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path}, narrow"


def test_on_a_phone_a_card_has_two_lines_and_the_bar_is_at_the_thumb(visit: Visit) -> None:
    make_many()
    visit.page.set_viewport_size({"width": 390, "height": 844})
    for path in (GROUPS, "/triage/?state=NDLV"):
        page = visit.open(path)
        assert max(rows_in_sight(page)) <= 2 * 24 + 20, path
        bar = page.locator(".ticked-bar").bounding_box()
        assert bar is not None
        assert round(bar["y"] + bar["height"]) == 844


def test_on_a_phone_each_value_of_a_card_has_its_label(visit: Visit) -> None:
    make_orders_destination()
    visit.page.set_viewport_size({"width": 390, "height": 844})
    page = visit.open("/destinations/")
    cell = page.locator("td[data-label]").first
    assert cell.evaluate("cell => parseFloat(getComputedStyle(cell).paddingLeft)") > 60, "the label is drawn there"
    expect(cell).to_be_in_viewport()


def test_a_heading_sorts(visit: Visit) -> None:
    take_dead("orders.eu", exception_class="Rare")
    for _ in range(2):
        take_dead("orders.eu", exception_class="Often")
    page = visit.open(GROUPS)
    names = page.locator("tbody a[data-open]")
    expect(names).to_contain_text(["Often", "Rare"])
    page.get_by_role("columnheader", name="First").get_by_role("link").click()
    expect(page.locator("th[aria-sort=descending]")).to_have_text("First")
    page.goto(f"{visit.base}/triage/?state=NDLV")
    newest = page.locator("tbody a[data-open]").first.inner_text()
    page.get_by_role("columnheader", name="Message").get_by_role("link").click()
    expect(page.locator("tbody a[data-open]").last).to_have_text(newest)


def test_a_newcomer_finds_a_failure_and_approves_its_messages_in_five_clicks(visit: Visit) -> None:
    make_orders_destination()
    for _ in range(3):
        take_dead("orders.eu", original_address="orders.eu")
    page = visit.open("/")
    click = Clicks(page)
    expect(page.locator(".needs")).to_contain_text("3 messages need a decision: TimeoutError")
    click(role="link", name=re.compile("^Decide"))
    click(role="button", name="Decide on all 3")
    page.get_by_label("Reason").fill("the parser is mended")
    click(role="button", name="Approve 3")
    expect(page.get_by_role("heading", level=1)).to_have_text("Approve 3 messages")
    carry_on()
    click(role="link", name="Home")
    expect(page.get_by_role("heading", name="Nothing needs you")).to_be_visible()
    assert violations(page) == []
    assert click.count <= 5
    assert set(Message.objects.values_list("state", flat=True)) == {"TBDL"}


def test_from_an_alert_on_a_phone_a_failure_is_understood_and_approved_on_three_screens(visit: Visit) -> None:
    make_orders_destination()
    watch = AlertRuleFields(name="night", kinds=["new_group"], channel="webhook", to=["https://hooks.example.org/a"])
    save_alert_rule(watch, principal=SYSTEM)
    for _ in range(3):
        take_dead("orders.eu", original_address="orders.eu")
    record_alerts()
    visit.page.set_viewport_size({"width": 390, "height": 844})
    page = visit.open(Alert.objects.get().path)
    click = Clicks(page)
    expect(page.get_by_role("heading", level=1)).to_contain_text("TimeoutError")
    click(role="button", name="Decide on all 3")
    page.get_by_label("Reason").fill("the parser is mended")
    click(role="button", name="Approve 3")
    expect(page.get_by_role("heading", level=1)).to_have_text("Approve 3 messages")
    assert click.count <= 2
    assert violations(page) == []
    assert FailureGroup.objects.count() == 1
