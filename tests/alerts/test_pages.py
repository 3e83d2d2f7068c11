"""The pages of alerts: rules are saved as typed, secrets are shown once, and failures are seen."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from poisonadmin.alerts.commands.record import record_alerts
from poisonadmin.alerts.commands.send import send_due
from poisonadmin.store.models.access import Access, Audit
from poisonadmin.store.models.alert import AlertDelivery, AlertRule
from tests.alerts.conftest import MakeRule, tick
from tests.alerts.receivers import Receiver
from tests.fixtures.pages import dead_letter, html_of
from tests.web.test_hostile_text import XSS
from workers.tasks import post

pytestmark = pytest.mark.django_db(transaction=True)

NEW = "/alerts/rules/new/"
TYPED = {
    "name": "night watch",
    "is_enabled": "on",
    "channel": "webhook",
    "to": "https://hooks.example.org/in",
    "addresses": "orders.#\nparked",
    "on_new_group": "on",
    "on_oldest_undecided": "on",
    "limit_oldest_undecided": "90",
    "growth": "20%",
    "repeat_minutes": "30",
    "quiet_from": "22:00",
    "quiet_until": "06:00",
    "time_zone": "Europe/Berlin",
}


@pytest.fixture
def admin(browser_of: Callable[[str], Client]) -> Client:
    return browser_of("admin")


def test_a_rule_is_saved_as_typed_and_its_secret_is_shown_once(admin: Client) -> None:
    answer = admin.post(NEW, TYPED)
    row = AlertRule.objects.get()
    [secret] = re.findall(r"whsec_[A-Za-z0-9+/=]+", answer.content.decode())
    assert (answer.status_code, row.secrets) == (200, [secret])
    assert (row.kinds, row.limits) == (["new_group", "oldest_undecided"], {"oldest_undecided": 90})
    assert row.growth == "20 %"
    assert (row.addresses, row.to) == (["orders.#", "parked"], ["https://hooks.example.org/in"])
    assert (row.quiet_from, row.quiet_until, row.time_zone) == ("22:00", "06:00", "Europe/Berlin")
    path = f"/alerts/rules/{row.id}/"
    shown = admin.get(path).content.decode()
    assert 'value="90"' in shown
    assert "whsec_" not in shown
    assert "whsec_" not in str([entry.details for entry in Audit.objects.all()])
    assert admin.post(path, TYPED | {"version": "1", "repeat_minutes": "45"}).status_code == 302
    assert AlertRule.objects.get().secrets == [secret]
    again = admin.post(f"{path}secret/").content.decode()
    assert AlertRule.objects.get().secrets[0] in again
    actions = list(Audit.objects.filter(object_type="alert_rule").order_by("id").values_list("action", flat=True))
    assert actions == ["alert_rule.saved", "alert_rule.saved", "alert_rule.secret_changed"]


def test_all_mistakes_are_shown_at_their_fields(admin: Client) -> None:
    wrong = {
        "name": "",
        "to": "http://10.0.0.1/",
        "addresses": "orders..eu",
        "limit_oldest_undecided": "0",
        "growth": "much",
        "quiet_from": "25:00",
        "time_zone": "Europe/Nowhere",
        "repeat_minutes": "0",
    }
    answer = admin.post(NEW, TYPED | wrong)
    text = answer.content.decode()
    assert answer.status_code == 422
    for field in wrong:
        assert f'id="{field}_error"' in text, field
    assert not AlertRule.objects.exists()
    assert 'id="on_new_group_error"' in admin.post(NEW, {"name": "x", "channel": "webhook"}).content.decode()


def test_a_limited_administrator_saves_rules_of_his_addresses_only(admin: Client) -> None:
    admin.post(NEW, TYPED | {"name": "of all", "addresses": "#"})
    Access.objects.update(address_patterns=["orders.#"])
    assert admin.post(NEW, TYPED | {"addresses": "orders.eu.#"}).status_code == 200
    assert admin.post(NEW, TYPED | {"name": "wide", "addresses": "#"}).status_code == 403
    sources = {"name": "sources", "addresses": "orders.eu", "on_source_unreachable": "on"}
    assert admin.post(NEW, TYPED | sources).status_code == 403
    assert set(AlertRule.objects.values_list("name", flat=True)) == {"of all", "night watch"}
    shown = html_of(admin.get("/alerts/"))
    assert "night watch" in shown
    assert "of all" not in shown
    wide = AlertRule.objects.get(name="of all").id
    assert admin.get(f"/alerts/rules/{wide}/").status_code == 404
    # By its name it cannot be overwritten either.
    assert admin.post(NEW, TYPED | {"name": "of all", "addresses": "orders.eu"}).status_code == 409


def test_failures_are_seen_and_sent_again(make_rule: MakeRule, receiver: Receiver, admin: Client) -> None:
    make_rule(name=f"to {XSS[:60]}")
    receiver.statuses, receiver.answer = [500], XSS.encode()
    dead_letter("orders.eu", dead_letter={"exception_class": XSS, "exception_message": XSS})
    tick()
    page = html_of(admin.get("/alerts/"))
    assert "Deliveries of the rule" in page
    assert '<span class="visually-hidden"> alert rules failing</span>' in page
    assert "HTTP 500" in page
    assert XSS not in page
    delivery = AlertDelivery.objects.get()
    assert admin.post(f"/alerts/deliveries/{delivery.id}/resend/").status_code == 302
    send_due(post)
    shown = html_of(admin.get(f"/alerts/deliveries/{delivery.id}/"))
    assert "accepted" in shown
    assert XSS not in shown
    assert " failing</span>" not in html_of(admin.get("/alerts/"))


def test_a_test_alert_is_followed_until_it_is_answered(make_rule: MakeRule, receiver: Receiver, admin: Client) -> None:
    rule = make_rule()
    receiver.answer = b"hello"
    where = admin.post(f"/alerts/rules/{rule.id}/test/")["Location"]
    assert 'hx-trigger="every 2s"' in html_of(admin.get(where))
    send_due(post, only_tests=True)
    shown = html_of(admin.get(where, headers={"HX-Request": "true"}))
    assert "HTTP 204" in shown
    assert "hx-trigger" not in shown


def test_only_alerts_of_a_state_are_listed(make_rule: MakeRule, admin: Client) -> None:
    make_rule()
    dead_letter("orders.eu")
    record_alerts()
    assert "New failure group" in html_of(admin.get("/alerts/?state=open"))
    assert "No alert matches" in html_of(admin.get("/alerts/?state=resolved"))
    assert admin.get("/alerts/?state=closed").status_code == 400
