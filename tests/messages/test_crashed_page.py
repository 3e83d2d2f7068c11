"""The view of crashes: what crashed, how and on which node; who was there and was cleared; what approving risks."""

import re
from collections.abc import Callable
from html import unescape

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.store.models.message import Message
from tests import crashes
from tests.fixtures import decisions
from tests.fixtures.pages import html_of, waiting

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_destination")]

HTMX = {"HX-Request": "true"}
CRASHED = "/triage/?state=NDLV&reason=blacklisted&group_by=crashes"


def rows(html: str) -> list[int]:
    return [int(found) for found in re.findall(r'<tr id="m-(\d+)"', html)]


def some(count: int, address: str = "orders.eu") -> list[int]:
    return [waiting(address).id for _ in range(count)]


def blacklisted(address: str = "orders.eu", bystanders: int = 0, **columns: object) -> int:
    first, *others = some(1 + bystanders, address)
    crashes.blacklist(first, *others, **columns)
    return first


def text_of(client: Client, path: str = CRASHED) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return unescape(html_of(answer))


def test_a_blacklisted_message_shows_both_crashes_with_node_signal_and_output(operator_browser: Client) -> None:
    message_id = blacklisted(bystanders=3, output=b"line one\nlast words")
    text = text_of(operator_browser)
    assert rows(text) == [message_id]
    assert text.count("SIGSEGV</span>") == 2
    assert "worker-1/4711" in text
    assert "worker-1/4712" in text
    assert text.count("last words") == 2
    assert "HandlerSegfault in labels:render" in text
    assert "2 crashes, 2 tries" in text


def test_bystanders_are_counted_by_what_became_of_them_and_listed(operator_browser: Client) -> None:
    killer, *others = some(6)
    together = crashes.take([killer, *others])
    crashes.crash(together, killer)
    crashes.deliver(together, *others[:4])
    alone = crashes.take([killer], alone=True)
    crashes.crash(alone, killer)
    text = text_of(operator_browser)
    assert "4 of 5 bystanders delivered</a>, 1 under way</div>" in text
    assert ">alone</span>" in text
    link = re.search(r'href="(/messages/\d+/bystanders/1/)"', text)
    assert link is not None
    listed = text_of(operator_browser, link[1])
    assert sorted(rows(listed)) == sorted(others)
    assert sorted(rows(text_of(operator_browser, f"{link[1]}?state=DLVD"))) == sorted(others[:4])
    assert "None of these" in text_of(operator_browser, f"{link[1]}?state=FAIL")


def test_a_crash_alone_has_no_bystanders(operator_browser: Client) -> None:
    message_id = blacklisted()
    assert "It was delivered alone" in text_of(operator_browser, f"/messages/{message_id}/bystanders/2/")
    assert operator_browser.get(f"/messages/{message_id}/bystanders/7/").status_code == 404


def test_candidates_have_a_list_of_their_own_until_they_are_delivered(operator_browser: Client) -> None:
    killer, other = some(2)
    together = crashes.take([killer, other])
    crashes.crash(together, killer)
    crashes.lose(together, other)
    text = text_of(operator_browser)
    assert rows(text) == []
    assert f'id="candidate-{killer}"' in text
    assert f'id="candidate-{other}"' in text
    assert ">worker lost</span>" in text
    alone = crashes.take([killer], alone=True)
    part = html_of(operator_browser.get("/triage/candidates/", headers=HTMX))
    assert "being delivered, alone" in part
    assert "<html" not in part
    crashes.deliver(alone, killer)
    assert f'id="candidate-{killer}"' not in text_of(operator_browser)


def test_the_address_in_the_url_narrows_everything(operator_browser: Client) -> None:
    eu, us = blacklisted("orders.eu"), blacklisted("orders.us")
    assert rows(text_of(operator_browser, CRASHED + "&address=orders.us")) == [us]
    assert sorted(rows(text_of(operator_browser, CRASHED + "&address=orders.%23"))) == sorted([eu, us])
    assert "Nothing matches" in text_of(operator_browser, CRASHED + "&address=elsewhere")
    assert operator_browser.get(CRASHED + "&address=a..b").status_code == 400
    assert operator_browser.get(CRASHED + "&adress=orders.us").status_code == 400


def test_an_empty_blacklist_says_why(operator_browser: Client, browser_of: Callable[[str], Client]) -> None:
    assert "Nothing has ever crashed" in text_of(operator_browser)
    first, second = blacklisted(), blacklisted()
    assert "Nothing in your scope" in text_of(browser_of("outsider"))
    decisions.approve([first], principal=SYSTEM, reason="repaired")
    decisions.mark_fail([second], principal=SYSTEM, reason="nobody waits")
    assert "All clear" in text_of(operator_browser)


def test_a_decision_answers_with_rows_of_the_blacklist(operator_browser: Client) -> None:
    kept, gone = blacklisted(), blacklisted()
    answer = operator_browser.post(
        "/messages/decide/fail/now/", {"id": [gone], "reason": "r", "origin": "crashed"}, headers=HTMX
    )
    text = html_of(answer)
    assert f'<tr id="m-{gone}" data-row class="changed" hx-swap-oob="true"' in text
    assert 'class="crashes"' in text
    assert "Given up <small>FAIL</small>" in text
    assert rows(text_of(operator_browser)) == [kept]
    plain = operator_browser.post("/messages/decide/fail/now/", {"id": [kept], "reason": "r", "origin": "crashed"})
    assert plain.headers["Location"] == "/triage/"


def test_what_was_blacklisted_since_is_announced(operator_browser: Client) -> None:
    first = blacklisted()
    text = text_of(operator_browser)
    ask = re.search(r'hx-get="(/triage/newer/[^"]+)"', text)
    assert ask is not None
    assert operator_browser.get(ask[1], headers=HTMX).content.strip() == b""
    second = blacklisted()
    # One transaction is one moment: the rows of a test would all be from the same.
    Message.objects.filter(id=second).update(state_at="2036-01-01T00:00:00Z")
    assert b"1 new" in operator_browser.get(ask[1], headers=HTMX).content
    assert rows(text_of(operator_browser)) == [second, first]


def test_home_says_how_many_crashed_their_consumer(operator_browser: Client) -> None:
    blacklisted()
    text = text_of(operator_browser, "/")
    assert "1 message crashed its consumer" in text
    assert "/triage/?state=NDLV&reason=blacklisted&group_by=crashes" in text


def test_a_limited_account_sees_its_own_addresses_and_counts_no_others(browser_of: Callable[[str], Client]) -> None:
    mine, *strangers = [*some(1, "elsewhere.mine"), *some(3)]
    crashes.blacklist(mine, *strangers)
    theirs = blacklisted("orders.eu")
    client = browser_of("outsider")
    text = text_of(client)
    assert rows(text) == [mine]
    assert "orders" not in text.replace("orders.#", "").replace("orders.*", "")
    assert "bystanders delivered" not in text
    assert client.get(f"/messages/{theirs}/bystanders/1/").status_code == 404
    assert rows(text_of(client, f"/messages/{mine}/bystanders/1/")) == []


def test_bystanders_that_crashed_or_failed_themselves_are_told_apart(operator_browser: Client) -> None:
    killer, other, failed, delivered = some(4)
    together = crashes.take([killer, other, failed, delivered])
    for crashed in (killer, other):
        crashes.crash(together, crashed)
    crashes.deliver(together, delivered)
    crashes.end(together)
    settle(together.claim_id)
    decisions.quarantine([failed], principal=SYSTEM, reason="r")
    for crashed in (killer, other):
        crashes.crash(crashes.take([crashed], alone=True), crashed)
    words = "1 of 3 bystanders delivered</a>, 1 blacklisted too, 1 stopped for another reason</div>"
    assert text_of(operator_browser).count(words) == 2


def test_the_view_is_of_what_crashed_whatever_else_its_filter_says(operator_browser: Client) -> None:
    answer = operator_browser.get("/triage/?group_by=crashes&state=FAIL&address=orders.eu")
    assert answer.headers["Location"] == "/triage/?state=NDLV&reason=blacklisted&address=orders.eu&group_by=crashes"
    blacklisted()
    text = text_of(operator_browser, answer.headers["Location"])
    assert 'aria-label="Remove address orders.eu"' in text
    assert 'aria-label="Remove state' not in text
    assert "Decide on all" in html_of(operator_browser.get("/operations/matching/?state=NDLV&reason=blacklisted"))
