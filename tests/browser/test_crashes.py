"""The view of crashes, the nodes and the poison list in a real browser, against the real server."""

import pytest
from playwright.sync_api import expect

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.poison_list.commands import Report, report
from poisonadmin.store.models.claim import Node
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.poison import Consumer, PoisonEntry
from tests import crashes
from tests.browser.axe import violations
from tests.browser.conftest import Visit
from tests.browser.shots import CRASHED
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import waiting
from tests.web.test_hostile_text import BARE, XSS

pytestmark = pytest.mark.django_db(transaction=True)


def blacklisted(bystanders: int = 2) -> int:
    first, *others = [waiting().id for _ in range(1 + bystanders)]
    crashes.blacklist(first, *others)
    return first


def test_blacklisted_messages_are_decided_on_with_a_warning_and_stay_in_sight(visit: Visit) -> None:
    make_orders_destination()
    first, second = blacklisted(), blacklisted()
    page = visit.open_with_clock("/triage/")
    page.get_by_role("link", name="Crashed").click()
    page.wait_for_url(f"**{CRASHED}")
    page.locator(f"#m-{first} summary").first.click()
    expect(page.locator(f"#m-{first} pre").first).to_contain_text("rendering label")
    page.locator(f"#m-{second} input[name=id]").click()
    page.click("[data-decision=approve]")
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("one more crash blacklists it again")
    assert violations(page) == []
    dialog.locator("textarea").fill("The fonts were replaced.")
    dialog.locator("button[type=submit]").click()
    expect(dialog).to_be_hidden()
    expect(page.locator(f"#m-{second} .state")).to_have_text("Waiting TBDL")
    expect(page.locator(f"#m-{second}")).to_have_class("changed")
    expect(page.locator(f"#m-{second} .crashes li")).to_have_count(2)
    page.clock.fast_forward(5_000)
    expect(page.locator(f"#candidate-{second}")).to_be_visible()
    page.locator(f"#m-{first} input[name=id]").click()
    page.click("[data-decision=fail]")
    dialog.locator("textarea").fill("Nobody waits for it.")
    dialog.locator("button[type=submit]").click()
    expect(page.locator(f"#m-{first} .state")).to_have_text("Given up FAIL")
    assert set(Message.objects.filter(id__in=[first, second]).values_list("state", flat=True)) == {"FAIL", "TBDL"}
    assert visit.complaints == []


def test_what_is_blacklisted_meanwhile_is_announced(visit: Visit) -> None:
    make_orders_destination()
    blacklisted()
    page = visit.open_with_clock(CRASHED)
    later = blacklisted()
    page.clock.fast_forward(10_000)
    page.get_by_role("link", name="1 new").click()
    expect(page.locator(f"#m-{later}")).to_be_visible()


def test_bystanders_are_two_clicks_from_the_view(visit: Visit) -> None:
    make_orders_destination()
    first = blacklisted(bystanders=3)
    page = visit.open(CRASHED)
    page.get_by_role("link", name="3 of 3 bystanders delivered").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Bystanders of message #{first}")
    expect(page.locator(".messages-table tbody tr")).to_have_count(3)
    page.locator(".messages-table a[data-open]").first.click()
    expect(page.locator("h1")).to_contain_text("Message #")


def test_an_entry_of_the_poison_list_is_released_in_a_dialog(visit: Visit) -> None:
    report(Report(source="stocks", bookmark="13|9281|", why="ValueError: negative"), principal=SYSTEM)
    page = visit.open("/poison-list/")
    page.get_by_role("button", name="Release").click()
    dialog = page.locator("#dialog")
    expect(dialog.locator("textarea")).to_be_focused()
    assert violations(page) == []
    dialog.locator("textarea").fill("The feed was corrected.")
    dialog.locator("button[type=submit]").click()
    expect(page.locator("#flash")).to_contain_text("13|9281| is released")
    expect(page.get_by_role("heading", name="All clear")).to_be_visible()
    assert not PoisonEntry.objects.get().is_listed
    assert visit.complaints == []


def test_nothing_that_a_crash_leaves_behind_runs_or_breaks_the_page(visit: Visit) -> None:
    killer = waiting(BARE, message_id=XSS).id
    long = "w" * 4000
    crashes.blacklist(
        killer, output=(XSS + "\x00\x1b[31m" + long).encode(), error_class=XSS[:200], error_message=XSS + long
    )
    Node.objects.update(name="n" * 100, host=XSS[:100])
    report(
        Report(source=BARE, bookmark=XSS, why=XSS + long, fatal=True, crash_limit=1, consumer="c" * 100),
        principal=SYSTEM,
    )
    Consumer.objects.create(
        name="c" * 100, source=BARE, version="v" * 100, host="h" * 255, pid=1, bookmark="b" * 255, reported_by=XSS
    )
    visit.page.add_init_script("window.hit = 0; window.alert = () => { window.hit = 1; };")
    visit.page.set_viewport_size({"width": 320, "height": 900})
    node_id = Node.objects.earliest("id").id
    for path in (
        CRASHED,
        f"/messages/{killer}/bystanders/1/",
        f"/messages/{killer}/",
        "/nodes/?show=all",
        f"/nodes/{node_id}/",
        "/poison-list/",
        f"/poison-list/?source={BARE.replace('%', '%25').replace('#', '%23').replace('+', '%2B')}",
    ):
        page = visit.open(path)
        page.wait_for_load_state("load")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.evaluate("window.hit") == 0, path
        assert page.evaluate("document.querySelectorAll('main img, main iframe, main svg[onload]').length") == 0, path
        beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert beyond <= 0, path
    assert visit.complaints == []
