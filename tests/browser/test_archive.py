"""The archive in a real browser: a message found, restored, approved and delivered; runs, holds and erasures."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.core.domain.access import SYSTEM, Role
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.destinations.commands import save_destination
from poisonadmin.policies.commands import save_policy
from poisonadmin.store.models.access import Access
from tests.archive.fixtures import archive_with, erase_with, fail, in_process  # noqa: F401  (a fixture)
from tests.archive.in_process import InProcessStore
from tests.browser.axe import violations
from tests.browser.conftest import Visit
from tests.fixtures.api import take
from tests.fixtures.delivery import claim, run_shards
from tests.whole_system.consumer import consuming

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("in_process")]
PAYLOAD = {"customer": "c-77", "total": 12}


def archive() -> None:
    """Have the archive run now, into the directory that the web process reads."""
    request_archive_run(principal=SYSTEM)
    archive_with(InProcessStore(settings.ARCHIVE))


def faults(page: Page) -> list[str]:
    """Return what axe finds, light and dark, and whether the page is too wide for a narrow window."""
    found = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.reload()
        found += [f"{theme}: {problem}" for problem in violations(page)]
    page.set_viewport_size({"width": 320, "height": 900})
    if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
        found.append("wider than a window of 320 px")
    page.set_viewport_size({"width": 1280, "height": 900})
    return found


def test_an_archived_message_is_found_restored_approved_and_delivered(visit: Visit, test_database_url: str) -> None:
    with consuming() as consumer:
        shop = {"url": consumer.url}
        save_destination("shop", kind="http", config=shop, secrets=None, max_rate_per_second=None, principal=SYSTEM)
        keys = {"business_keys": ["$.customer"]}
        save_policy("orders.#", preset=None, settings=keys, destination="shop", principal=SYSTEM)
        message_id = take(payload=PAYLOAD, message_id="order-1")
        fail([message_id])
        archive()
        page = visit.open("/archive/messages/")
        page.get_by_label("Search", exact=True).fill("key.customer:c-77")
        page.get_by_role("button", name="Search").click()
        assert faults(page) == []
        page.get_by_role("link", name=f"#{message_id}").click()
        expect(page.get_by_text("archived", exact=True)).to_be_visible()
        expect(page.get_by_role("heading", name="Payload")).to_be_visible()
        expect(page.get_by_role("button", name="Approve")).to_have_count(0)
        assert faults(page) == []
        page.get_by_label("Reason to restore it and decide on it").fill("the customer asks for it")
        page.get_by_role("button", name="Restore from archive").click()
        expect(page.get_by_text("The message is restored. It waits for a decision.")).to_be_visible()
        page.get_by_role("button", name="Approve…").click()
        page.get_by_label("Reason").last.fill("the customer asks for it")
        page.get_by_role("dialog").get_by_role("button", name="Approve").click()
        expect(page.get_by_role("button", name="Deliver now…")).to_be_visible()
        taken = claim()
        with ThreadPoolExecutor(1) as thread:  # Playwright's loop runs in this one
            thread.submit(run_shards, test_database_url, taken).result()
        settle()
        page = visit.open(f"/messages/{message_id}/")
        expect(page.get_by_text("Delivered", exact=True).first).to_be_visible()
        assert [(one.message_id, one.attempt, one.body) for one in consumer.arrivals] == [
            (message_id, 1, b'{"customer":"c-77","total":12}')
        ]
    assert visit.complaints == []


def test_runs_holds_and_erasures_are_asked_for_on_the_page(visit: Visit) -> None:
    Access.objects.filter(user=User.objects.get(username="mara")).update(role=Role.ADMIN)
    held, erased = take(message_id="held"), take(message_id="erased")
    fail([held, erased])
    page = visit.open("/archive/")
    assert faults(page) == []
    page.locator("#hold-q").fill("message:held")
    page.locator("#hold-reason").fill("lawsuit 12")
    page.get_by_role("button", name="Hold", exact=True).click()
    expect(page.get_by_text("The legal hold is in force.")).to_be_visible()
    page.get_by_role("button", name="Run now").click()
    archive_with(InProcessStore(settings.ARCHIVE))
    page.locator("#erase-q").fill("address:orders.#")
    page.get_by_role("button", name="Preview the erasure").click()
    expect(page.get_by_text("1 will be erased")).to_be_visible()
    expect(page.get_by_text("1 is left alone")).to_be_visible()
    assert faults(page) == []
    page.locator("#erase-count").fill("1")
    page.locator("#erase-reason").fill("letter of May")
    page.get_by_role("button", name="Erase for good").click()
    expect(page.get_by_text("The erasure is under way")).to_be_visible()
    erase_with(InProcessStore(settings.ARCHIVE))
    page = visit.open("/archive/")
    expect(page.get_by_role("region", name="List of erasures")).to_contain_text("succeeded")
    expect(page.get_by_role("region", name="List of legal holds")).to_contain_text("lawsuit 12")
    assert faults(page) == []
    page = visit.open(f"/messages/{held}/")
    expect(page.get_by_role("heading", name=f"Message #{held}")).to_be_visible()
    visit.complaints.clear()
    assert visit.open(f"/messages/{erased}/").get_by_text("letter of May").is_visible()
    # That the page answers 410 is also written to the console.
    assert [one for one in visit.complaints if "410" not in one] == []
    assert not list(Path(settings.ARCHIVE).rglob("*.part"))
