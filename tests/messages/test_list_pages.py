"""Filters live in the URL; pages go on by keyset; an empty list says why it is empty."""

import re
from collections.abc import Callable
from html import unescape

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.decisions.operations.commands.beginning import decide_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from tests.fixtures import decisions
from tests.fixtures.pages import dead_letter, html_of, waiting

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}


def ids(html: str) -> list[int]:
    return [int(found) for found in re.findall(r'id="m-(\d+)"', html)]


def link(html: str, relation: str) -> str:
    found = re.search(rf'rel="{relation}" href="([^"]+)"', html)
    assert found is not None, f"no {relation} link"
    return unescape(found[1])


def test_the_filter_form_shows_the_filter_of_the_url(operator_browser: Client) -> None:
    message = dead_letter("orders.eu", conversation_id="customer 7&8")
    url = "/triage/?state=NDLV&address=orders.%23&conversation_id=customer+7%268&received_after=2020-01-02T03:04:05Z"
    text = html_of(operator_browser.get(url))
    assert ids(text) == [message.id]
    assert 'value="NDLV" checked' in text
    assert 'name="address" value="orders.#"' in text
    assert 'name="conversation_id" value="customer 7&amp;8"' in text
    assert 'name="received_after" value="2020-01-02T03:04:05"' in text


def test_a_chip_removes_its_filter_and_keeps_the_others(operator_browser: Client) -> None:
    text = html_of(operator_browser.get("/triage/?state=NDLV&state=FAIL&address=orders.%23"))
    without = [unescape(found) for found in re.findall(r'<a href="([^"]+)" aria-label="Remove', text)]
    assert without == [
        "/triage/?state=FAIL&address=orders.%23",
        "/triage/?state=NDLV&address=orders.%23",
        "/triage/?state=NDLV&state=FAIL",
    ]


def test_the_form_s_empty_fields_do_not_stay_in_the_url(operator_browser: Client) -> None:
    answer = operator_browser.get("/triage/?state=NDLV&address=&error=&received_after=2026-01-31T12:00")
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/triage/?state=NDLV&received_after=2026-01-31T12%3A00Z"


def test_pages_go_on_and_back_and_keep_the_filter(operator_browser: Client) -> None:
    made = [dead_letter().id for _ in range(120)][::-1]
    waiting()
    first = html_of(operator_browser.get("/triage/?state=NDLV"))
    second = html_of(operator_browser.get(link(first, "next")))
    third = html_of(operator_browser.get(link(second, "next")))
    assert ids(first) + ids(second) + ids(third) == made
    assert "state=NDLV" in link(second, "next")
    assert ids(html_of(operator_browser.get(link(third, "prev")))) == ids(second)
    assert 'rel="next"' not in third
    oldest = html_of(operator_browser.get("/triage/?state=NDLV&ordering=id"))
    assert ids(oldest) == made[::-1][:50]


@pytest.mark.parametrize(
    "query",
    ["sate=NDLV", "state=DEAD", "q=address:a..b", 'q="open', "cursor=nonsense", "ordering=address", "group=x"],
)
def test_a_mistaken_filter_is_an_error_and_never_everything(operator_browser: Client, query: str) -> None:
    waiting()
    answer = operator_browser.get(f"/triage/?{query}")
    assert answer.status_code == 400
    text = html_of(answer)
    assert ids(text) == []
    assert "Nothing is listed" in text


@pytest.mark.parametrize(
    "path",
    ["triage", "addresses", "policies", "poison-list", "sources", "jobs", "nodes", "audit"],
)
def test_an_unknown_parameter_is_refused_on_every_list(operator_browser: Client, path: str) -> None:
    assert operator_browser.get(f"/{path}/?upward=1").status_code == 400


def test_empty_lists_say_why(operator_browser: Client, browser_of: Callable[[str], Client]) -> None:
    assert "No messages yet" in html_of(operator_browser.get("/triage/"))
    assert "All clear" in html_of(operator_browser.get("/triage/?state=NDLV"))
    number = waiting("orders.eu").id
    for text in (f"{number}", f"%23{number}"):
        assert f"Open message #{number}" in html_of(operator_browser.get(f"/triage/?q={text}"))
    assert "Nothing matches" in html_of(operator_browser.get("/triage/?message_id=other"))
    assert "Nothing in your scope" in html_of(browser_of("outsider").get("/triage/"))


def test_messages_that_came_since_are_announced_and_do_not_move_the_rows(operator_browser: Client) -> None:
    first = dead_letter()
    text = html_of(operator_browser.get("/triage/?state=NDLV"))
    assert f"since={first.id}" in text
    assert operator_browser.get(f"/triage/newer/?state=NDLV&since={first.id}", headers=HTMX).content.strip() == b""
    dead_letter()
    dead_letter()
    waiting()
    banner = html_of(operator_browser.get(f"/triage/newer/?state=NDLV&since={first.id}", headers=HTMX))
    assert "2 new" in banner
    assert 'href="/triage/?state=NDLV"' in banner


def test_the_overview_counts_every_state_and_names_them_in_words(operator_browser: Client) -> None:
    dead_letter()
    failed = dead_letter()
    waiting("orders.eu")
    mara = principal("mara", Role.OPERATOR)
    decide_on([failed.id], OperationAction.FAIL, principal=mara, reason="nobody waits for it")
    text = html_of(operator_browser.get("/"))
    assert re.findall(r'class="figure">(\d+)<', text)[:5] == ["1", "0", "0", "1", "1"]
    assert "Needs decision <small>NDLV</small>" in text
    assert "nobody waits for it" in text


def test_the_chart_has_a_bucket_for_every_minute_of_the_hour(operator_browser: Client) -> None:
    failed = dead_letter()
    decisions.mark_fail([failed.id], principal=SYSTEM, reason="r")
    found = operator_browser.get("/outcomes.json?span=3600").json()
    assert len(found["at"]) == 61
    assert [second - first for first, second in zip(found["at"], found["at"][1:], strict=False)] == [60] * 60
    assert (sum(found["undecided"]), sum(found["failed"]), sum(found["delivered"])) == (1, 1, 0)
    assert (found["backlog"][0], found["backlog"][-1]) == (0, 0)
    dead_letter()
    assert operator_browser.get("/outcomes.json?span=3600").json()["backlog"][-1] == 1


def test_the_parts_of_the_overview_are_refreshed_alone(operator_browser: Client) -> None:
    for part, mark in (("now", "tile-NDLV"), ("decisions", "Recent decisions")):
        text = html_of(operator_browser.get(f"/?part={part}", headers=HTMX))
        assert mark in text
        assert "<html" not in text


def test_titles_say_object_and_count(operator_browser: Client) -> None:
    message = dead_letter("orders.eu")
    group = re.search(r"/groups/(\d+)/", html_of(operator_browser.get("/triage/?group_by=failure")))
    assert group is not None
    for path, title in (
        ("/", "Home: 1 undecided"),
        ("/triage/?state=NDLV", "Triage, Messages"),
        (f"/messages/{message.id}/", f"Message #{message.id}: Needs decision (NDLV)"),
        (f"/groups/{group[1]}/", f"Failure group {group[1]}: 1 undecided"),
        ("/addresses/one/?name=orders.eu", "Address orders.eu: 1 undecided"),
    ):
        assert f"<title>{title} · PoisonAdmin</title>" in html_of(operator_browser.get(path))
