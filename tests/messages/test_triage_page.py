"""The page Triage: facets, completion, the palette, and the way from a message to the next of its list."""

import re
from collections.abc import Callable
from html import unescape

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.policies.commands import save_policy
from tests.fixtures.pages import dead_letter, html_of, waiting

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}


def links(html: str) -> dict[str, str]:
    """Return the links of a page by their text."""
    found = re.findall(r'<a [^>]*?href="([^"]*)"[^>]*>(.*?)</a>', html, re.DOTALL)
    return {unescape(" ".join(re.sub(r"<[^>]*>", " ", text).split())): unescape(link) for link, text in found}


def test_facets_count_and_narrow(operator_browser: Client) -> None:
    dead_letter("orders.eu")
    dead_letter("orders.us")
    waiting("orders.eu")
    text = html_of(operator_browser.get("/triage/facets/?state=NDLV", headers=HTMX))
    assert "2 messages" in " ".join(text.split())
    found = links(text)
    assert found["orders.us 1"] == "/triage/?state=NDLV&address=orders.us"
    assert found["Needs decision (NDLV) 2"] == "/triage/"
    assert found["Waiting (TBDL) 1"] == "/triage/?state=NDLV&state=TBDL"
    assert found["in the last 1 hour 2"] == "/triage/?state=NDLV&q=failed%3A1h"


def test_facets_tell_business_keys(operator_browser: Client) -> None:
    save_policy("#", preset=None, settings={"business_keys": ["$.customer"]}, destination=None, principal=SYSTEM)
    for customer in ("77", "77", "78"):
        waiting(payload={"customer": customer})
    text = html_of(operator_browser.get("/triage/facets/", headers=HTMX))
    assert links(text)["77 2"] == "/triage/?key.customer=77"


def test_from_a_message_to_the_next_of_its_list(operator_browser: Client) -> None:
    first, other, second, third = (dead_letter(address) for address in ("orders.a", "bills", "orders.b", "orders.c"))
    listed = html_of(operator_browser.get("/triage/?address=orders.%23"))
    opened = links(listed)[f"#{second.id}"]
    page = html_of(operator_browser.get(opened))
    found = links(page)
    assert found["Back to the list"] == "/triage/?address=orders.%23"
    assert found["Next"].startswith(f"/messages/{first.id}/?list=")
    assert found["Previous"].startswith(f"/messages/{third.id}/?list=")
    assert f'name="back" value="/messages/{first.id}/?list=' in page
    last = html_of(operator_browser.get(found["Next"]))
    assert "Next" not in links(last)
    assert 'name="back" value="/triage/?address=orders.%23"' in last
    raw = html_of(operator_browser.get(opened + "&view=raw"))
    assert "view=hex&amp;list=" in raw
    assert "Back to the list" not in html_of(operator_browser.get(f"/messages/{other.id}/"))
    assert operator_browser.get(f"/messages/{other.id}/?list=sate%3DNDLV").status_code == 400


def test_a_decision_on_a_message_leads_to_the_next_of_its_list(operator_browser: Client) -> None:
    first, second = dead_letter("orders.a"), dead_letter("orders.b")
    page = html_of(operator_browser.get(f"/messages/{second.id}/?list=state%3DNDLV"))
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page))
    fields = {name: unescape(value) for name, value in fields.items()} | {"reason": "r"}
    answer = operator_browser.post("/messages/decide/fail/now/", fields)
    assert answer.headers["Location"] == f"/messages/{first.id}/?list=state%3DNDLV"


@pytest.mark.parametrize(
    ("typed", "options"),
    [
        ("sta", ["state:"]),
        ("state:n", ["state:NDLV"]),
        ("orders !address:eu", ["orders !address:orders.eu"]),
        ("failed:", ["failed:1h", "failed:24h", "failed:7d"]),
        ("nothing", []),
        ("", []),
    ],
)
def test_the_last_word_of_a_search_is_completed(operator_browser: Client, typed: str, options: list[str]) -> None:
    waiting("orders.eu")
    text = html_of(operator_browser.get("/triage/completions/", {"q": typed}, headers=HTMX, follow=True))
    assert re.findall(r'value="([^"]*)"', text) == options


def test_the_palette_leads_to_what_is_named(operator_browser: Client) -> None:
    message = dead_letter("orders.eu", dead_letter={"exception_class": "LabelError", "exception_message": "x"})
    assert links(html_of(operator_browser.get("/palette/")))["Page Operations"] == "/operations/"
    for typed, name in ((str(message.id), f"Message #{message.id}, NDLV, orders.eu"), ("ers.e", "Address orders.eu")):
        assert name in links(html_of(operator_browser.get("/palette/", {"q": typed})))
    assert any("LabelError" in name for name in links(html_of(operator_browser.get("/palette/", {"q": "label"}))))
    assert links(html_of(operator_browser.get("/palette/?q=a%26b")))["Search messages for “a&b”"] == "/triage/?q=a%26b"


def test_who_is_limited_is_led_nowhere_else(browser_of: Callable[[str], Client]) -> None:
    limited = browser_of("outsider")
    message = dead_letter("orders.eu", dead_letter={"exception_class": "LabelError", "exception_message": "x"})
    for typed in (str(message.id), "orders", "labelerror"):
        found = links(html_of(limited.get("/palette/", {"q": typed})))
        assert [name for name in found if not name.startswith("Search")] == [], typed
    assert "orders" not in html_of(limited.get("/triage/completions/", {"q": "address:ord"})).replace("address:ord", "")
    assert "orders" not in html_of(limited.get("/triage/facets/"))
