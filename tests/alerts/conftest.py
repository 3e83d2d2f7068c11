"""Receivers, rules and messages of the tests of alerts."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from pytest_django import Settings

from poisonadmin.alerts.commands.record import record_alerts
from poisonadmin.alerts.commands.rules import save_alert_rule
from poisonadmin.alerts.commands.send import send_due
from poisonadmin.alerts.domain.kinds import KINDS
from poisonadmin.alerts.domain.rules import AlertRuleFields
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.store.models.alert import AlertRule
from tests.alerts.receivers import MailServer, Receiver, http_receiver, mail_server
from workers.tasks import post

MakeRule = Callable[..., AlertRule]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Yield an HTTP server for webhooks."""
    with http_receiver() as served:
        yield served


@pytest.fixture
def mail(settings: Settings) -> Iterator[MailServer]:
    """Yield a mail server that this installation is set up with."""
    with mail_server() as served:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", served.port
        settings.DEFAULT_FROM_EMAIL = "poison@example.org"
        yield served


@pytest.fixture
def make_rule(db: None, receiver: Receiver) -> MakeRule:
    """Return a function that saves a rule: a webhook of the receiver for every kind, but for what it is given."""

    def make(name: str = "night watch", **fields: Any) -> AlertRule:
        given: dict[str, Any] = {"kinds": list(KINDS), "channel": "webhook", "to": [receiver.url]}
        return save_alert_rule(AlertRuleFields(name=name, **given | fields), principal=SYSTEM)[0]

    return make


def tick() -> tuple[int, int]:
    """Do what the tick does; return how many alerts were opened and how many tries were made."""
    return record_alerts(), send_due(post)


def make_due() -> None:
    """Let the time pass until the next tries are due."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE alert_delivery SET due_at = now() WHERE state = 'waiting'")


def age(table: str, column: str, by: timedelta) -> None:
    """Set back a time in every row of a table."""
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET {column} = {column} - %s", [by])
