"""An alert opens when something begins, once a rule, and is resolved when that ends."""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.urls import resolve
from django.utils import timezone

from poisonadmin.alerts.commands.record import record_alerts
from poisonadmin.alerts.commands.rules import delete_alert_rule
from poisonadmin.alerts.commands.send import forget_old, send_due
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import begin
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.groups.commands import failure_groups
from poisonadmin.groups.commands.annotations import annotate
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.alert import Alert, AlertDelivery, AlertRule
from poisonadmin.store.models.attempt import FailureGroup
from poisonadmin.store.models.failure_group import GroupHour
from poisonadmin.store.models.history import CounterCheck
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.lane import Address
from poisonadmin.store.models.operation import Operation
from poisonadmin.store.models.run import LongRun, Worker
from tests.alerts.conftest import MakeRule, age, make_due, tick
from tests.alerts.receivers import MailServer, Receiver
from tests.fixtures import decisions
from tests.fixtures.api import take, take_dead
from tests.fixtures.delivery import make_destination
from workers.tasks import post

pytestmark = pytest.mark.django_db(transaction=True)


def kinds_open() -> list[str]:
    """Return the kinds of the open alerts."""
    return sorted(Alert.objects.filter(resolved_at=None).values_list("kind", flat=True))


def test_a_new_failure_group_is_reported_once_and_resolved_when_nothing_of_it_waits(make_rule: MakeRule) -> None:
    make_rule(addresses=["orders.#"])
    make_rule("elsewhere", addresses=["invoices.#"])
    ids = [take_dead(), take_dead()]
    take_dead("parked", exception_class="Other")
    assert record_alerts() == 1
    alert = Alert.objects.get()
    assert (alert.rule.name, alert.kind, alert.facts["waiting"]) == ("night watch", "new_group", 2)
    assert alert.facts["addresses"] == ["orders.eu"]
    assert record_alerts() == 0
    decisions.mark_fail(ids[:1], principal=SYSTEM, reason="r")
    record_alerts()
    assert kinds_open() == ["new_group"]
    decisions.mark_fail(ids[1:], principal=SYSTEM, reason="r")
    record_alerts()
    assert kinds_open() == []


def test_a_rule_reports_no_group_that_was_there_before_it(make_rule: MakeRule) -> None:
    take_dead()
    record_alerts()
    make_rule()
    assert record_alerts() == 0


def grow(fingerprint: str, at: datetime, address_id: int = 1, count: int = 1) -> None:
    """Count more failures into a group."""
    with connection.cursor() as cursor:
        failure_groups.ensure(cursor, [failure_groups.Seen(fingerprint, "t", "c", 1, address_id, at, at, count)])


def test_a_group_that_grows_after_a_long_quiet_is_reported_and_not_after_a_short_one(make_rule: MakeRule) -> None:
    make_rule(kinds=["group_grows_again"], limits={"group_grows_again": 60})
    take_dead()
    record_alerts()
    group = FailureGroup.objects.get()
    grow(group.fingerprint, group.last_at + timedelta(minutes=30))
    assert record_alerts() == 0
    # A long gap is kept although a shorter one follows before anybody has seen it.
    grow(group.fingerprint, group.last_at + timedelta(minutes=120))
    grow(group.fingerprint, group.last_at + timedelta(minutes=140))
    grow(group.fingerprint, group.last_at - timedelta(days=3))
    assert record_alerts() == 1
    assert Alert.objects.get().title.startswith("Failure group grows again after 1 h of quiet: ")
    assert record_alerts() == 0
    grow(group.fingerprint, group.last_at + timedelta(minutes=500))
    assert record_alerts() == 1
    assert (Alert.objects.count(), len(kinds_open())) == (2, 1)


@pytest.mark.parametrize(("growth", "most"), [("20", 19), ("20 %", 7), ("9%", 4)])
def test_a_group_that_grows_is_reported_until_it_no_longer_does(make_rule: MakeRule, growth: str, most: int) -> None:
    kinds = {"kinds": ["group_grows"], "limits": {"group_grows": 60}, "growth": growth}
    make_rule(**kinds, addresses=["orders.#"])
    make_rule("elsewhere", **kinds, addresses=["invoices.#"])
    take_dead()
    group, now = FailureGroup.objects.get(), timezone.now()
    GroupHour.objects.update(hour=now - timedelta(days=9), failures=40)
    grow(group.fingerprint, now, Address.objects.get().id, most)
    assert record_alerts() == 0
    grow(group.fingerprint, now, Address.objects.get().id)
    assert record_alerts() == 1
    alert = Alert.objects.get()
    assert (alert.rule.name, alert.path, alert.facts["failures"]) == ("night watch", f"/groups/{group.id}/", most + 1)
    assert alert.title.startswith(f"Failure group has grown by {most + 1} failures in 1 h: ")
    assert record_alerts() == 0
    age("group_hour", "hour", timedelta(minutes=121))
    record_alerts()
    assert kinds_open() == []


def test_a_group_that_is_snoozed_or_new_does_not_grow_by_a_share(make_rule: MakeRule) -> None:
    make_rule(kinds=["group_grows"], growth="1 %")
    make_rule("count", kinds=["group_grows"], growth="5")
    take_dead()
    group, place = FailureGroup.objects.get(), Address.objects.get().id
    grow(group.fingerprint, timezone.now(), place, 10)
    annotate(group.id, {"snoozed_until_grown": {"by": 10}}, principal=SYSTEM)
    assert record_alerts() == 0
    grow(group.fingerprint, timezone.now(), place, 10)
    assert record_alerts() == 1
    assert Alert.objects.get().rule.name == "count"


def test_the_oldest_undecided_message_is_reported_for_the_addresses_of_a_rule(make_rule: MakeRule) -> None:
    limits = {"oldest_undecided": 60}
    make_rule(kinds=["oldest_undecided"], limits=limits, addresses=["orders.#"])
    make_rule("all", kinds=["oldest_undecided"], limits=limits)
    make_rule("none", kinds=["oldest_undecided"], limits=limits, addresses=["invoices.#"])
    message = take_dead()
    assert record_alerts() == 0
    age("message", "state_at", timedelta(minutes=90))
    assert record_alerts() == 2
    assert Alert.objects.get(rule__name="all").title == "A message on orders.eu has waited 1 h for a decision"
    assert record_alerts() == 0
    decisions.mark_fail([message], principal=SYSTEM, reason="r")
    record_alerts()
    assert kinds_open() == []


def test_overdue_deliveries_are_reported_where_an_address_delivers(make_rule: MakeRule) -> None:
    make_destination()
    make_rule(kinds=["overdue_deliveries"], limits={"overdue_deliveries": 5})
    take("orders.eu")
    take("parked")
    assert record_alerts() == 0
    for table, column in (("message", "due_at"), ("lane", "next_due")):
        age(table, column, timedelta(minutes=7))
    assert record_alerts() == 1
    alert = Alert.objects.get()
    assert alert.title == "1 delivery is overdue, the first by 7 min, on orders.eu"
    with connection.cursor() as cursor:
        cursor.execute("UPDATE lane SET is_open = FALSE")
    record_alerts()
    assert kinds_open() == []


def test_an_address_that_stops_again_is_another_occurrence(make_rule: MakeRule) -> None:
    make_rule(kinds=["address_stopped"])
    take("orders.eu")
    Address.objects.update(status="STOPPED", status_note="failure 5", status_at=timezone.now())
    assert record_alerts() == 1
    assert Alert.objects.get().title == "The address orders.eu is stopped: failure 5"
    Address.objects.update(status_at=timezone.now())
    assert record_alerts() == 1
    assert (Alert.objects.count(), kinds_open()) == (2, ["address_stopped"])
    Address.objects.update(status="ON")
    record_alerts()
    assert kinds_open() == []


def test_a_source_is_reported_once_it_could_not_be_read_for_a_while(make_rule: MakeRule) -> None:
    make_rule(kinds=["source_unreachable"], limits={"source_unreachable": 10})
    source = Source.objects.create(
        name="dead-letters", kind="rabbitmq", failures=3, last_error="refused\n\x1b[31m", last_error_at=timezone.now()
    )
    assert record_alerts() == 0
    age("source", "created_at", timedelta(minutes=11))
    assert record_alerts() == 1
    assert Alert.objects.get().title == "The source dead-letters cannot be read for 11 min: refused [31m"
    Source.objects.filter(id=source.id).update(failures=0, last_success_at=timezone.now())
    record_alerts()
    assert kinds_open() == []


def test_a_halted_operation_is_reported_to_rules_that_cover_all_its_addresses(make_rule: MakeRule) -> None:
    make_rule(kinds=["operation_halted"], addresses=["orders.#", "parked"])
    make_rule("narrow", kinds=["operation_halted"], addresses=["orders.#"])
    selection = freeze(ids=[take_dead(), take_dead("parked")], principal=SYSTEM)
    operation = begin(selection, OperationAction.FAIL, reason="r", principal=SYSTEM)
    Operation.objects.update(state="halted", halted_why="3 of 10 failed again", ended_at=None)
    assert record_alerts() == 1
    alert = Alert.objects.get()
    assert (alert.rule.name, alert.title) == ("night watch", f"Operation #{operation} halted: 3 of 10 failed again")
    Operation.objects.update(state="running")
    record_alerts()
    assert kinds_open() == []


def test_an_operation_without_its_sign_off_is_reported_for_a_day(make_rule: MakeRule) -> None:
    wide = make_rule(kinds=["break_glass"], addresses=["orders.#", "parked"])
    make_rule("narrow", kinds=["break_glass"], addresses=["orders.#"])
    selection = freeze(ids=[take_dead(), take_dead("parked")], principal=SYSTEM)
    operation = begin(selection, OperationAction.FAIL, reason="r", principal=SYSTEM)
    assert record_alerts() == 0
    Operation.objects.update(broke_glass_at=timezone.now())
    assert record_alerts() == 1
    assert Alert.objects.get().rule_id == wide.id
    assert Alert.objects.get().title == f"system began operation #{operation} on 2 messages without a sign-off"
    assert record_alerts() == 0
    age("operation", "broke_glass_at", timedelta(days=1))
    record_alerts()
    assert kinds_open() == []


def test_counts_that_are_wrong_are_reported_until_they_are_right(make_rule: MakeRule) -> None:
    make_rule(kinds=["counts_wrong"], addresses=["orders.#"])
    take("orders.eu")
    take("elsewhere")
    for place in Address.objects.all():
        CounterCheck.objects.create(address_id=place.id, seconds=0.1, wrong=3)
    assert record_alerts() == 1
    assert Alert.objects.get().title == "The counts of orders.eu are wrong by 3"
    CounterCheck.objects.update(wrong=0)
    record_alerts()
    assert kinds_open() == []
    CounterCheck.objects.update(wrong=1)
    assert record_alerts() == 1


def test_every_path_of_an_alert_is_a_page(make_rule: MakeRule) -> None:
    make_rule(limits={"source_unreachable": 1, "oldest_undecided": 1})
    take_dead()
    age("message", "state_at", timedelta(minutes=90))
    Address.objects.update(status="STOPPED", name="a&b.c" + "\N{PILE OF POO}" * 250)
    Source.objects.create(name="s", kind="rabbitmq", failures=3, last_error="x", last_error_at=timezone.now())
    age("source", "created_at", timedelta(minutes=11))
    record_alerts()
    assert kinds_open() == ["address_stopped", "new_group", "oldest_undecided", "source_unreachable"]
    for alert in Alert.objects.all():
        resolve(alert.path.partition("?")[0])
    assert Alert.objects.get(kind="address_stopped").path.startswith("/addresses/one/?name=a%26b.c%F0%9F")


def test_a_rule_that_is_switched_off_and_on_reports_no_occurrence_twice(make_rule: MakeRule) -> None:
    make_rule(kinds=["address_stopped"])
    take("orders.eu")
    Address.objects.update(status="STOPPED")
    assert record_alerts() == 1
    for is_enabled in (False, True):
        AlertRule.objects.update(is_enabled=is_enabled)
        assert record_alerts() == 0
    assert kinds_open() == ["address_stopped"]
    assert AlertDelivery.objects.count() == 1


def test_what_happens_at_once_is_sent_together(make_rule: MakeRule, receiver: Receiver) -> None:
    make_rule(limits={"oldest_undecided": 1})
    for number in range(60):
        take_dead("orders.eu", exception_class=f"Error{number}")
    age("message", "state_at", timedelta(minutes=90))
    assert tick() == (61, 1)
    document = json.loads(receiver.requests[0].body)["data"]
    assert (len(document["alerts"]), document["more"]) == (50, 11)


def test_mails_are_gathered_for_a_minute_after_the_first(make_rule: MakeRule, mail: MailServer) -> None:
    make_rule(channel="email", to=["night@example.org"])
    take_dead()
    tick()
    for number in (1, 2):
        take_dead("orders.eu", exception_class=f"Error{number}")
        assert tick() == (1, 0)
    make_due()
    tick()
    assert [str(one["Subject"]) for _, one in mail.mails][1].endswith("2 alerts by the rule night watch")
    assert AlertDelivery.objects.count() == 2


def quiet_now() -> dict[str, str]:
    """Return quiet hours that are now, with an hour left."""
    now = datetime.now(UTC)
    return {"quiet_from": f"{now - timedelta(hours=2):%H:%M}", "quiet_until": f"{now + timedelta(hours=1):%H:%M}"}


def test_what_is_still_so_after_the_quiet_hours_is_sent_as_one(make_rule: MakeRule, receiver: Receiver) -> None:
    make_rule(**quiet_now())
    over, _ = take_dead(), take_dead("parked", exception_class="Other")
    assert tick() == (2, 0)
    take_dead("parked", exception_class="Third")
    assert tick() == (1, 0)
    decisions.mark_fail([over], principal=SYSTEM, reason="r")
    record_alerts()
    make_due()
    assert send_due(post) == 1
    document = json.loads(receiver.requests[0].body)["data"]
    assert sorted(one["facts"]["error_class"] for one in document["alerts"]) == ["Other", "Third"]
    assert AlertDelivery.objects.count() == 1


def test_what_was_over_before_the_quiet_hours_ended_is_not_sent(make_rule: MakeRule, receiver: Receiver) -> None:
    make_rule(**quiet_now())
    message = take_dead()
    record_alerts()
    decisions.mark_fail([message], principal=SYSTEM, reason="r")
    record_alerts()
    make_due()
    assert send_due(post) == 0
    assert (AlertDelivery.objects.get().state, receiver.requests) == ("dropped", [])


def test_the_same_thing_is_sent_at_most_once_in_the_time_of_a_rule(make_rule: MakeRule, receiver: Receiver) -> None:
    make_rule(kinds=["address_stopped"], repeat_minutes=30)
    take("orders.eu")
    Address.objects.update(status="STOPPED", status_at=timezone.now())
    assert tick() == (1, 1)
    Address.objects.update(status_at=timezone.now())
    assert tick() == (1, 0)
    held = AlertDelivery.objects.latest("id")
    first = AlertDelivery.objects.earliest("id")
    assert (held.is_held, held.planned_at - first.planned_at) == (True, timedelta(minutes=30))
    make_due()
    assert tick() == (0, 2), "that the first time is over, and that there is a second one"


def test_old_alerts_are_forgotten_and_open_ones_are_not(make_rule: MakeRule) -> None:
    make_rule(kinds=["new_group", "oldest_undecided"], limits={"oldest_undecided": 1})
    take_dead()
    tick()
    age("message", "state_at", timedelta(minutes=90))
    tick()
    Alert.objects.filter(kind="new_group").update(resolved_at=timezone.now() - timedelta(days=31))
    age("alert_delivery", "created_at", timedelta(days=31))
    forget_old()
    assert kinds_open() == ["oldest_undecided"]
    assert (Alert.objects.count(), AlertDelivery.objects.count()) == (1, 1)


LARGE = ("message", "lane", "address", "failure_group", "operation", "alert", "alert_delivery")


def test_an_idle_tick_asks_little_and_has_an_index_for_each_question(make_rule: MakeRule) -> None:
    make_rule()
    make_rule("orders", addresses=["orders.#"])
    asked: list[tuple[str, Any]] = []

    def note(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        asked.append((sql, parameters))
        return execute(sql, parameters, many, context)

    take_dead()
    tick()
    with connection.execute_wrapper(note):
        assert tick() == (0, 0)
    assert len(asked) < 60
    with transaction.atomic(), connection.cursor() as cursor:
        # The tables of a test are small: where a plan still reads one whole, it has no index.
        cursor.execute("SET LOCAL enable_seqscan = off")
        for sql, parameters in asked:
            if re.match(r"\s*(SELECT|UPDATE|WITH)\b", sql):
                cursor.execute(f"EXPLAIN {sql}", parameters)
                plan = "\n".join(row[0] for row in cursor.fetchall())
                whole = [table for table in LARGE if re.search(rf"Seq Scan on {table}\b", plan)]
                assert "FROM address WHERE name = ANY" in sql or not whole, plan


def test_a_rule_that_is_deleted_while_its_alerts_are_recorded_leaves_nothing_behind(make_rule: MakeRule) -> None:
    rule = make_rule(kinds=["address_stopped"])
    lasting = make_rule("lasting", kinds=["address_stopped"])
    take("orders.eu")
    Address.objects.update(status="STOPPED")
    found: list[str] = []

    def delete_first(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        if "FOR KEY SHARE" in sql and not found:
            found.append(sql)
            with ThreadPoolExecutor(1) as other:
                other.submit(in_own_session, lambda: delete_alert_rule(rule.id, principal=SYSTEM)).result()
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(delete_first):
        assert record_alerts() == 1
    assert [alert.rule_id for alert in Alert.objects.all()] == [lasting.id]


def in_own_session(act: Callable[[], object]) -> None:
    """Do it in a thread, whose session is closed afterwards."""
    try:
        act()
    finally:
        connection.close()


def test_an_archive_that_fails_is_reported_until_a_run_succeeds(make_rule: MakeRule) -> None:
    make_rule(kinds=["archive_fails"])

    def begun(*, is_dry_run: bool, **fields: str) -> LongRun:
        params = {"is_dry_run": is_dry_run}
        return LongRun.objects.create(kind="archive", requested_by="system", params=params, position={}, **fields)

    run = begun(is_dry_run=False, error="the bucket is gone")
    assert record_alerts() == 0
    age("run", "created_at", timedelta(minutes=61))
    assert record_alerts() == 1
    assert Alert.objects.get().title == "The archive has not succeeded for 1 h: the bucket is gone"
    LongRun.objects.filter(id=run.id).update(state="succeeded", error=None)
    record_alerts()
    assert kinds_open() == []
    begun(is_dry_run=True, error="x", state="failed")
    assert record_alerts() == 0
    begun(is_dry_run=False, error="x", state="failed")
    assert record_alerts() == 1


def test_a_disk_that_is_nearly_full_is_reported_once_a_host(make_rule: MakeRule) -> None:
    make_rule(kinds=["disk_fills"])
    gib = 2**30
    for name, free, size in (("io@a", 5, 60), ("spark-batch@a", 4, 60), ("io@b", 6, 60), ("io@c", 150, 3000)):
        Worker.objects.create(
            name=name, host=name[-1], pid=1, disk_path="/var/p", disk_free_bytes=free * gib, disk_bytes=size * gib
        )
    assert record_alerts() == 1
    assert Alert.objects.get().title == "The disk of /var/p on a is nearly full: 4.0 of 60.0 GiB are free"
    Worker.objects.filter(host="a").update(disk_free_bytes=30 * gib)
    record_alerts()
    assert kinds_open() == []
