"""The end of an alert is sent where its beginning was: once, after it, not in quiet hours, and never in a storm."""

import json
import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from standardwebhooks.webhooks import Webhook

from poisonadmin.alerts.commands.record import record_alerts
from poisonadmin.alerts.commands.send import forget_old, send_due
from poisonadmin.alerts.domain.notices import MAX_TRIES
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import begin
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.alert import Alert, AlertDelivery, AlertRule
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.lane import Address
from poisonadmin.store.models.operation import Operation
from tests.alerts.conftest import MakeRule, age, make_due, tick
from tests.alerts.receivers import MailServer, Receiver
from tests.alerts.test_recording import quiet_now
from tests.fixtures import decisions
from tests.fixtures.api import take, take_dead
from workers.tasks import post

pytestmark = pytest.mark.django_db(transaction=True)


def stop() -> None:
    """Let a message stop the address."""
    Address.objects.update(status="STOPPED", status_at=timezone.now())


def resume() -> None:
    """Let the address deliver again."""
    Address.objects.update(status="ON", status_at=timezone.now())


def received(receiver: Receiver) -> list[tuple[str, list[str]]]:
    """Return the types of what was received, each with the ids of its alerts."""
    documents = [json.loads(one.body) for one in receiver.requests]
    return [(one["type"], [alert["id"] for alert in one["data"]["alerts"]]) for one in documents]


@pytest.fixture
def stopped(make_rule: MakeRule, receiver: Receiver) -> AlertRule:
    """Return a rule that has sent that `orders.eu` is stopped."""
    rule = make_rule(kinds=["address_stopped"], repeat_minutes=30)
    take("orders.eu")
    stop()
    assert tick() == (1, 1)
    return rule


def test_the_end_is_sent_with_the_id_of_the_beginning_and_signed(stopped: AlertRule, receiver: Receiver) -> None:
    resume()
    assert tick() == (0, 1)
    alert = Alert.objects.get()
    assert received(receiver) == [("alerts.opened", [str(alert.id)]), ("alerts.resolved", [str(alert.id)])]
    sent = Webhook(stopped.secrets[0]).verify(receiver.requests[1].body, receiver.requests[1].headers)
    assert sent["data"]["alerts"][0]["resolved_at"] is not None
    assert len({one.headers["webhook-id"] for one in receiver.requests}) == 2
    assert tick() == (0, 0)


def test_a_mail_says_in_its_subject_that_it_is_over(make_rule: MakeRule, mail: MailServer) -> None:
    make_rule(channel="email", to=["night@example.org"])
    message = take_dead()
    tick()
    decisions.mark_fail([message], principal=SYSTEM, reason="r")
    assert tick() == (0, 0), "a minute after the first"
    make_due()
    tick()
    (_, first), (_, second) = mail.mails
    assert str(second["Subject"]).replace("Resolved: ", "") == str(first["Subject"])
    assert "Resolved: " in str(second["Subject"])
    assert ", over since " in second.get_content()


def test_a_rule_may_send_beginnings_only(make_rule: MakeRule, receiver: Receiver) -> None:
    make_rule(kinds=["address_stopped"], send_resolved=False)
    take("orders.eu")
    stop()
    tick()
    resume()
    assert tick() == (0, 0)
    assert Alert.objects.get().resolved_at is not None


def test_what_a_rule_does_not_want_to_send_any_more_is_dropped(stopped: AlertRule, receiver: Receiver) -> None:
    resume()
    record_alerts()
    AlertRule.objects.update(send_resolved=False)
    assert send_due(post) == 0
    assert AlertDelivery.objects.get(is_resolution=True).state == "dropped"


def test_what_happened_once_has_no_end_to_send(make_rule: MakeRule, receiver: Receiver) -> None:
    make_rule(kinds=["break_glass"])
    begin(freeze(ids=[take_dead()], principal=SYSTEM), OperationAction.FAIL, reason="r", principal=SYSTEM)
    Operation.objects.update(broke_glass_at=timezone.now())
    tick()
    age("operation", "broke_glass_at", timedelta(days=1))
    tick()
    assert Alert.objects.get().resolved_at is not None
    assert [type_ for type_, _ in received(receiver)] == ["alerts.opened"]


def test_in_quiet_hours_the_end_waits_for_their_end(stopped: AlertRule, receiver: Receiver) -> None:
    AlertRule.objects.update(**quiet_now())
    resume()
    assert tick() == (0, 0)
    held = AlertDelivery.objects.get(is_resolution=True)
    assert (held.is_held, held.planned_at > timezone.now()) == (True, True)
    make_due()
    assert tick() == (0, 1)
    assert received(receiver)[-1][0] == "alerts.resolved"


def test_what_begins_again_in_quiet_hours_is_told_of_at_their_end_and_not_before(
    stopped: AlertRule, receiver: Receiver
) -> None:
    AlertRule.objects.update(**quiet_now())
    resume()
    tick()
    stop()
    assert tick() == (1, 0)
    make_due()
    tick()
    first, second = Alert.objects.order_by("id")
    assert received(receiver)[1:] == [("alerts.resolved", [str(first.id)]), ("alerts.opened", [str(second.id)])]


def test_what_was_over_before_it_was_sent_has_no_end_to_send(make_rule: MakeRule, mail: MailServer) -> None:
    make_rule(channel="email", to=["night@example.org"])
    take_dead()
    tick()
    gathered = take_dead(exception_class="Second")
    record_alerts()
    decisions.mark_fail([gathered], principal=SYSTEM, reason="r")
    record_alerts()
    make_due()
    tick()
    assert ", over since " in mail.mails[1][1].get_content()
    assert not AlertDelivery.objects.filter(is_resolution=True).exists()


def test_the_end_waits_until_the_beginning_has_arrived(make_rule: MakeRule, receiver: Receiver) -> None:
    make_rule(kinds=["address_stopped"])
    receiver.statuses = [500]
    take("orders.eu")
    stop()
    tick()
    resume()
    assert tick() == (0, 0), "the beginning is to be tried again"
    make_due()
    assert tick() == (0, 2)
    assert [type_ for type_, _ in received(receiver)] == ["alerts.opened", "alerts.opened", "alerts.resolved"]


def test_the_end_of_what_was_given_up_is_sent_since_a_try_may_have_arrived(
    make_rule: MakeRule, receiver: Receiver
) -> None:
    make_rule(kinds=["address_stopped"])
    receiver.statuses = [503] * MAX_TRIES
    take("orders.eu")
    stop()
    for _ in range(MAX_TRIES):
        tick()
        make_due()
    assert AlertDelivery.objects.get().state == "failed"
    resume()
    assert tick() == (0, 1)
    assert received(receiver)[-1][0] == "alerts.resolved"


def test_what_comes_and_goes_is_sent_a_few_times_and_never_as_over_while_it_is_not(
    stopped: AlertRule, receiver: Receiver
) -> None:
    for _ in range(10):
        resume()
        tick()
        stop()
        tick()
    types = [type_ for type_, _ in received(receiver)]
    assert types == ["alerts.opened", "alerts.resolved", "alerts.opened"], "then it waits for the time of the rule"
    told = AlertDelivery.objects.filter(body=None, is_resolution=True, state="waiting").order_by("-planned_at")[0]
    assert told.planned_at - AlertDelivery.objects.filter(state="sent").latest("id").planned_at == timedelta(minutes=30)
    make_due()
    tick()
    second, last = Alert.objects.order_by("id")[1], Alert.objects.latest("id")
    assert received(receiver)[3:] == [("alerts.resolved", [str(second.id)]), ("alerts.opened", [str(last.id)])]
    age("alert_delivery", "planned_at", timedelta(minutes=61))
    resume()
    tick()
    assert received(receiver)[-1] == ("alerts.resolved", [str(last.id)])
    assert not AlertDelivery.objects.filter(state="waiting").exists()


def test_what_ends_at_once_is_sent_together(make_rule: MakeRule, receiver: Receiver) -> None:
    make_rule(kinds=["new_group"])
    ids = [take_dead("orders.eu", exception_class=f"Error{number}") for number in range(60)]
    tick()
    decisions.mark_fail(ids, principal=SYSTEM, reason="r")
    assert tick() == (0, 1)
    document = json.loads(receiver.requests[1].body)
    assert (document["type"], len(document["data"]["alerts"]), document["data"]["more"]) == ("alerts.resolved", 50, 10)


def test_the_same_occurrence_that_was_reported_as_over_is_reported_again(
    make_rule: MakeRule, receiver: Receiver
) -> None:
    make_rule(kinds=["source_unreachable"], limits={"source_unreachable": 10})
    Source.objects.create(name="s", kind="rabbitmq", failures=3, last_error="x", last_error_at=timezone.now())
    age("source", "created_at", timedelta(minutes=11))
    tick()
    for is_enabled in (False, True):
        Source.objects.update(is_enabled=is_enabled)
        tick()
    alert = str(Alert.objects.get().id)
    assert received(receiver) == [(f"alerts.{what}", [alert]) for what in ("opened", "resolved", "opened")]
    for is_enabled in (False, True):
        Source.objects.update(is_enabled=is_enabled)
        record_alerts()
    assert Alert.objects.get().resolved_at is None
    make_due()
    assert send_due(post) == 0, "nobody was told that it was over"


def test_what_is_over_while_its_beginning_is_first_sent_is_sent_as_over_after_it(
    make_rule: MakeRule, receiver: Receiver
) -> None:
    make_rule(kinds=["address_stopped"])
    take("orders.eu")
    stop()
    record_alerts()
    resume()
    others: list[threading.Thread] = []

    def resolve_too(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        if "SET tries = tries + 1" in sql and not others:
            others.append(threading.Thread(target=in_own_session))
            others[0].start()
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(resolve_too):
        send_due(post)
    others[0].join()
    send_due(post)
    assert [type_ for type_, _ in received(receiver)] == ["alerts.opened", "alerts.resolved"]


def in_own_session() -> None:
    """Record alerts in a thread, whose session is closed afterwards."""
    try:
        record_alerts()
    finally:
        connection.close()


_KILLED = """
import os, signal, django
django.setup()
from poisonadmin.alerts.commands import record, send
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
resolve = record.resolve
if os.environ["WHEN"] == "resolving":
    record.resolve = lambda *values: (resolve(*values), die())
record.record_alerts()
if os.environ["WHEN"] == "resolved":
    die()
from workers.tasks import post
send.send_due((lambda *a: (post(*a), die())[0]) if os.environ["WHEN"] == "sent" else die)
"""


@pytest.mark.parametrize(("when", "sent"), [("resolving", 1), ("resolved", 1), ("sending", 1), ("sent", 2)])
def test_a_worker_that_is_killed_neither_loses_nor_doubles_an_end(
    when: str, sent: int, stopped: AlertRule, receiver: Receiver, test_database_url: str
) -> None:
    resume()
    environment = os.environ | {"DATABASE_URL": test_database_url, "WHEN": when}
    ended = subprocess.run([sys.executable, "-c", _KILLED], env=environment, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    for _ in range(2):
        make_due()
        tick()
    ends = [one for one in receiver.requests if json.loads(one.body)["type"] == "alerts.resolved"]
    assert (len(ends), len({(one.headers["webhook-id"], one.body) for one in ends})) == (sent, 1)


def test_old_alerts_are_forgotten_with_both_deliveries(stopped: AlertRule, receiver: Receiver) -> None:
    resume()
    tick()
    age("alert_delivery", "created_at", timedelta(days=31))
    forget_old()
    assert AlertDelivery.objects.count() == 2
    Alert.objects.update(resolved_at=timezone.now() - timedelta(days=31))
    forget_old()
    assert AlertDelivery.objects.count() == 0
