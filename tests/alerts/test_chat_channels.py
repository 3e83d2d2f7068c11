"""Slack, Teams and PagerDuty get alerts in their own formats, and where they are sent is shown to nobody."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from poisonadmin.alerts.channels.pagerduty import EVENTS_URL
from poisonadmin.alerts.channels.posts import CHAT_ALERTS
from poisonadmin.alerts.commands.record import record_alerts
from poisonadmin.alerts.commands.rules import save_alert_rule, send_test
from poisonadmin.alerts.commands.send import send_due
from poisonadmin.alerts.domain.rules import AlertRuleFields, InvalidAlertRule
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.reports.commands.saved import save_report
from poisonadmin.reports.domain.asked import asked_report
from poisonadmin.reports.domain.columns import InvalidReport
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.alert import AlertDelivery, AlertRule
from tests.alerts.conftest import MakeRule, make_due, tick
from tests.alerts.receivers import Receiver
from tests.fixtures import decisions
from tests.fixtures.api import Caller, take_dead
from workers.tasks import post

pytestmark = pytest.mark.django_db(transaction=True)
KEY = "0123456789abcdefABCDEF0123456789"
HOSTILE = "<!channel> [pay](https://evil.example) *now* & <https://evil.example|here>"
SCHEMAS = Path(__file__).parent / "schemas"


@pytest.fixture(autouse=True)
def public_url(settings: Settings) -> None:
    """Say where the dashboard is."""
    settings.PUBLIC_URL = "https://poison.example.org"


def to_of(channel: str, receiver: Receiver) -> list[str]:
    """Return where a rule of a channel sends, so that it reaches the receiver."""
    return [KEY, receiver.url] if channel == "pagerduty" else [receiver.url]


def valid(channel: str, body: bytes) -> Any:
    """Return the JSON that was received; fail where its receiver would refuse it."""
    name = "pagerduty-event" if channel == "pagerduty" else f"{channel}-message"
    document = json.loads(body)
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    jsonschema_rs.validator_for(schema, validate_formats=True).validate(document)
    return document


def take_some(count: int, title: str = HOSTILE) -> None:
    """Let so many groups fail."""
    for number in range(count):
        take_dead("orders.eu", exception_class=f"Error{number}", exception_message=title)


@pytest.mark.parametrize("channel", ["slack", "teams", "pagerduty"])
@pytest.mark.parametrize("count", [1, CHAT_ALERTS + 3, 53])
def test_what_is_sent_is_what_the_receiver_s_schema_says(
    make_rule: MakeRule, receiver: Receiver, channel: str, count: int
) -> None:
    make_rule(channel=channel, to=to_of(channel, receiver), kinds=["new_group"])
    take_some(count)
    assert tick() == (count, 1)
    documents = [valid(channel, one.body) for one in receiver.requests]
    assert len(documents) == (min(count, 50) if channel == "pagerduty" else 1)
    text = json.dumps(documents)
    assert "https://poison.example.org/groups/" in text
    more = count - 50 if channel == "pagerduty" else count - CHAT_ALERTS
    if more > 0:
        assert (f'"alerts_not_listed": {more}' if channel == "pagerduty" else f"And {more} more.") in text
    assert AlertDelivery.objects.get().state == "sent"


def test_nothing_of_a_stranger_is_a_link_or_calls_anybody(make_rule: MakeRule, receiver: Receiver) -> None:
    for channel in ("slack", "teams"):
        make_rule(channel, channel=channel, to=[receiver.url], kinds=["new_group"])
    take_some(1)
    assert tick() == (2, 2)
    documents = {json.loads(one.body).get("type", "slack"): json.loads(one.body) for one in receiver.requests}
    slack = documents["slack"]
    for text in (slack["text"], *(block["text"]["text"] for block in slack["blocks"])):
        assert set(re.findall(r"<[^>]*>", text)) <= set(re.findall(r"<https://poison[^>]*>", text))
    assert "&lt;!channel&gt;" in json.dumps(slack)
    runs = documents["message"]["attachments"][0]["content"]["body"]
    assert {inline["type"] for block in runs for inline in block["inlines"]} == {"TextRun"}, "no Markdown is read there"
    assert json.dumps(runs).count("selectAction") == 1


def test_an_incident_is_triggered_and_resolved_with_the_same_key(make_rule: MakeRule, receiver: Receiver) -> None:
    make_rule(channel="pagerduty", to=to_of("pagerduty", receiver), kinds=["new_group"])
    ids = [take_dead(), take_dead("parked", exception_class="Other")]
    receiver.statuses, receiver.answer = [202, 429, 202, 202], b'{"status": "success"}'
    assert tick() == (2, 1)
    assert AlertDelivery.objects.get().state == "waiting", "one of two was refused for now"
    make_due()
    tick()
    assert AlertDelivery.objects.get().state == "sent"
    decisions.mark_fail(ids, principal=SYSTEM, reason="r")
    record_alerts()
    make_due()
    send_due(post)
    events = [valid("pagerduty", one.body) for one in receiver.requests]
    keys = {
        action: {one["dedup_key"] for one in events if one["event_action"] == action}
        for action in ("trigger", "resolve")
    }
    assert keys["trigger"] == keys["resolve"]
    assert len(keys["resolve"]) == 2
    assert {one["routing_key"] for one in events} == {KEY}
    assert {one["payload"]["severity"] for one in events if "payload" in one} == {"error"}


def test_an_event_that_is_refused_for_good_is_not_tried_again(make_rule: MakeRule, receiver: Receiver) -> None:
    make_rule(channel="pagerduty", to=to_of("pagerduty", receiver), kinds=["new_group"])
    take_some(12)
    receiver.statuses, receiver.answer = [400] * 12, b'{"errors": ["Invalid routing key"]}'
    tick()
    delivery = AlertDelivery.objects.get()
    assert delivery.state == "failed"
    assert "Invalid routing key" in delivery.log[0]["text"]
    assert KEY not in str(delivery.log)
    assert len(receiver.requests) <= 10, "the first answers end it"


def test_a_test_alert_leaves_no_incident_open(make_rule: MakeRule, receiver: Receiver) -> None:
    rule = make_rule(channel="pagerduty", to=to_of("pagerduty", receiver), kinds=["new_group"])
    send_test(rule.id, principal=SYSTEM)
    send_due(post)
    events = [valid("pagerduty", one.body) for one in receiver.requests]
    assert [one["event_action"] for one in events] == ["trigger", "resolve"]
    assert len({one["dedup_key"] for one in events}) == 1


@pytest.mark.parametrize("channel", ["slack", "teams", "pagerduty"])
def test_where_it_is_sent_is_shown_to_nobody_and_kept_when_the_rule_is_saved(
    channel: str, admin: Caller, receiver: Receiver
) -> None:
    to = to_of(channel, receiver)
    secret = KEY if channel == "pagerduty" else "hooks?from=poisonadmin"
    created = admin.post("alerts/rules/", {"name": "n", "kinds": ["new_group"], "channel": channel, "to": to}).json()
    assert created["secret"] is None
    path = f"alerts/rules/{created['id']}/"
    changed = admin.ask("PUT", path, {"kinds": ["new_group"], "to": created["to"], "repeat_minutes": 5})
    assert changed.status_code == 200
    assert changed.json()["to"] == created["to"]
    send_test(created["id"], principal=SYSTEM)
    send_due(post)
    assert AlertDelivery.objects.get().state == "sent"
    shown = [admin.get(one).content.decode() for one in ("alerts/rules/", path, "audit/", "alerts/")]
    browser = Client()
    browser.force_login(User.objects.get(username="admin"))
    shown += [browser.get(one).content.decode() for one in ("/alerts/", f"/{path}")]
    delivery = AlertDelivery.objects.get()
    shown += [str(delivery.body), str(delivery.log), str([one.details for one in Audit.objects.all()])]
    for text in shown:
        assert secret not in text
    other = ["f" * 32] if channel == "pagerduty" else [receiver.url + "2"]
    again = admin.ask("PUT", path, {"kinds": ["new_group"], "to": other}).json()
    assert again["to"] != created["to"], "two are told apart"
    assert AlertRule.objects.get().secrets == other


def test_a_place_that_is_shown_is_none_to_send_to(make_rule: MakeRule, receiver: Receiver) -> None:
    shown = make_rule(channel="slack", to=[receiver.url]).to
    for name, channel in (("another", "slack"), ("night watch", "teams")):
        with pytest.raises(InvalidAlertRule):
            save_alert_rule(
                AlertRuleFields(name=name, kinds=["new_group"], channel=channel, to=shown), principal=SYSTEM
            )


@pytest.mark.parametrize(
    ("channel", "to"),
    [
        ("slack", ["http://169.254.169.254/services/T0/B0/x"]),
        ("slack", ["https://a.example/", "https://b.example/"]),
        ("teams", ["http://10.0.0.1/workflows/x"]),
        ("pagerduty", ["short"]),
        ("pagerduty", [KEY, "http://169.254.169.254/v2/enqueue"]),
        ("pagerduty", [KEY, EVENTS_URL, EVENTS_URL]),
    ],
)
def test_what_deliveries_may_not_reach_alerts_may_not_either(make_rule: MakeRule, channel: str, to: list[str]) -> None:
    with pytest.raises(InvalidAlertRule) as raised:
        make_rule(channel=channel, to=to)
    assert raised.value.field == "to"
    assert KEY not in str(raised.value.detail)


def test_a_report_is_told_by_no_channel_with_a_secret(db: None) -> None:
    to = ["https://hooks.example.org/"]
    with pytest.raises(InvalidReport) as raised:
        save_report("weekly", asked_report("failures"), schedule="0 7 * * 1", channel="slack", to=to, principal=SYSTEM)
    assert raised.value.field == "channel"
