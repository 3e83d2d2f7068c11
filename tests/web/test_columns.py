"""Readers choose the columns of lists, and their browser remembers it."""

import pytest
from django.test import Client

from tests.fixtures.pages import dead_letter, html_of, log_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(page_settings: None) -> Client:
    """An operator, logged in, with a message that failed."""
    dead_letter("orders.eu")
    return log_in("operator")


def headings(browser: Client, page: str) -> list[str]:
    """Return the headings of the list of a page."""
    head = html_of(browser.get(page)).partition("<thead>")[2].partition("</thead>")[0]
    return [word for word in ("State", "Last failure", "Tries", "Received", "Owner", "24 hours") if word in head]


def test_chosen_columns_stay_for_a_year_and_each_list_has_its_own(browser: Client) -> None:
    assert headings(browser, "/triage/?state=NDLV") == ["State", "Last failure", "Tries", "Received"]
    offered = html_of(browser.get("/triage/?state=NDLV"))
    assert (
        '<input type="checkbox" class="form-check-input" name="column" value="tries" form="columns" checked>' in offered
    )
    sent = {"column": ["state", "address", "failure"], "back": "/triage/?state=NDLV"}
    answer = browser.post("/columns/messages/", sent)
    assert (answer.status_code, answer["Location"]) == (302, sent["back"])
    cookie = answer.cookies["hidden-messages"]
    assert (cookie["max-age"], cookie["httponly"], cookie["samesite"]) == (365 * 24 * 3600, True, "Lax")
    assert headings(browser, "/triage/?state=NDLV") == ["State", "Last failure"]
    assert 'value="tries" form="columns">' in html_of(browser.get("/triage/?state=NDLV"))
    assert headings(browser, "/addresses/one/?name=orders.eu") == ["State", "Last failure"]
    groups = "/triage/?group_by=failure"
    assert headings(browser, groups) == ["Owner", "24 hours"]
    browser.post("/columns/groups/", {"column": ["trend"]})
    assert headings(browser, groups) == ["24 hours"]


def test_what_names_a_row_stays_and_a_cookie_of_others_hides_nothing_else(browser: Client) -> None:
    browser.post("/columns/messages/", {"column": [], "back": "https://elsewhere.example.org/"})
    assert "data-open" in html_of(browser.get("/triage/?state=NDLV"))
    browser.cookies["hidden-messages"] = "message.<script>.state"
    page = html_of(browser.get("/triage/?state=NDLV"))
    assert "data-open" in page
    assert headings(browser, "/triage/?state=NDLV") == ["Last failure", "Tries", "Received"]
    assert browser.post("/columns/nothing/", {}).status_code == 404


def test_rows_that_a_decision_changes_have_the_chosen_columns(browser: Client) -> None:
    message = dead_letter("orders.eu")
    browser.post("/columns/messages/", {"column": ["state"]})
    sent = {"id": message.id, "reason": "r", "origin": "list", "back": "/triage/"}
    changed = html_of(browser.post("/messages/decide/fail/now/", sent, headers={"HX-Request": "true"}))
    assert f'id="m-{message.id}"' in changed
    assert changed.partition(f'id="m-{message.id}"')[2].partition("</tr>")[0].count("<td") == 3


def test_crashes_have_no_columns_to_choose(browser: Client) -> None:
    assert "columns-menu" not in html_of(browser.get("/triage/?state=NDLV&reason=blacklisted&group_by=crashes"))
