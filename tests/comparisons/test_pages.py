"""Comparisons on pages and in the API: asked for where messages are listed, and shown with what to do next."""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import unquote_plus

from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from poisonadmin.comparisons.domain.association import Association
from poisonadmin.comparisons.domain.comparison import Compared, ComparisonAnswer
from poisonadmin.comparisons.domain.conditions import FieldCondition, Operator
from poisonadmin.comparisons.domain.findings import Finding
from poisonadmin.store.models.message import Envelope
from poisonadmin.store.models.operation import Operation, OperationResult
from poisonadmin.store.models.run import LongRun
from tests.comparisons.incident import compare_due
from tests.fixtures.api import Caller
from tests.fixtures.pages import dead_letter, html_of, waiting

Browser = Callable[[str], Client]
FINDINGS = [
    Finding(
        (FieldCondition("header.client-version", Operator.IS, "<b>4.2</b>"),),
        Association(9, 10, 5, 100),
        0.0,
        (FieldCondition("payload.$.build", Operator.IS, "77"),),
    ),
    Finding((FieldCondition("payload.$.order.total", Operator.AT_LEAST, 1000.0),), Association(6, 10, 0, 100), 0.004),
]


def found(*findings: Finding, others: int = 1) -> Callable[[Compared, Any], ComparisonAnswer]:
    return lambda asked, _: ComparisonAnswer(len(asked.failing), others, 7, 70, findings)


def delivered() -> None:
    message = waiting()
    type(message).objects.filter(id=message.id).update(state="DLVD", attempt_number=1)
    # However long the test takes, it came in beside what failed.
    Envelope.objects.filter(id=message.id).update(received_at=Now() - timedelta(minutes=1))


def ask(browser: Client, **fields: Any) -> LongRun:
    answer = browser.post("/comparisons/", fields)
    assert answer.status_code == 302, html_of(answer)
    row = LongRun.objects.latest("id")
    assert answer["Location"] == f"/comparisons/{row.id}/"
    return row


def test_a_list_is_compared_and_the_page_says_what_its_messages_have_in_common(browser_of: Browser) -> None:
    browser = browser_of("admin")
    delivered()
    dead_letter()
    dead_letter("orders.us")
    assert "What do these have in common?" in html_of(browser.get("/triage/?state=NDLV"))
    row = ask(browser, query="?state=NDLV")
    page = html_of(browser.get(f"/comparisons/{row.id}/"))
    assert "Waiting for a worker" in page
    assert 'hx-trigger="every 1s"' in page
    compare_due(found(*FINDINGS))
    page = html_of(browser.get(f"/comparisons/{row.id}/"))
    assert "90 % of these have" in page
    assert "&lt;b&gt;4.2&lt;/b&gt;" in page
    assert "<b>4.2" not in page
    assert "payload.$.build = 77" in page
    assert "state=NDLV&amp;header.client-version=%3Cb%3E4.2%3C%2Fb%3E" in page
    assert page.count("/rules/new/before/?match=") == 2
    places = re.findall(r"/rules/new/before/\?match=([^\"]+)", page)
    assert all(json.loads(unquote_plus(one))["address"] == "orders.#" for one in places), "not everywhere"
    assert page.count("Show all such messages") == 2
    assert page.count("/alerts/rules/new/?search=") == 2
    assert "search=header.client-version%3A%22%3Cb%3E4.2%3C%2Fb%3E%22" in page
    form = html_of(browser.get("/alerts/rules/new/", {"search": "payload.$.order.total:>=1000"}))
    assert 'value="payload.$.order.total:&gt;=1000"' in form
    for_operator = html_of(browser_of("operator").get(f"/comparisons/{row.id}/"))
    assert "/rules/" not in for_operator.partition("<main")[2].partition("</main")[0]


def test_the_live_part_ends_when_the_comparison_does(browser_of: Browser) -> None:
    browser = browser_of("operator")
    delivered()
    row = ask(browser, id=[dead_letter().id])
    live = browser.get(f"/comparisons/{row.id}/", headers={"HX-Request": "true"})
    assert "<html" not in html_of(live)
    assert browser.post(f"/comparisons/{row.id}/cancel/").status_code == 302
    assert browser.post(f"/comparisons/{row.id}/cancel/").status_code == 302
    live = browser.get(f"/comparisons/{row.id}/", headers={"HX-Request": "true"})
    assert live["HX-Refresh"] == "true"
    assert "Cancelled" in html_of(browser.get(f"/comparisons/{row.id}/"))


def test_the_page_says_so_when_there_is_nothing(browser_of: Browser) -> None:
    browser = browser_of("operator")
    message = dead_letter()
    row = ask(browser, query=f"group={message.group_id}")
    compare_due(found())
    assert "Nothing to compare with" in html_of(browser.get(f"/comparisons/{row.id}/"))
    delivered()
    row = ask(browser, id=[message.id])
    compare_due(found())
    assert "Nothing in common" in html_of(browser.get(f"/comparisons/{row.id}/"))


def test_a_group_a_selection_and_an_operation_offer_it(browser_of: Browser) -> None:
    browser = browser_of("operator")
    message = dead_letter()
    assert f'value="group={message.group_id}"' in html_of(browser.get(f"/groups/{message.group_id}/"))
    answer = browser.post(reverse("operations-select"), {"query": "?state=NDLV"})
    page = html_of(browser.get(answer["Location"]))
    assert "What do these have in common?" in page
    assert ask(browser, selection=answer["Location"].strip("/").split("/")[-1]).params["selection_id"]
    decided = browser.post(answer["Location"] + "?action=fail", {"reason": "test", "begin": "1"})
    operation = Operation.objects.get()
    assert decided["Location"] == f"/operations/{operation.id}/"
    assert "have in common" not in html_of(browser.get(f"/operations/{operation.id}/"))
    OperationResult.objects.filter(operation_id=operation.id).delete()
    OperationResult.objects.create(operation_id=operation.id, message_id=message.id, outcome="failed_same")
    Operation.objects.update(changed=0)
    assert "What do its failures have in common?" in html_of(browser.get(f"/operations/{operation.id}/"))
    row = ask(browser, operation=operation.id)
    compare_due(found())
    row.refresh_from_db()
    assert (row.result["failing_count"], browser.post("/comparisons/", {"selection": "x"}).status_code) == (1, 404)


def test_a_rule_is_prepared_from_a_finding(browser_of: Browser) -> None:
    browser = browser_of("admin")
    match = json.dumps({"headers": [{"name": "x-a", "like": "4.2"}], "size": {"max": 9}})
    page = html_of(browser.get("/rules/new/before/", {"match": match}))
    assert "x-a like 4.2" in page
    assert "..9" in page
    for wrong in ("[]", "{", '{"state": "NDLV"}', '{"headers": 5}'):
        assert browser.get("/rules/new/before/", {"match": wrong}).status_code in (400, 422)


def test_the_api_gives_the_findings(admin: Caller, operator: Caller, outsider: Caller) -> None:
    dead_letter()
    delivered()
    body = {"selection": {"filter": {"state": "NDLV"}}, "against": {"filter": {"state": "DLVD"}}}
    made = operator.post("/api/v1/comparisons/", body)
    assert made.status_code == 202
    where = made["Location"].partition("testserver")[2]
    assert (made.json()["state"], operator.get(where).json()["result"]) == ("queued", None)
    compare_due(found(*FINDINGS))
    shown = operator.get(where).json()
    result = shown["result"]
    assert (shown["state"], result["failing"], result["others"], result["failing_count"]) == ("succeeded", 1, 1, 1)
    assert result["findings"][1] == {
        "conditions": [{"field": "payload.$.order.total", "operator": ">=", "value": 1000.0}],
        "also": [],
        "share": 0.6,
        "share_of_others": 0.0,
        "lift": 120.0,
        "p_value": 0.004,
        "text": "60 % of these have `payload.$.order.total >= 1000`, of the others none.",
    }
    assert outsider.get(where).status_code == 404
    again = operator.post("/api/v1/comparisons/", {"selection": shown["selection_id"]})
    assert again.status_code == 202
    cancelled = operator.post(f"/api/v1/comparisons/{again.json()['id']}/cancel/")
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    assert operator.post(f"/api/v1/comparisons/{again.json()['id']}/cancel/").status_code == 409
    assert outsider.post("/api/v1/comparisons/", {"selection": shown["selection_id"]}).status_code == 404
    for wrong in ({}, {"selection": 5}, {"selection": {"filter": {"nope": "1"}}}, {"selection": {"ids": ["1"]}}):
        assert admin.post("/api/v1/comparisons/", wrong).status_code in (400, 422)
