"""The API of alerts: secrets in one answer only, rules replaced whole, deliveries with their answers."""

import pytest

from poisonadmin.alerts.commands.send import send_due
from poisonadmin.store.models.access import IdempotencyKey
from poisonadmin.store.models.alert import AlertRule
from tests.alerts.conftest import MakeRule, tick
from tests.alerts.receivers import Receiver
from tests.fixtures.api import Caller, take_dead
from workers.tasks import post

pytestmark = pytest.mark.django_db(transaction=True)

RULE = {
    "name": "night watch",
    "kinds": ["new_group", "oldest_undecided"],
    "channel": "webhook",
    "to": ["https://hooks.example.org/in"],
    "limits": {"oldest_undecided": 15},
}


def test_a_new_webhook_s_secret_is_in_one_answer(admin: Caller) -> None:
    answer = admin.post("alerts/rules/", RULE, Idempotency_Key="once")
    created = answer.json()
    assert (answer.status_code, created["secret"]) == (201, AlertRule.objects.get().secrets[0])
    assert (created["limits"], created["addresses"], created["repeat_minutes"]) == ({"oldest_undecided": 15}, ["#"], 60)
    assert not IdempotencyKey.objects.exists()
    for path in ("alerts/rules/", answer["Location"].removeprefix("http://testserver"), "audit/"):
        found = admin.get(path)
        assert found.status_code == 200
        assert b"whsec_" not in found.content
    assert admin.post("alerts/rules/", RULE).status_code == 409


def test_a_rule_is_replaced_but_for_its_name_channel_and_secret(admin: Caller) -> None:
    created = admin.post("alerts/rules/", RULE).json()
    secrets = AlertRule.objects.get().secrets
    path = f"alerts/rules/{created['id']}/"
    body = {"kinds": ["address_stopped"], "to": ["https://hooks.example.org/out"], "addresses": ["orders.#"]}
    assert admin.ask("PUT", path, body, If_Match='"7"').status_code == 412
    changed = admin.ask("PUT", path, body, If_Match='"1"').json()
    assert (changed["kinds"], changed["limits"], changed["version"]) == (["address_stopped"], {}, 2)
    assert AlertRule.objects.get().secrets == secrets
    assert admin.ask("PUT", path, {**body, "channel": "email"}).status_code == 400
    assert admin.ask("DELETE", path).status_code == 204


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kinds", ["no_such"]),
        ("limits", {"new_group": 5}),
        ("limits", {"oldest_undecided": 0}),
        ("growth", "0"),
        ("growth", "20 % more"),
        ("to", ["http://169.254.169.254/"]),
        ("to", ["https://a.example/", "https://b.example/"]),
        ("quiet_from", "22:00"),
        ("time_zone", "../../etc/passwd"),
        ("addresses", []),
    ],
)
def test_a_mistake_is_named(field: str, value: object, admin: Caller) -> None:
    answer = admin.post("alerts/rules/", RULE | {field: value})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_alert_rule")
    assert not AlertRule.objects.exists()


def test_alerts_are_listed_with_their_delivery_and_sent_again(
    make_rule: MakeRule, receiver: Receiver, admin: Caller
) -> None:
    rule = make_rule()
    receiver.statuses = [500]
    take_dead()
    tick()
    [alert] = admin.get(f"alerts/?state=open&rule={rule.id}").json()["results"]
    assert (alert["kind"], alert["delivery"], alert["answer"]) == ("new_group", "waiting", "HTTP 500")
    assert admin.post(f"alerts/deliveries/{alert['delivery_id']}/resend/").status_code == 200
    send_due(post)
    delivery = admin.get(f"alerts/deliveries/{alert['delivery_id']}/").json()
    assert delivery["state"] == "sent"
    assert [one["is_taken"] for one in delivery["answers"]] == [False, True]
    assert admin.get("alerts/?state=resolved").json()["results"] == []


def test_a_test_is_a_delivery_with_an_answer(make_rule: MakeRule, receiver: Receiver, admin: Caller) -> None:
    rule = make_rule()
    answer = admin.post(f"alerts/rules/{rule.id}/test/")
    assert answer.status_code == 202
    send_due(post)
    found = admin.get(answer["Location"].removeprefix("http://testserver")).json()
    assert (found["is_test"], found["state"], found["answers"][0]["text"]) == (True, "sent", "HTTP 204")
    fresh = admin.post(f"alerts/rules/{rule.id}/secret/").json()["secret"]
    assert AlertRule.objects.get().secrets[0] == fresh
    assert admin.post(f"alerts/deliveries/{found['id']}/resend/").status_code == 200
    assert admin.post(f"alerts/deliveries/{found['id']}/resend/").json()["code"] == "alert_not_settled"
