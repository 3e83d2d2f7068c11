"""Searches in payloads on the page Triage."""

from collections.abc import Callable

import pytest
from django.test import Client

from poisonadmin.store.models.run import LongRun
from tests.fixtures.delivery import enqueue
from tests.fixtures.pages import html_of
from tests.masking.planted import mask
from tests.searches.plain import PLAIN, search_due

pytestmark = pytest.mark.django_db

LINK = "/triage/?q=payload%3Acustomer-77"
HTMX = {"HX-Request": "true"}


def text_of(html: str) -> str:
    return " ".join(html.split())


def test_a_search_begins_with_the_page_and_ends_with_a_list(operator_browser: Client) -> None:
    (found, *_), _ = enqueue(payload={"customer": "customer-77"}), enqueue(payload={})
    page = html_of(operator_browser.get(LINK))
    assert 'hx-trigger="load, submit"' in page
    begun = operator_browser.post("/triage/searches/", {"query": LINK.partition("?")[2]}, headers=HTMX)
    assert begun["HX-Redirect"] == LINK
    assert "0 hits so far" in text_of(html_of(operator_browser.get(LINK)))
    search = LongRun.objects.get()
    assert "<progress" in html_of(operator_browser.get(f"/triage/searches/{search.id}/", headers=HTMX))
    search_due(PLAIN)
    assert operator_browser.get(f"/triage/searches/{search.id}/", headers=HTMX)["HX-Refresh"] == "true"
    page = html_of(operator_browser.get(LINK))
    assert "1 hit" in text_of(page)
    assert f"#{found}</a>" in page
    search.refresh_from_db()
    assert search.result is not None
    selection = search.result["selection"]
    assert f"/operations/selections/{selection}/" in page
    # What the hits have in common is asked of the selection: no list can say it by its filter.
    assert f'name="selection" value="{selection}"' in text_of(page)
    assert operator_browser.post("/comparisons/", {"selection": selection}).status_code == 302


def test_a_list_of_payloads_is_not_searched_again_when_it_is_reloaded(operator_browser: Client) -> None:
    for _ in range(2):
        operator_browser.post("/triage/searches/", {"query": "q=payload%3Ax"})
    assert LongRun.objects.count() == 1
    search_due(PLAIN)
    page = html_of(operator_browser.get("/triage/?q=payload%3Ax"))
    assert "Nothing found" in page
    operator_browser.post("/triage/searches/", {"query": "q=payload%3Ax", "again": "1"})
    assert LongRun.objects.count() == 2


def test_a_cancelled_search_is_not_begun_by_itself(operator_browser: Client) -> None:
    operator_browser.post("/triage/searches/", {"query": "q=payload%3Ax"})
    search = LongRun.objects.get()
    answer = operator_browser.post(f"/triage/searches/{search.id}/cancel/", {"back": "/triage/?q=payload%3Ax"})
    assert answer["Location"] == "/triage/?q=payload%3Ax"
    page = html_of(operator_browser.get("/triage/?q=payload%3Ax"))
    assert "was cancelled" in page
    assert 'hx-trigger="load' not in page.partition("<main")[2]


def test_what_cannot_be_searched_says_why(operator_browser: Client) -> None:
    assert "compared with a number" in html_of(operator_browser.get("/triage/?q=payload.$.a:>x"))
    refused = operator_browser.post("/triage/searches/", {"query": "q=state:NDLV"}, headers=HTMX)
    assert "names a payload or a header" in html_of(refused)
    assert not LongRun.objects.exists()


def test_others_hits_are_not_shown(operator_browser: Client, browser_of: Callable[[str], Client]) -> None:
    enqueue(payload={"customer": "customer-77"})
    operator_browser.post("/triage/searches/", {"query": LINK.partition("?")[2]})
    search_due(PLAIN)
    page = html_of(browser_of("outsider").get(LINK))
    assert "hit" not in text_of(page).partition("<main")[2]


def test_hits_from_before_a_masking_rule_are_not_shown(operator_browser: Client) -> None:
    enqueue(payload={"customer": "customer-77"})
    operator_browser.post("/triage/searches/", {"query": LINK.partition("?")[2]})
    search_due(PLAIN)
    assert "1 hit" in text_of(html_of(operator_browser.get(LINK)))
    mask("orders.#", "admin", json_path="$.customer")
    page = html_of(operator_browser.get(LINK))
    assert ("1 hit" in text_of(page), "Search payloads" in page) == (False, True)
    operator_browser.post("/triage/searches/", {"query": LINK.partition("?")[2]})
    search_due(PLAIN)
    assert "0 hits" in text_of(html_of(operator_browser.get(LINK)))
