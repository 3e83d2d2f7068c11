"""A canary in every field of a message: who may not read it finds it nowhere, and who may finds it where it is."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse

from poisonadmin.comparisons.commands.requests import request_comparison
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.access import Access
from tests.fixtures.api import Caller, caller_of, make_one_of_each
from tests.fixtures.pages import log_in, page_routes
from tests.masking.planted import ADDRESS, CANARY, mask, plant
from tests.web.test_api_access import EXPECTED
from tests.web.test_page_access import SLUGS, make_everything

pytestmark = pytest.mark.django_db

# Where lists, groups, facets and searches quote a message.
QUERIES = (
    "/triage/?address=planted.%23",
    "/triage/?address=planted.%23&group_by=failure",
    "/triage/?address=planted.%23&group_by=failures",
    "/triage/?address=planted.%23&state=NDLV&reason=blacklisted&group_by=crashes",
    "/triage/?address=planted.%23&group_by=key.customer",
    "/triage/?address=planted.%23&group_by=header.X-Customer",
    "/triage/facets/?address=planted.%23",
    "/triage/messages.csv?address=planted.%23",
    "/palette/?q=customer",
    "/poison-list/?source=planted.one",
    "/addresses/one/?name=planted.one",
)
PLANTED_AS = {
    "group_id": "group",
    "entry_id": "entry",
    "rejected_id": "rejected",
    "selection_id": "selection",
    "operation_id": "operation",
}
FEED = f"/api/v1/poison-list/events/?source={ADDRESS}"


def body_of(answer: Any) -> bytes:
    """Return all of an answer."""
    return b"".join(answer.streaming_content) if answer.streaming else answer.content


def found_in(ask: Callable[[str], Any], paths: Iterator[str]) -> set[str]:
    """Return the paths whose answers hold the canary."""
    found = set()
    for path in paths:
        with transaction.atomic():
            answer = ask(path)
            if CANARY.encode() in body_of(answer):
                found.add(path)
            transaction.set_rollback(True)
    return found


def page_paths(ids: dict[str, int], planted: dict[str, int]) -> Iterator[str]:
    """Yield the path of every page, with the planted objects wherever one is named."""
    named = ids | {key: planted[one] for key, one in PLANTED_AS.items()}
    for route in page_routes():
        names = route.pattern.converters
        values = {name: named.get(name, SLUGS.get(name)) for name in names}
        for message in (planted[one] for one in ("message", "edited", "killer")):
            number = {"number": 2} if "number" in names else {}
            given = values | ({"message_id": message} if "message_id" in names else {}) | number
            yield reverse(route.name, kwargs=given)
            if "message_id" not in names:
                break
    for view in ("raw", "hex", "tree"):
        yield f"/messages/{planted['message']}/?view={view}"
    yield from QUERIES


def api_paths(ids: dict[str, Any], planted: dict[str, int]) -> Iterator[str]:
    """Yield the path of every GET of the API, with the planted objects wherever one is named."""
    for (name, method), (arguments, *_) in EXPECTED.items():
        if method != "get":
            continue
        values = {key: ids.get(value, value) for key, value in arguments.items()}
        values |= {key: planted[one] for key, one in PLANTED_AS.items() if key in values}
        messages = [planted[one] for one in ("message", "edited", "killer")] if "message_id" in values else [None]
        for message in messages:
            yield reverse(name, kwargs=values | ({} if message is None else {"message_id": message}))
    for query in ("messages/", "failures/", "groups/", "messages/facets/"):
        yield f"/api/v1/{query}"
    yield f"/api/v1/messages/?key.customer={CANARY}"
    yield FEED


@pytest.fixture
def pages(page_settings: None) -> tuple[dict[str, int], dict[str, int]]:
    """Return ids of one of everything, and those of what holds the canary."""
    return make_everything(), plant()


# Who may not see it reads no payload either, or reads those that are not masked.
ROLES = ["viewer", "operator"]


def test_no_page_shows_what_is_masked(pages: tuple[dict[str, int], dict[str, int]]) -> None:
    mask("planted.#", "admin")
    ids, planted = pages
    clear = found_in(log_in("admin").get, page_paths(ids, planted))
    shown = {"messages": "message", "groups": "group", "operations": "operation"}
    assert {f"/{part}/{planted[one]}/" for part, one in shown.items()} | {*QUERIES[:9]} <= clear
    for role in ROLES:
        assert found_in(log_in(role).get, page_paths(ids, planted)) == set(), role


def test_no_answer_of_the_api_shows_what_is_masked(db: None) -> None:
    ids, planted = make_one_of_each(), plant()
    mask("planted.#", "admin")
    clear = found_in(caller_of("admin").get, api_paths(ids, planted))
    assert len(clear) >= 12, clear
    assert {FEED, *(f"/api/v1/groups/{planted['group']}/{part}" for part in ("", "brief/"))} <= clear
    for role in ROLES:
        assert found_in(caller_of(role).get, api_paths(ids, planted)) == set(), role


# (rule) -> what of a message an operator reads in the clear all the same.
PARTS = {
    "json_path": ("$.customer", {"headers": True, "open_key": True, "body": False, "masked_key": False}),
    "header": ("x-customer", {"headers": False, "open_key": True, "body": True, "masked_key": True}),
    "key": ("customer", {"headers": True, "open_key": True, "body": True, "masked_key": False}),
    "regex": (CANARY, {"headers": False, "open_key": True, "body": False, "masked_key": False}),
}


@pytest.mark.parametrize("role", ["operator", "reviewer", "admin"])
@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_masked_for_each_role_but_those_allowed(part: str, role: str, db: None) -> None:
    planted = plant()
    mask("planted.#", "admin", **{part: PARTS[part][0]})
    caller = caller_of("operator")
    Access.objects.filter(user__username="operator").update(role=role)
    shown = caller.get(f"messages/{planted['message']}/").json()
    body = caller.get(f"messages/{planted['message']}/payload/").content.decode()
    clear = role == "admin"
    expected = dict.fromkeys(PARTS[part][1], True) if clear else PARTS[part][1]
    assert {
        "headers": shown["headers"]["X-Customer"] == CANARY,
        "open_key": shown["business_keys"]["shop"] == "plain",
        "body": f'"name":"{CANARY}"' in body,
        "masked_key": shown["business_keys"]["customer"] == CANARY,
    } == expected
    assert '"open":"plain"' in body
    failures = caller.get("failures/").content.decode()
    assert (CANARY in failures) is clear
    groups = caller.get("groups/").content.decode()
    assert (CANARY in groups) is clear


def test_equal_values_stay_equal_and_others_do_not(db: None, operator: Caller) -> None:
    planted = plant()
    mask("planted.#", header="X-Customer")
    mask("planted.#", key="customer")
    mask("planted.#", header="traceparent")
    shown = operator.get(f"messages/{planted['message']}/").json()
    assert shown["headers"]["X-Customer"] == shown["business_keys"]["customer"] != shown["headers"]["traceparent"]
    assert shown["headers"]["X-Customer"].startswith("[masked:")


def test_what_is_masked_is_not_searched(db: None, operator: Caller, admin: Caller) -> None:
    planted = plant()
    mask("planted.#", "admin")
    for query in (f"key.customer={CANARY}", f"header.X-Customer={CANARY}", f"error={CANARY}", f"q={CANARY}"):
        assert admin.get(f"messages/?{query}").json()["results"], query
        assert operator.get(f"messages/?{query}").json()["results"] == [], query
        assert operator.get(f"messages/?{query}").json()["not_searched"] == ["planted.#"], query
        assert "not_searched" not in admin.get(f"messages/?{query}").json()
    assert "not_searched" not in operator.get("messages/?state=NDLV").json()
    for path in (f"failures/?error={CANARY}", f"groups/?error={CANARY}"):
        assert operator.get(path).json()["not_searched"] == ["planted.#"], path
        assert "not_searched" not in admin.get(path).json()
    assert "not_searched" not in operator.get("failures/").json() | operator.get("groups/").json()
    for caller, left_out in ((operator, ["planted.#"]), (admin, None)):
        search = caller.post("searches/", {"q": f"payload:{CANARY}"}).json()
        messages = caller.get(f"searches/{search['id']}/messages/").json()
        assert search.get("not_searched") == messages.get("not_searched") == left_out
    # Not even what it does not hold.
    for query in ("q=!error:nothing", "q=!key.customer:nothing"):
        assert str(planted["message"]) in {one["id"] for one in admin.get(f"messages/?{query}").json()["results"]}
        assert operator.get(f"messages/?{query}&address=planted.%23").json()["results"] == [], query
    assert operator.get(f"messages/?address={ADDRESS}").json()["results"]


def test_payloads_are_not_changed_by_who_cannot_read_them(db: None, operator: Caller, admin: Caller) -> None:
    planted = plant()
    mask("planted.#", "admin", json_path="$.customer")
    change = {"reason": "r", "payload": "{}"}
    refused = operator.post(f"messages/{planted['message']}/patch/", change)
    assert (refused.status_code, refused.json()["code"]) == (403, "masked")
    selection = freeze(ids=[planted["message"]], principal=SYSTEM)
    patch = {"action": "patch", "params": {"headers": {"set": {"a": "b"}}}}
    assert operator.post(f"selections/{selection}/preview/", patch).json()["code"] == "masked"
    assert admin.post(f"messages/{planted['message']}/patch/", change).status_code == 200


def test_it_is_revealed_with_a_reason_which_is_audited(
    db: None, operator: Caller, viewer: Caller, admin: Caller
) -> None:
    planted = plant()
    mask("planted.#")
    path = f"messages/{planted['message']}/reveal/"
    assert viewer.post(path, {"reason": "r"}).status_code == 403
    assert operator.post(path, {}).status_code == 400
    found = operator.post(path, {"reason": "customer called"}).json()
    assert CANARY in found["body"]
    assert found["headers"]["X-Customer"] == CANARY
    assert CANARY in found["failures"][0]["error_message"]
    entry = next(one for one in admin.get("audit/").json()["results"] if one["action"] == "message.revealed")
    assert (entry["note"], entry["object_id"]) == ("customer called", str(planted["message"]))


def test_a_page_reveals_it_once(page_settings: None, db: None) -> None:
    planted = plant()
    mask("planted.#")
    browser: Client = log_in("operator")
    page = browser.get(f"/messages/{planted['message']}/").content.decode()
    assert "Reveal" in page
    assert CANARY not in page
    shown = browser.post(f"/messages/{planted['message']}/reveal/", {"reason": "customer called"}).content.decode()
    assert CANARY in shown
    assert browser.post(f"/messages/{planted['message']}/reveal/", {"reason": ""}).status_code == 302


def test_a_comparison_that_was_made_by_others_is_masked(db: None, operator: Caller, admin: Caller) -> None:
    from poisonadmin.store.models.run import LongRun

    planted = plant()
    mask("planted.#", "admin", json_path="$.customer")
    selection = freeze(ids=[planted["message"]], principal=SYSTEM)
    made = request_comparison(selection_id=selection, principal=SYSTEM)
    condition = {"field": "payload.$.customer.name", "operator": "=", "value": CANARY}
    finding = {"conditions": [condition], "also": [], "counts": [3, 3, 0, 9], "p_value": 0.001}
    figures = {"failing_count": 3, "others_count": 9, "failing": 3, "others": 9, "fields": 1, "tested": 1}
    LongRun.objects.filter(id=made).update(result={"against": None, "findings": [finding], **figures})
    assert CANARY in admin.get(f"comparisons/{made}/").content.decode()
    assert CANARY not in operator.get(f"comparisons/{made}/").content.decode()


REPORT = {
    "kind": "failures",
    "columns": ["id", "address", "failure_group", "error_message", "payload", "header.X-Customer", "key.customer"],
    "filter": {"address": ["planted.#"]},
}


def test_a_report_is_masked_as_its_requester_may_read(db: None, operator: Caller, admin: Caller) -> None:
    plant()
    mask("planted.#", "admin", json_path="$.customer")
    mask("planted.#", "admin", header="x-customer")
    body = {**REPORT, "format": "json"}
    clear, masked_rows = (one.post("reports/", body) for one in (admin, operator))
    assert CANARY in clear.content.decode()
    assert masked_rows.status_code == clear.status_code
    assert CANARY not in masked_rows.content.decode()
    assert masked_rows.content.decode().count("[masked:") >= 3


def test_titles_of_groups_in_alerts_are_masked(db: None) -> None:
    from poisonadmin.alerts.commands.record import record_alerts
    from poisonadmin.alerts.commands.rules import save_alert_rule
    from poisonadmin.alerts.domain.rules import AlertRuleFields
    from poisonadmin.store.models.alert import Alert

    mask("planted.#", "admin", "operator")
    to = ["https://hooks.example.org/in"]
    fields = AlertRuleFields(name="all", kinds=["new_group"], channel="webhook", to=to, addresses=["planted.#"])
    save_alert_rule(fields, principal=SYSTEM)
    plant()
    record_alerts()
    titles = list(Alert.objects.values_list("title", flat=True))
    assert titles
    assert not [title for title in titles if CANARY in title]
