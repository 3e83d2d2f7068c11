"""The first page says what needs its reader now, and nothing that is not in the reader's scope."""

from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from poisonadmin.alerts.commands.record import record_alerts
from poisonadmin.alerts.commands.rules import save_alert_rule
from poisonadmin.alerts.domain.rules import AlertRuleFields
from poisonadmin.core.domain.access import SYSTEM, Principal, Role, principal
from poisonadmin.decisions.operations.commands.beginning import begin, decide_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.sign_offs.commands import save_sign_off_rule
from poisonadmin.groups.commands.annotations import annotate
from poisonadmin.messages.queries.counts import counts
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.alert import Alert
from poisonadmin.store.models.attempt import FailureGroup
from poisonadmin.store.models.history import CounterCheck
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.lane import Address
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.operation import Operation
from poisonadmin.system.pages.needs import needs, quiet_since
from tests.fixtures.api import make_user, take_dead

pytestmark = pytest.mark.django_db(transaction=True)
OLGA = principal("olga", Role.OPERATOR)
RITA = principal("rita", Role.REVIEWER)
ELSEWHERE = principal("eve", Role.ADMIN, ["bills.#"])


def words_of(who: Principal = SYSTEM) -> list[str]:
    """Return the sentences of the first page."""
    return [need.words for need in needs(who, counts(who))]


def test_nothing_needs_anybody_at_first() -> None:
    assert words_of() == []


def test_the_first_page_says_since_when_nothing_needs_anybody() -> None:
    assert quiet_since(SYSTEM) is None
    begin(freeze(ids=[take_dead("orders.eu")], principal=SYSTEM), OperationAction.FAIL, reason="r", principal=SYSTEM)
    decided = Operation.objects.get().state_at
    assert quiet_since(SYSTEM) == decided
    assert quiet_since(ELSEWHERE) is None
    watch = AlertRuleFields(
        name="watch", kinds=["new_group"], channel="webhook", to=["https://hooks.example.org/a"], addresses=["#"]
    )
    save_alert_rule(watch, principal=SYSTEM)
    take_dead("orders.us", exception_class="OSError")
    record_alerts()
    Alert.objects.update(resolved_at=decided + timedelta(hours=1))
    assert quiet_since(SYSTEM) == decided + timedelta(hours=1)


def test_failures_come_by_size_the_new_ones_first() -> None:
    for _ in range(3):
        take_dead("orders.eu", exception_class="KeyError")
    FailureGroup.objects.update(first_at=Now() - timedelta(days=2), last_at=Now() - timedelta(days=2))
    take_dead("orders.us", exception_class="OSError")
    found = needs(SYSTEM, counts(SYSTEM))
    assert [(need.tag, need.words.partition(":")[0]) for need in found] == [
        ("new", "1 message needs a decision"),
        ("", "3 messages need a decision"),
    ]
    assert found[0].path == f"/groups/{FailureGroup.objects.get(title__contains='OSError').id}/"
    assert words_of(ELSEWHERE) == []
    assert {need.button for need in found} == {"Decide"}
    reader = principal("vera", Role.VIEWER)
    assert {need.button for need in needs(reader, counts(reader))} == {"Open"}, "a viewer decides nothing"


def test_the_alert_on_a_snoozed_group_needs_nobody() -> None:
    to = {"channel": "webhook", "to": ["https://hooks.example.org/in"], "addresses": ["#"]}
    save_alert_rule(AlertRuleFields(name="new", kinds=["new_group"], **to), principal=SYSTEM)
    take_dead("orders.eu")
    record_alerts()
    assert len(words_of()) == 1, "the group, whose alert leads to the same page"
    annotate(FailureGroup.objects.get().id, {"snoozed_until_grown": {"by": 5}}, principal=SYSTEM)
    assert words_of() == []
    for n in range(11):
        take_dead("orders.eu", exception_class=f"Error{n}")
    record_alerts()
    assert [one for one in words_of() if "alert" in one] == ["2 more alerts are open"]


def test_what_halts_or_stops_or_waits_for_a_sign_off_comes_before_failures() -> None:
    save_sign_off_rule("#", None, above=1, principal=SYSTEM)
    ids = [take_dead("orders.eu"), take_dead("orders.us")]
    operation = begin(freeze(ids=ids, principal=OLGA), OperationAction.FAIL, reason="r", principal=OLGA)
    Address.objects.filter(name="orders.us").update(status="STOPPED", status_note="failure 2")
    Source.objects.create(name="dead", kind="rabbitmq", config={}, last_error="refused", failures=3)
    Source.objects.update(created_at=Now() - timedelta(hours=1))
    said = words_of(RITA)
    assert said[0].startswith("The source dead cannot be read for 1 h")
    assert said[1:3] == ["1 operation waits for your sign-off", "The address orders.us is stopped: failure 2"]
    assert not [words for words in words_of(OLGA) if "sign-off" in words], "nobody signs off an own operation"
    assert words_of(ELSEWHERE) == []
    Operation.objects.update(state="halted", halted_why="2 of 10 failed")
    assert words_of(RITA)[0] == f"Operation #{operation} halted: 2 of 10 failed"


def trouble(place: str) -> None:
    """Make everything at an address need somebody."""
    taken = freeze(ids=[take_dead(place)], principal=SYSTEM)
    operation = begin(taken, OperationAction.FAIL, reason="r", principal=SYSTEM)
    Operation.objects.filter(id=operation).update(state="halted", halted_why=place, ended_at=None)
    mine = [take_dead(place, exception_class=f"Error.{place}") for _ in range(2)]
    decide_on(mine[:1], OperationAction.ASSIGN, params={"owner": "eve"}, reason="r", principal=SYSTEM)
    Message.objects.filter(id__in=mine).update(state_at=Now() - timedelta(hours=3))
    found = Address.objects.get(name=place)
    Address.objects.filter(id=found.id).update(status="STOPPED", status_note=place)
    CounterCheck.objects.create(address_id=found.id, seconds=0.1, wrong=3)
    to = {"channel": "webhook", "to": ["https://hooks.example.org/in"], "addresses": [place]}
    save_alert_rule(AlertRuleFields(name=place, kinds=["new_group"], **to), principal=SYSTEM)
    record_alerts()


def test_who_sees_few_addresses_is_told_the_same_whatever_happens_elsewhere() -> None:
    make_user("eve", Role.OPERATOR, [])
    trouble("bills.eu")
    before = needs(ELSEWHERE, counts(ELSEWHERE))
    assert len(before) == 6, before
    with CaptureQueriesContext(connection) as alone:
        needs(ELSEWHERE, counts(ELSEWHERE))
    for place in ("orders.eu", "orders.us"):
        trouble(place)
    with CaptureQueriesContext(connection) as beside:
        assert needs(ELSEWHERE, counts(ELSEWHERE)) == before
    assert len(beside) == len(alone)
    assert len(words_of(SYSTEM)) > len(before)
