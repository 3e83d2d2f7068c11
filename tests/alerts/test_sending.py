"""What is recorded is sent: signed, with the same id at every try, to real receivers, whatever dies in between."""

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from django.db import connection
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from poisonadmin.alerts.commands import send
from poisonadmin.alerts.commands.record import record_alerts
from poisonadmin.alerts.commands.rules import resend, rotate_secret, save_alert_rule, send_test
from poisonadmin.alerts.domain.notices import MAX_TRIES
from poisonadmin.alerts.domain.rules import AlertRuleFields, InvalidAlertRule
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.alert import Alert, AlertDelivery, AlertRule
from tests.alerts.conftest import MakeRule, make_due, tick
from tests.alerts.receivers import MailServer, Receiver, Request
from tests.fixtures.api import take_dead
from workers.tasks import post

pytestmark = pytest.mark.django_db(transaction=True)
HOSTILE = "Boom\r\nBcc: victim@example.org\x1b[31m<script>alert(1)</script>\u202e" + "x" * 500


def verified(request: Request, secret: str) -> dict[str, Any]:
    """Return what was sent; raise WebhookVerificationError when the official library refuses the signature."""
    found: dict[str, Any] = Webhook(secret).verify(request.body, request.headers)
    return found


def test_a_webhook_is_signed_as_the_official_library_checks(make_rule: MakeRule, receiver: Receiver) -> None:
    rule = make_rule()
    take_dead()
    assert tick() == (1, 1)
    [request] = receiver.requests
    sent = verified(request, rule.secrets[0])
    assert (request.path, sent["type"], sent["data"]["rule"]) == ("/hooks?from=poisonadmin", "alerts.opened", rule.name)
    assert sent["data"]["alerts"][0]["kind"] == "new_group"
    assert request.headers["webhook-id"] == AlertDelivery.objects.get().webhook_id
    with pytest.raises(WebhookVerificationError):
        Webhook(rule.secrets[0]).verify(request.body + b" ", request.headers)
    assert AlertDelivery.objects.get().state == "sent"
    assert tick() == (0, 0)


def test_a_new_secret_and_the_one_before_both_hold(make_rule: MakeRule, receiver: Receiver) -> None:
    rule = make_rule()
    old, first = rule.secrets[0], rotate_secret(rule.id, principal=SYSTEM)
    second = rotate_secret(rule.id, principal=SYSTEM)
    take_dead()
    tick()
    for secret in (first, second):
        verified(receiver.requests[0], secret)
    with pytest.raises(WebhookVerificationError):
        verified(receiver.requests[0], old)
    AlertRule.objects.update(old_secret_until="2020-01-01T00:00:00Z")
    resend(AlertDelivery.objects.get().id, principal=SYSTEM)
    tick()
    verified(receiver.requests[1], second)
    with pytest.raises(WebhookVerificationError):
        verified(receiver.requests[1], first)


def test_a_receiver_that_fails_is_tried_again_with_the_same_id_and_content(
    make_rule: MakeRule, receiver: Receiver
) -> None:
    make_rule()
    receiver.statuses, receiver.answer = [500, 302], b"out\x00 of \x1b[31morder"
    receiver.headers = {"Location": "http://169.254.169.254/"}
    take_dead()
    assert tick() == (1, 1)
    assert AlertRule.objects.get().failing_since is not None
    assert tick() == (0, 0), "the next try is not due"
    make_due()
    tick()
    make_due()
    tick()
    ids, bodies = {one.headers["webhook-id"] for one in receiver.requests}, {one.body for one in receiver.requests}
    assert (len(receiver.requests), len(ids), len(bodies)) == (3, 1, 1)
    delivery = AlertDelivery.objects.get()
    assert [one["is_taken"] for one in delivery.log] == [False, False, True]
    assert delivery.log[0]["text"] == "HTTP 500: out of [31morder"
    assert delivery.log[1]["text"] == "HTTP 302: redirects are not followed"
    assert (delivery.state, AlertRule.objects.get().failing_since) == ("sent", None)


def test_after_a_day_of_tries_it_is_given_up_and_can_be_sent_again(make_rule: MakeRule, receiver: Receiver) -> None:
    make_rule()
    receiver.statuses = [503] * MAX_TRIES
    take_dead()
    record_alerts()
    for _ in range(MAX_TRIES + 2):
        make_due()
        send.send_due(post)
    delivery = AlertDelivery.objects.get()
    assert (delivery.state, delivery.tries, len(receiver.requests)) == ("failed", MAX_TRIES, MAX_TRIES)
    resend(delivery.id, principal=SYSTEM)
    send.send_due(post)
    delivery.refresh_from_db()
    assert delivery.state == "sent"
    assert len({one.headers["webhook-id"] for one in receiver.requests}) == 1
    assert Audit.objects.filter(action="alert.resent").count() == 1


def test_a_receiver_that_wants_no_more_is_not_tried_again(make_rule: MakeRule, receiver: Receiver) -> None:
    make_rule()
    receiver.statuses = [410]
    take_dead()
    tick()
    assert AlertDelivery.objects.get().state == "failed"


def test_a_receiver_that_hangs_does_not_keep_another_from_its_alerts(
    make_rule: MakeRule, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send, "SECONDS_A_TRY", 0.5)
    receiver.lets_answer.clear()
    make_rule("hanging")
    make_rule("refusing", to=["http://127.0.0.1:9/"])
    take_dead()
    assert tick() == (2, 2)
    answers = {one.rule.name: one.log[-1]["text"] for one in AlertDelivery.objects.select_related("rule")}
    assert answers == {
        "hanging": "There was no answer within 0 s.",
        "refusing": "127.0.0.1:9 refused the connection",
    }


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/latest/", "http://10.0.0.1/", "http://2130706433/", "ftp://x/"]
)
def test_an_address_that_destinations_may_not_have_is_refused(url: str, make_rule: MakeRule) -> None:
    with pytest.raises(InvalidAlertRule):
        make_rule(to=[url])


def test_a_forbidden_address_behind_a_name_or_a_stored_url_is_never_reached(
    make_rule: MakeRule, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = make_rule(to=[receiver.url.replace("127.0.0.1", "localhost")])
    monkeypatch.setenv("POISONADMIN_ALLOW_LOOPBACK", "0")
    for url in (rule.to[0], receiver.url):
        AlertRule.objects.update(to=[url])
        send_test(rule.id, principal=SYSTEM)
        send.send_due(post, only_tests=True)
        assert "loopback" in AlertDelivery.objects.latest("id").log[-1]["text"]
    assert receiver.requests == []


def test_a_test_alert_is_tried_once_and_shows_the_answer(make_rule: MakeRule, receiver: Receiver) -> None:
    rule = make_rule(is_enabled=False)
    receiver.statuses, receiver.answer = [418], b"I am a teapot"
    first = send_test(rule.id, principal=SYSTEM)
    assert send_test(rule.id, principal=SYSTEM) == first
    assert send.send_due(post, only_tests=True) == 1
    delivery = AlertDelivery.objects.get()
    assert (delivery.state, delivery.log[0]["text"]) == ("failed", "HTTP 418: I am a teapot")
    assert verified(receiver.requests[0], rule.secrets[0])["type"] == "alerts.test"
    send_test(rule.id, principal=SYSTEM)
    send.send_due(post, only_tests=True)
    assert AlertDelivery.objects.latest("id").state == "sent"


def test_hostile_texts_stay_text(make_rule: MakeRule, receiver: Receiver, mail: MailServer) -> None:
    make_rule()
    make_rule("by mail", channel="email", to=["night@example.org", "day@example.org"])
    take_dead(exception_class="com.example.Boom", exception_message=HOSTILE)
    assert tick() == (2, 2)
    [alert] = json.loads(receiver.requests[0].body)["data"]["alerts"]
    [(recipients, found)] = mail.mails
    assert recipients == ["night@example.org", "day@example.org"]
    assert found["Bcc"] is None
    for text in (alert["title"], str(found["Subject"])):
        assert text.isprintable()
        assert len(text) <= 300
    assert "Boom Bcc: …" in alert["title"]
    assert found.get_content_type() == "text/plain"
    assert found["Message-ID"].startswith(f"<{AlertDelivery.objects.get(rule__name='by mail').webhook_id}@example.org")


def test_a_mail_server_that_refuses_for_now_is_tried_again(make_rule: MakeRule, mail: MailServer) -> None:
    make_rule(channel="email", to=["night@example.org"])
    mail.refuses = 1
    take_dead()
    tick()
    assert "451" in AlertDelivery.objects.get().log[0]["text"]
    make_due()
    tick()
    assert len(mail.mails) == 1
    assert AlertDelivery.objects.get().state == "sent"


def test_mail_is_refused_where_the_installation_has_no_mail_server(make_rule: MakeRule) -> None:
    with pytest.raises(InvalidAlertRule, match="POISONADMIN_MAIL_URL"):
        make_rule(channel="email", to=["night@example.org"])


_KILLED = """
import os, signal, django
django.setup()
from poisonadmin.alerts.commands import record, send
from poisonadmin.alerts.channels.contract import PostAnswer
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
create = record.Alert.objects.create
if os.environ["WHEN"] == "recording":
    record.Alert.objects.create = lambda **values: (create(**values), die())
record.record_alerts()
if os.environ["WHEN"] == "recorded":
    die()
from workers.tasks import post
send.send_due((lambda *a: (post(*a), die())[0]) if os.environ["WHEN"] == "sent" else die)
"""


@pytest.mark.parametrize(("when", "sent"), [("recording", 1), ("recorded", 1), ("sending", 1), ("sent", 2)])
def test_a_worker_that_is_killed_neither_loses_nor_doubles_what_is_recorded(
    when: str, sent: int, make_rule: MakeRule, receiver: Receiver, test_database_url: str
) -> None:
    make_rule()
    take_dead()
    environment = os.environ | {"DATABASE_URL": test_database_url, "WHEN": when}
    ended = subprocess.run([sys.executable, "-c", _KILLED], env=environment, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    make_due()
    tick()
    make_due()
    tick()
    assert (Alert.objects.count(), AlertDelivery.objects.count()) == (1, 1)
    assert AlertDelivery.objects.get().state == "sent"
    assert len(receiver.requests) == sent
    assert len({(one.headers["webhook-id"], one.body) for one in receiver.requests}) == 1


def test_a_last_try_that_dies_is_given_up(make_rule: MakeRule, receiver: Receiver) -> None:
    rule = make_rule()
    send_test(rule.id, principal=SYSTEM)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE alert_delivery SET tries = 1")
    assert send.send_due(post) == 0
    assert AlertDelivery.objects.get().state == "failed"
    assert AlertRule.objects.get().failing_since is not None


def test_what_a_rule_held_is_not_sent_once_it_is_switched_off(make_rule: MakeRule, receiver: Receiver) -> None:
    rule = make_rule()
    take_dead()
    record_alerts()
    fields = AlertRuleFields(name=rule.name, kinds=rule.kinds, channel="webhook", to=rule.to, is_enabled=False)
    save_alert_rule(fields, principal=SYSTEM)
    tick()
    assert (AlertDelivery.objects.get().state, receiver.requests) == ("dropped", [])
    assert Alert.objects.get().resolved_at is not None
