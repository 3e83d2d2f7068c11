"""A rule with a search reports undecided messages that match, by their headers, payloads and all else."""

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import resolve

from poisonadmin.alerts.commands.record import record_alerts
from poisonadmin.alerts.commands.rules import save_alert_rule
from poisonadmin.alerts.domain.rules import AlertRuleFields, InvalidAlertRule
from poisonadmin.alerts.queries import searched
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Permission
from poisonadmin.store.models.alert import Alert, AlertRule
from tests.alerts.conftest import MakeRule, age
from tests.fixtures.api import Caller
from tests.fixtures.decisions import mark_fail, quarantine
from tests.fixtures.pages import html_of
from tests.searches.plain import put

pytestmark = pytest.mark.django_db(transaction=True)
OLD = timedelta(minutes=5)


def undecided(*payloads: bytes, address: str = "orders.eu", headers: Sequence[dict[str, str]] = ()) -> list[int]:
    """Store messages that have waited for five minutes, the first one longest; return their ids."""
    found = []
    for at, payload in enumerate(payloads):
        age("message", "state_at", timedelta(seconds=1))
        found += put(payload, address=address, headers=headers[at : at + 1])
        quarantine(found[-1:], principal=SYSTEM, reason="no")
    age("message", "state_at", OLD)
    return found


def reported() -> list[str]:
    """Return of which messages alerts are open, after a check."""
    record_alerts()
    return [one.facts["message_id"] for one in Alert.objects.filter(resolved_at=None).order_by("id")]


@pytest.fixture
def rule(make_rule: MakeRule) -> Callable[..., AlertRule]:
    def make(search: str, **fields: object) -> AlertRule:
        limits = {"oldest_undecided": 1}
        return make_rule(search, kinds=["oldest_undecided"], limits=limits, search=search, **fields)

    return make


@pytest.mark.parametrize(
    "search",
    [
        'header.client-version:"4.2.0"',
        "payload.$.order.total:>=1000",
        'payload.$.order.currency:"EUR" header.client-version:"4.2.0"',
        "!payload.$.customer:*",
        "payload:1500",
        "!payload:customer",
        "header.client-version:4.2.0 address:orders.#",
    ],
)
def test_the_message_that_matches_is_reported_until_it_is_decided(search: str, rule: Callable[..., AlertRule]) -> None:
    rule(search)
    good = {"order": {"total": 7, "currency": "USD"}, "customer": {"id": 1}}
    bad = {"order": {"total": 1500, "currency": "EUR"}}
    versions = [{"client-version": one} for one in ("4.1.0", "4.2.0", "4.1.0")]
    first, wanted, _ = undecided(*(json.dumps(one).encode() for one in (good, bad, good)), headers=versions)
    assert reported() == [str(wanted)]
    alert = Alert.objects.get()
    assert alert.title == "A message on orders.eu that the rule searches for has waited 5 min for a decision"
    assert resolve(alert.path)
    mark_fail([first], principal=SYSTEM, reason="r")
    assert reported() == [str(wanted)]
    mark_fail([wanted], principal=SYSTEM, reason="r")
    assert reported() == []


def test_only_its_addresses_and_what_has_waited_long_enough_is_reported(rule: Callable[..., AlertRule]) -> None:
    rule("payload:77", addresses=["orders.#"])
    undecided(b"77", address="invoices.eu")
    (young,) = put(b"77")
    quarantine([young], principal=SYSTEM, reason="no")
    assert reported() == []
    age("message", "state_at", OLD)
    assert reported() == [str(young)]


def test_hostile_and_huge_payloads_are_not_looked_into(rule: Callable[..., AlertRule]) -> None:
    rule("payload.$.a:7")
    rule("!payload.$.a:7")
    deep, broken = b'{"a":' * 50_000, b'{"a": 7'
    huge = b'{"a": 7, "b": "' + b"x" * searched.MAX_PAYLOAD_BYTES + b'"}'
    ids = undecided(huge, deep, broken, b'{"a": 7}', b"\xff\xfe\0")
    assert sorted(reported()) == sorted([str(ids[3]), str(ids[1])])


def test_of_many_those_that_came_last_are_looked_at(
    rule: Callable[..., AlertRule], monkeypatch: pytest.MonkeyPatch
) -> None:
    rule("payload:old payload:x")
    rule("payload:new payload:x")
    ids = undecided(b"old x", b"new x", b"y", b"y")
    monkeypatch.setattr(searched, "LOOKED_AT", 3)
    monkeypatch.setattr(searched, "_PAYLOADS_AT_ONCE", 1)
    assert reported() == [str(ids[1])]


def test_a_check_that_takes_too_long_is_left_out_and_the_others_are_made(
    rule: Callable[..., AlertRule], make_rule: MakeRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule("payload:x")
    make_rule("plain", kinds=["oldest_undecided"], limits={"oldest_undecided": 1})
    undecided(b"x")
    monkeypatch.setattr(searched, "SECONDS", -1.0)
    monkeypatch.setattr(searched, "bounded", lambda _: nullcontext())
    record_alerts()
    assert [one.rule.name for one in Alert.objects.all()] == ["plain"]


def test_mistakes_are_named(make_rule: MakeRule) -> None:
    for search, kinds, word in (
        ("nope:7", ["oldest_undecided"], "there is no field 'nope'"),
        ("payload.$[:7", ["oldest_undecided"], "payload"),
        ("x" * 1001, ["oldest_undecided"], "1000 characters"),
        ("payload:7", ["oldest_undecided", "new_group"], "not new_group"),
    ):
        with pytest.raises(InvalidAlertRule) as caught:
            make_rule("r", kinds=kinds, search=search)
        assert caught.value.field == "search"
        assert word in caught.value.reason
    assert make_rule("r", search="  ").search == ""


def test_who_may_not_read_payloads_saves_no_search_in_them() -> None:
    without = replace(SYSTEM, permissions=SYSTEM.permissions - {Permission.READ_PAYLOAD})
    to = ["https://hooks.example.org/in"]
    fields = AlertRuleFields(name="r", kinds=["oldest_undecided"], channel="webhook", to=to)
    with pytest.raises(NotAllowed):
        save_alert_rule(replace(fields, search="payload:7"), principal=without)
    assert save_alert_rule(replace(fields, search="header.a:7"), principal=without)[0].search == "header.a:7"


def test_a_link_prepares_the_form(browser_of: Callable[[str], Client]) -> None:
    page = (
        browser_of("admin")
        .get("/alerts/rules/new/", {"search": 'header.x:"<b>"', "address": ["orders.#"]})
        .content.decode()
    )
    assert 'value="header.x:&quot;&lt;b&gt;&quot;"' in page
    assert ">\norders.#</textarea>" in page
    form = dict.fromkeys(("on_oldest_undecided", "on_new_group"))
    for name in form:
        box = page.partition(f'name="{name}"')[2].partition(">")[0]
        form[name] = "checked" in box
    assert form == {"on_oldest_undecided": True, "on_new_group": False}


def test_the_list_of_rules_says_what_they_search_for(
    rule: Callable[..., AlertRule], browser_of: Callable[[str], Client]
) -> None:
    saved = rule("payload.$.a:7 <b>")
    browser = browser_of("admin")
    assert "<code>payload.$.a:7 &lt;b&gt;</code>" in html_of(browser.get("/alerts/"))
    assert 'value="payload.$.a:7 &lt;b&gt;"' in html_of(browser.get(f"/alerts/rules/{saved.id}/"))


def test_the_api_has_the_same(admin: Caller) -> None:
    body = {
        "name": "n",
        "kinds": ["oldest_undecided"],
        "channel": "webhook",
        "to": ["https://hooks.example.org/in"],
        "search": "payload.$.a:>7",
    }
    created = admin.post("alerts/rules/", body)
    assert (created.status_code, created.json()["search"]) == (201, "payload.$.a:>7")
    refused = admin.post("alerts/rules/", body | {"name": "o", "search": "nope:7"})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_alert_rule")
