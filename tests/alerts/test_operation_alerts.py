"""Alerts of sign-offs and of operations that end, to rules that cover all their addresses."""

import json
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from poisonadmin.alerts.commands.record import record_alerts
from poisonadmin.core.domain.access import SYSTEM, Principal, Role, principal
from poisonadmin.decisions.operations.commands.beginning import begin
from poisonadmin.decisions.operations.commands.operations import change
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.decisions.sign_offs.commands import expire_sign_offs, save_sign_off_rule, sign_off
from poisonadmin.decisions.sign_offs.domain import SignOffDecision
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.alert import Alert, AlertDelivery
from poisonadmin.store.models.operation import Operation
from tests.alerts.conftest import MakeRule, age, make_due, tick
from tests.alerts.receivers import Receiver
from tests.fixtures.api import Caller, take_dead

pytestmark = pytest.mark.django_db(transaction=True)
OLGA = principal("olga", Role.OPERATOR)
RITA = principal("rita", Role.REVIEWER)
KINDS = ["sign_off_waits", "sign_off_result"]


def asked(*addresses: str, by: Principal = OLGA) -> int:
    """Begin an operation that waits for a sign-off."""
    save_sign_off_rule("#", None, above=1, principal=SYSTEM)
    ids = [take_dead(address) for address in addresses or ("orders.eu", "orders.us")]
    return begin(freeze(ids=ids, principal=by), OperationAction.FAIL, reason="r", principal=by)


def titles(kind: str) -> list[str]:
    """Return the titles of the alerts of a kind, oldest first."""
    return list(Alert.objects.filter(kind=kind).order_by("id").values_list("title", flat=True))


@pytest.mark.parametrize(
    ("decision", "words"), [(SignOffDecision.CONSENT, "rita signed off"), (SignOffDecision.REFUSE, "rita refused")]
)
def test_a_sign_off_is_reported_while_it_waits_and_so_is_its_result(
    make_rule: MakeRule, receiver: Receiver, decision: SignOffDecision, words: str
) -> None:
    make_rule(kinds=KINDS)
    operation = asked()
    assert tick() == (1, 1)
    what = f"operation #{operation}, Mark FAIL 2 messages"
    assert titles("sign_off_waits") == [f"olga needs a sign-off for {what}"]
    sent = json.loads(receiver.requests[0].body)["data"]["alerts"][0]
    assert sent["url"].endswith(f"/operations/{operation}/")
    assert (sent["facts"]["requested_by"], sent["facts"]["count"]) == ("olga", 2)
    found = get_operation(operation, principal=SYSTEM)
    sign_off(operation, decision, selection_hash=found.hash, reason="seen", principal=RITA)
    assert record_alerts() == 1
    assert titles("sign_off_result") == [f"{words} {what}"]
    assert Alert.objects.get(kind="sign_off_waits").resolved_at is not None
    assert record_alerts() == 0
    age("operation", "sign_off_at", timedelta(days=1))
    record_alerts()
    assert Alert.objects.get(kind="sign_off_result").resolved_at is not None
    make_due()
    tick()
    types = [json.loads(one.body)["type"] for one in receiver.requests]
    assert sorted(types) == ["alerts.opened", "alerts.opened", "alerts.resolved"], "a result has no end"


def test_nobody_in_time_is_a_result_and_taking_the_request_back_is_none(make_rule: MakeRule) -> None:
    make_rule(kinds=["sign_off_result"])
    expired, cancelled = asked(), asked("orders.asia", "orders.africa")
    change(cancelled, OperationChange.CANCEL, reason="not needed", principal=OLGA)
    assert record_alerts() == 0
    Operation.objects.filter(id=expired).update(sign_off_expires_at=Now())
    assert expire_sign_offs() == 1
    assert record_alerts() == 1
    assert titles("sign_off_result") == [f"Nobody signed off operation #{expired}, Mark FAIL 2 messages, in time"]
    assert Alert.objects.get().facts["decision"] == "expired"


def test_who_does_not_see_all_addresses_gets_nothing(make_rule: MakeRule, outsider: Caller) -> None:
    make_rule(kinds=["sign_off_waits"], addresses=["orders.#"])
    wide = make_rule("wide", kinds=["sign_off_waits"])
    asked("orders.eu", "parked")
    assert record_alerts() == 1
    assert Alert.objects.get().rule_id == wide.id
    found = outsider.get("alerts/").json()["results"]
    assert found == [], "nor is a rule that watches more than the reader sees"


def test_an_operation_that_took_long_is_reported_with_its_outcomes_when_it_ends(make_rule: MakeRule) -> None:
    make_rule(kinds=["operation_ended"], limits={"operation_ended": 10})
    ids = [take_dead(), take_dead()]
    operation = begin(freeze(ids=ids, principal=SYSTEM), OperationAction.FAIL, reason="r", principal=SYSTEM)
    assert record_alerts() == 0, "it took no time"
    age("operation", "requested_at", timedelta(minutes=11))
    assert record_alerts() == 1
    assert titles("operation_ended") == [f"Completed: operation #{operation}, Mark FAIL 2 messages: 2 changed"]
    assert Alert.objects.get().facts["outcomes"] == {"changed": 2}
    assert (record_alerts(), AlertDelivery.objects.count()) == (0, 1)
    age("operation", "ended_at", timedelta(days=1))
    age("operation", "requested_at", timedelta(days=1))
    record_alerts()
    assert Alert.objects.get().resolved_at is not None
    assert AlertDelivery.objects.count() == 1, "that is not sent"
