"""A secret that no key decrypts is in nobody's way: what does not use it goes on, and what uses it says so."""

from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from poisonadmin.alerts.channels.contract import PostAnswer
from poisonadmin.alerts.commands.record import record_alerts
from poisonadmin.alerts.commands.send import send_due
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.embedded.environment import exported, read_wishes
from poisonadmin.policies import queries
from poisonadmin.reports.commands.saved import run_saved_due, save_report
from poisonadmin.reports.domain.asked import asked_report
from poisonadmin.store.models.alert import AlertDelivery, AlertRule
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.report import SavedReport
from tests.fixtures.api import Caller

KEYS = "POISONADMIN_ENCRYPTION_KEYS"
OLD, NEW = "o" * 32, "n" * 40
HTTP = {"kind": "http", "config": {"url": "https://hooks.example.org/in"}}
MESSAGE = {"address": "orders.eu", "payload": "x"}


@pytest.fixture
def unreadable(transactional_db: None, admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a destination with a policy, whose secret no key decrypts."""
    monkeypatch.setenv(KEYS, OLD)
    assert admin.post("destinations/", {"name": "shop", **HTTP, "secrets": {"X-Key": "v"}}).status_code == 201
    policy = {"match": "shop.#", "settings": {}, "destination": "shop"}
    assert admin.post("policies/", policy).status_code == 201
    monkeypatch.setenv(KEYS, NEW)
    queries._compiled.cache_clear()


def test_a_destination_s_stops_neither_intake_nor_pages_nor_its_end(unreadable: None, admin: Caller) -> None:
    assert admin.post("messages/", MESSAGE).status_code == 201
    for path in ("addresses/", "destinations/", "policies/"):
        assert admin.get(path).status_code == 200
    assert admin.post("destinations/shop/disable/", {"reason": "x"}).status_code == 200
    document = {"destinations": [{"name": "shop", "kind": "http", "config": {"url": "https://hooks.example.org/out"}}]}
    refused = admin.post("configuration/", {"configuration": document}).json()
    assert (refused["code"], "No key in" in refused["detail"]) == ("configuration_refused", True)


def test_a_secret_that_is_typed_like_a_stored_one_is_a_secret_like_any_other(
    transactional_db: None, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert admin.post("destinations/", {"name": "mine", **HTTP}).status_code == 201
    for keys in ("", OLD):
        monkeypatch.setenv(KEYS, keys)
        for typed in ("encrypted:x", "plain:x", "plain:encrypted:x"):
            saved = admin.ask("PUT", "destinations/mine/", {**HTTP, "secrets": {"X-Key": typed}})
            assert saved.status_code == 200
            assert Destination.objects.get().secrets == {"X-Key": typed}


def test_an_alert_rule_s_stops_no_other_rule(
    transactional_db: None, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = {"kinds": ["new_group"], "to": ["https://hooks.slack.com/services/T/B/p"], "channel": "slack"}
    monkeypatch.setenv(KEYS, NEW)
    good = admin.post("alerts/rules/", {"name": "good", **rule}).json()["id"]
    monkeypatch.setenv(KEYS, OLD)
    bad = admin.post("alerts/rules/", {"name": "bad", **rule}).json()["id"]
    monkeypatch.setenv(KEYS, NEW)
    record_alerts()
    for rule_id in (bad, good):
        AlertDelivery.objects.create(rule_id=rule_id, is_test=True, webhook_id=str(rule_id))
    sent: list[Any] = []
    send_due(lambda *request: sent.append(request) or PostAnswer(204, ""))  # type: ignore[func-returns-value]
    assert len(sent) == 1
    states = {str(one.rule_id): one for one in AlertDelivery.objects.all()}
    assert (states[good].state, states[bad].state) == ("sent", "failed")
    assert "No key in" in str(states[bad].log)
    assert admin.ask("DELETE", f"alerts/rules/{bad}/").status_code == 204
    assert list(AlertRule.objects.values_list("name", flat=True)) == ["good"]


def test_a_saved_report_s_does_not_keep_others_from_their_turn(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asked_report("failures", format="csv", time_zone="Europe/Berlin")
    how: dict[str, Any] = {"schedule": "0 7 * * 1", "principal": SYSTEM}
    monkeypatch.setenv(KEYS, OLD)
    save_report("bad", asked, channel="webhook", to=["https://hooks.example.org/in"], **how)
    monkeypatch.setenv(KEYS, NEW)
    save_report("good", asked, days=7, **how)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE saved_report SET next_at = now() - interval '1 h' * (1 + (name = 'bad')::int)")
    run_saved_due()
    assert not SavedReport.objects.filter(next_at__lt="2026-11-28T00:00Z").exists()


def test_without_keys_nothing_is_forgotten(unreadable: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS, "")
    with pytest.raises(CommandError, match="name that file first"):
        call_command("encrypt_secrets", "--forget")
    monkeypatch.setenv(KEYS, OLD)
    assert Destination.objects.get().secrets == {"X-Key": "v"}


def test_make_up_keeps_the_keys_that_have_encrypted_something(tmp_path: Any) -> None:
    how: dict[str, Any] = {"database_url": "d", "redis_url": "r", "java_home": tmp_path}
    exported({}, read_wishes({}, tmp_path), **how)
    file = tmp_path / "secrets" / "poisonadmin-encryption-keys"
    made = file.read_text().strip()
    for _ in range(2):
        exported({}, read_wishes({KEYS: NEW}, tmp_path), **how)
        assert file.read_text().split() == [NEW, made]
    exported({}, read_wishes({}, tmp_path), **how)
    assert file.read_text().split() == [NEW, made]


def test_a_password_that_is_typed_on_the_way_of_connect_is_encrypted_in_its_session(
    browser_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYS, NEW)
    browser: Client = browser_of("admin")
    login = {"username": "drain", "password": "planted-canary"}
    browser.post("/connect/", {"kind": "rabbitmq", "url": "amqp://broker.example.org", "name": "b", **login})
    kept = [one.get_decoded() for one in Session.objects.all()]
    assert any("connect_answers" in one for one in kept)
    assert "planted-canary" not in str(kept)
