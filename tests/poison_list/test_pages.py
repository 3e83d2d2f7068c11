"""The poison list's page: what is listed, not yet, or released; why, by whom; who skips it; releasing with a reason."""

from collections.abc import Callable

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.poison_list.commands import Report, report
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.poison import Consumer, PoisonEntry
from tests.fixtures.pages import html_of, usable_of, waiting

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}


def listed(bookmark: str = "12|34|", source: str = "orders.eu", why: str = "ValueError: no price") -> PoisonEntry:
    report(Report(source=source, bookmark=bookmark, why=why), principal=SYSTEM)
    return PoisonEntry.objects.get(source=source, bookmark=bookmark)


def died_once(bookmark: str = "56|78|", source: str = "orders.eu") -> PoisonEntry:
    report(Report(source=source, bookmark=bookmark, why="Fatal error.", fatal=True), principal=SYSTEM)
    return PoisonEntry.objects.get(source=source, bookmark=bookmark)


def text_of(client: Client, path: str = "/poison-list/") -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return html_of(answer)


def test_an_entry_shows_why_and_by_whom_and_leads_to_its_message(operator_browser: Client) -> None:
    message = waiting("orders.eu", bookmark="12|34|")
    listed()
    text = text_of(operator_browser)
    assert "12|34|" in text
    assert "ValueError: no price" in text
    assert "by system" in text
    assert "1 of 1 failure" in text
    assert f'href="/messages/{message.id}/"' in text
    assert "Poison list: 1 listed" in text


def test_a_crash_that_is_not_yet_enough_is_counted_and_not_listed(operator_browser: Client) -> None:
    died_once()
    assert "56|78|" not in text_of(operator_browser)
    text = text_of(operator_browser, "/poison-list/?show=counting")
    assert "1 of 2 crashes" in text
    assert ">counting<" in text
    assert "56|78|" in text_of(operator_browser, "/poison-list/?show=all")


def test_an_entry_is_released_with_a_reason_and_then_shown_under_its_filter(operator_browser: Client) -> None:
    entry = listed()
    asked = html_of(operator_browser.post(f"/poison-list/{entry.id}/release/", headers=HTMX))
    assert "Release" in asked
    assert "handles it again" in asked
    refused = operator_browser.post(f"/poison-list/{entry.id}/release/now/", {"reason": " "})
    assert refused.status_code == 422
    assert PoisonEntry.objects.get().is_listed
    done = operator_browser.post(f"/poison-list/{entry.id}/release/now/", {"reason": "repaired in 4.2"})
    assert done.headers["Location"] == "/poison-list/"
    assert not PoisonEntry.objects.get().is_listed
    assert Audit.objects.filter(actor="operator", note="repaired in 4.2").exists()
    assert "All clear" in text_of(operator_browser)
    assert "12|34|" not in text_of(operator_browser, "/poison-list/?show=counting")
    text = text_of(operator_browser, "/poison-list/?show=released")
    assert "by operator" in text
    assert "repaired in 4.2" in text


def test_a_source_shows_its_entries_and_its_consumers(operator_browser: Client) -> None:
    listed(source="orders.eu")
    listed("other", source="orders.us")
    for name, source in (("printer-1", "orders.eu"), ("printer-2", "orders.us")):
        Consumer.objects.create(name=name, source=source, host="h", pid=1, reported_by="x")
    text = text_of(operator_browser, "/poison-list/?source=orders.eu")
    assert "12|34|" in text
    assert "other" not in text.split("<main", 1)[1].replace("another", "")
    assert "printer-1" in text
    assert "printer-2" not in text


def test_an_empty_list_says_why(operator_browser: Client, browser_of: Callable[[str], Client]) -> None:
    assert "No poison list yet" in text_of(operator_browser)
    listed()
    assert "Nothing in your scope" in text_of(browser_of("outsider"))


def test_a_viewer_may_not_release_and_an_outsider_finds_nothing(browser_of: Callable[[str], Client]) -> None:
    entry = listed()
    assert "Release…" in text_of(browser_of("operator"))
    assert "Release…" not in usable_of(browser_of("viewer").get("/poison-list/"))
    for path in (f"/poison-list/{entry.id}/release/", f"/poison-list/{entry.id}/release/now/"):
        assert browser_of("viewer").post(path, {"reason": "r"}).status_code == 403
        assert browser_of("outsider").post(path, {"reason": "r"}).status_code == 404
    assert PoisonEntry.objects.get().is_listed


@pytest.mark.parametrize("query", ["show=none", "listed=true"])
def test_an_unknown_choice_is_refused(operator_browser: Client, query: str) -> None:
    assert operator_browser.get(f"/poison-list/?{query}").status_code == 400
