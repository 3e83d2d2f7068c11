"""Secrets in the database are encrypted, by keys that can be replaced; what none decrypts is named, and never used."""

from io import StringIO
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from poisonadmin.core.domain.encryption import UnreadableSecret
from poisonadmin.core.domain.secret_settings import UnusableSecret
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.intake import Source
from poisonadmin.system.commands.encryption import unreadable
from tests.fixtures.api import Caller
from workers.brokers.contract import BrokerError
from workers.brokers.sources import read_source
from workers.delivery.claimed import read_destinations

KEYS = "POISONADMIN_ENCRYPTION_KEYS"
OLD, NEW = "o" * 32, "n" * 40
LOGIN = {"username": "drain", "password": "planted-canary"}
HTTP = {"kind": "http", "config": {"url": "https://hooks.example.org/in"}}
RABBITMQ = {"url": "amqp://broker.example.org", "queues": ["dlq"], "address": "orders.{queue}"}


@pytest.fixture
def stored(transactional_db: None, admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store secrets in four tables, encrypted with the old key."""
    monkeypatch.setenv(KEYS, OLD)
    made = {
        "destinations/": {"name": "shop", **HTTP, "secrets": {"X-Key": "planted-canary"}},
        "sources/": {"name": "orders", "kind": "rabbitmq", "config": RABBITMQ, "secrets": LOGIN},
        "alerts/rules/": {
            "name": "chat",
            "kinds": ["new_group"],
            "channel": "slack",
            "to": ["https://hooks.slack.com/services/T/B/planted-canary"],
        },
    }
    for path, body in made.items():
        answer = admin.post(path, body)
        assert answer.status_code == 201, answer.json()


def in_database() -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT array_agg(destination)::text FROM destination)"
            " || (SELECT array_agg(source)::text FROM source)"
            " || (SELECT array_agg(alert_rule)::text FROM alert_rule)"
        )
        return str(cursor.fetchone()[0])


def ran(*arguments: str) -> str:
    out = StringIO()
    call_command("encrypt_secrets", *arguments, stdout=out)
    return out.getvalue()


def delivered_to(url: str) -> Any:
    """Return the destination as a task reads it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO claim (shards, size, plan, lease_until)"
            " SELECT 1, 1, jsonb_build_object(id::text, '{}'::jsonb), now() FROM destination RETURNING id"
        )
        claim_id = cursor.fetchone()[0]
    with psycopg.connect(url) as reader:
        return read_destinations(reader, claim_id, {Destination.objects.values_list("id", flat=True).get()})


def test_the_database_holds_no_secret_in_clear_and_tasks_read_it(stored: None) -> None:
    assert "planted-canary" not in in_database()
    assert "X-Key" in in_database()
    assert Destination.objects.get().secrets == {"X-Key": "planted-canary"}


def test_a_key_is_replaced_while_the_system_works(stored: None, monkeypatch: pytest.MonkeyPatch) -> None:
    before = in_database()
    monkeypatch.setenv(KEYS, f"{NEW}\n{OLD}")
    assert Destination.objects.get().secrets == {"X-Key": "planted-canary"}
    assert "The secrets of 3 destinations, sources, alerts and reports are encrypted with the first key." in ran()
    assert in_database() != before
    monkeypatch.setenv(KEYS, NEW)
    assert Destination.objects.get().secrets == {"X-Key": "planted-canary"}
    monkeypatch.setenv(KEYS, OLD)
    with pytest.raises(UnreadableSecret):
        _ = Destination.objects.get().secrets


def test_what_was_stored_before_there_were_keys_is_read_and_then_encrypted(
    stored: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYS, "")
    Destination.objects.update(secrets={"X-Key": "planted-canary"})
    assert "planted-canary" in in_database()
    monkeypatch.setenv(KEYS, OLD)
    assert Destination.objects.get().secrets == {"X-Key": "planted-canary"}
    ran()
    assert "planted-canary" not in in_database()


def test_what_no_key_decrypts_is_named_and_used_nowhere(
    stored: None, admin: Caller, monkeypatch: pytest.MonkeyPatch, test_database_url: str
) -> None:
    monkeypatch.setenv(KEYS, NEW)
    answer = admin.ask("PUT", "destinations/shop/", HTTP)
    assert (answer.status_code, answer.json()["code"]) == (503, "secret_unreadable")
    with pytest.raises(BrokerError, match="No key"):
        read_source(test_database_url, Source.objects.values_list("id", flat=True).get())
    with pytest.raises(CommandError, match="3 cannot be read"):
        ran()
    assert list(unreadable()) == ["alert rule chat", "destination shop", "source orders"]
    assert "destination shop: removed" in ran("--forget")
    assert Audit.objects.filter(action="secrets.forgotten").count() == 3
    assert Destination.objects.get().secrets == {}
    assert admin.ask("PUT", "destinations/shop/", {**HTTP, "secrets": {"X-Key": "other"}}).status_code == 200


def test_a_delivery_with_an_unreadable_secret_says_so(
    stored: None, monkeypatch: pytest.MonkeyPatch, test_database_url: str
) -> None:
    [usable] = delivered_to(test_database_url).values()
    assert usable.broken is None
    assert usable.headers["X-Key"] == "planted-canary"
    monkeypatch.setenv(KEYS, NEW)
    [unusable] = delivered_to(test_database_url).values()
    assert "No key in POISONADMIN_ENCRYPTION_KEYS_FILE decrypts" in unusable.broken


def test_a_key_that_can_be_guessed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS, f"{NEW} short-canary")
    with pytest.raises(UnusableSecret, match="32 characters") as refused:
        ran()
    assert "canary" not in str(refused.value)
