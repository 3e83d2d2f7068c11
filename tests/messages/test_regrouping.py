"""Stored failures get the fingerprints of this version: groups keep what they are, and every count is right."""

import os
import subprocess
import sys
import threading
from collections import Counter
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from pyspark.sql import SparkSession

from poisonadmin.alerts.commands.record import record_alerts
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.delivery.commands.claim import claim_due
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.groups.commands import regroup_moves, regrouping
from poisonadmin.groups.commands.annotations import annotate
from poisonadmin.groups.commands.merged_groups import merge
from poisonadmin.groups.domain.failures import Failure, fingerprint, from_dead_letter, title
from poisonadmin.groups.domain.regroup_plan import FailureMove
from poisonadmin.groups.queries.groups import get_group, list_groups
from poisonadmin.messages.queries.counts import wrong_counters
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.lists import list_messages
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.alert import Alert
from poisonadmin.store.models.attempt import Attempt, FailureGroup, FailureWords
from poisonadmin.store.models.failure_group import GroupHour, GroupVersion, RegroupMove
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.run import LongRun
from tests.fixtures.api import take_dead
from tests.fixtures.delivery import answer, claim, counted, counters, end_nodes, enqueue, make_destination
from tests.messages.former_rules import (
    Here,
    by_class,
    by_words,
    grouped,
    groups_of,
    of,
    regroup_with,
    regrouped,
    renamed,
)
from workers.spark.jobs.regroup import SparkFailureReader

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _same_database(test_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the job read the tests' database."""
    monkeypatch.setenv("DATABASE_URL", test_database_url)


def died(number: int, **dead_letter: Any) -> list[int]:
    """Take so many dead letters in whose words differ in what varies."""
    words = dead_letter.pop("words", "no customer")
    return [take_dead(exception_message=f"order {n + 1}: {words}", **dead_letter) for n in range(number)]


def is_right() -> None:
    """Fail unless all counts agree with the messages and the failures behind them."""
    assert counted() == counters()
    assert wrong_counters() == []
    failed = Counter(Attempt.objects.exclude(outcome="delivered").values_list("fingerprint", flat=True))
    groups = {one.id: one for one in FailureGroup.objects.all()}
    assert {one.fingerprint: one.failures for one in groups.values() if one.failures} == dict(failed)
    hours = Counter[int]()
    for one in GroupHour.objects.all():
        hours[one.group_id] += one.failures
    assert dict(hours) == {one.id: one.failures for one in groups.values() if one.failures}


def is_over() -> None:
    """Fail unless nothing is left of a regrouping, and each failure has the fingerprint of this version."""
    assert not RegroupMove.objects.exists()
    for one in Attempt.objects.exclude(outcome="delivered"):
        told = {"reason": "gave up", "exception_class": one.error_class, "exception_message": one.error_message}
        assert one.fingerprint == fingerprint(from_dead_letter(told))
        assert one.title == title(from_dead_letter(told))
    for message in Message.objects.exclude(group_id=None):
        latest = Attempt.objects.filter(message_id=message.id).exclude(outcome="delivered").latest("attempt_number")
        assert FailureGroup.objects.get(id=message.group_id).fingerprint == latest.fingerprint
    is_right()


def test_a_group_keeps_its_id_and_all_that_was_said_of_it() -> None:
    with grouped(renamed):
        ids, others = died(5), died(2, exception_class="KeyError")
    [group, *_] = groups_of(ids)
    annotate(group or 0, {"note": "call Ada", "tags": ["late"]}, principal=SYSTEM)
    merge(group or 0, [groups_of(others)[0] or 0], principal=SYSTEM, reason="the same")
    before = FailureGroup.objects.get(id=group)
    words = FailureWords.objects.count()
    run = regrouped()
    assert run.result == {"read": 7, "changed": 7}
    assert set(groups_of(ids)) == {group}
    found = get_group(group or 0, principal=SYSTEM)
    assert (found.note, found.tags, found.failures, len(found.members)) == ("call Ada", ["late"], 7, 2)
    after = FailureGroup.objects.get(id=group)
    assert (after.first_at, after.last_at, after.failures) == (before.first_at, before.last_at, 5)
    assert after.fingerprint == fingerprint(Failure("TimeoutError", "order 1: no customer"))
    assert FailureGroup.objects.count() == 2, "nothing is left of the former fingerprints"
    assert FailureWords.objects.count() == words, "the failures say what they said"
    is_over()
    assert (regrouped().result or {})["changed"] == 0


def test_what_was_one_group_is_several_and_the_largest_keeps_the_id() -> None:
    with grouped(by_class):
        most, few = died(6), died(3, words="no total")
    [group] = set(groups_of([*most, *few]))
    record_alerts()
    regrouped()
    assert set(groups_of(most)) == {group}
    [other] = set(groups_of(few))
    assert other != group
    assert [one.failures for one in FailureGroup.objects.filter(id__in=[group, other]).order_by("id")] == [6, 3]
    assert get_group(other or 0, principal=SYSTEM).title == "TimeoutError: order …: no total"
    assert not FailureGroup.objects.filter(is_unseen=True).exists(), "none is new to anybody"
    assert not Alert.objects.exists()
    is_over()


def test_what_were_several_groups_is_one_and_the_others_lead_to_it() -> None:
    with grouped(by_words):
        ids = died(4)
    former = groups_of(ids)
    assert len(set(former)) == 4
    annotate(former[2] or 0, {"note": "known"}, principal=SYSTEM)
    regrouped()
    assert set(groups_of(ids)) == {former[2]}
    assert [one.id for one in list_groups(principal=SYSTEM).results] == [former[2]]
    assert get_group(former[0] or 0, principal=SYSTEM).merged_into_id == former[2]
    assert len(list_messages(parse_filter({"group": [str(former[2])]}), principal=SYSTEM).results) == 4
    is_over()


def test_what_failed_by_the_new_rule_already_joins_the_group_with_a_past() -> None:
    with grouped(by_words):
        ids = died(1) * 1 + died(1, words="no customer")
    fresh = died(2)
    [past] = set(groups_of(ids))
    assert groups_of(fresh)[0] != past
    annotate(past or 0, {"note": "known"}, principal=SYSTEM)
    regrouped()
    assert set(groups_of([*ids, *fresh])) == {past}
    is_over()


def test_counts_of_consumer_versions_follow(db: None) -> None:
    make_destination(max_delivery_attempts=1)
    ids = enqueue(3)
    taken = claim()
    for message, words in zip(ids, ("no customer", "no customer", "no total"), strict=True):
        answer(
            [message],
            "failed",
            error_class="E",
            error_message=words,
            fingerprint=of("E"),
            title="E",
            consumer_version="2",
        )
    end_nodes(taken)
    settle()
    assert [one.failures for one in GroupVersion.objects.all()] == [3]
    regrouped()
    assert sorted(GroupVersion.objects.values_list("group_id", "failures")) == sorted(
        Counter(groups_of(ids)).items()  # type: ignore[type-var]
    )


def test_what_is_under_way_is_counted_when_it_is_settled_and_where_it_belongs() -> None:
    make_destination(redelivery_delay=0)
    former = {"error_class": "E", "fingerprint": of("E"), "title": "E"}
    [message] = enqueue()
    for words in ("no customer", "no total"):
        taken = claim()
        answer([message], "failed", error_message=words, **former)
        end_nodes(taken)
        if words == "no customer":
            settle()
    regrouped()
    [group] = groups_of([message])
    assert FailureGroup.objects.get(id=group).fingerprint == fingerprint(Failure("E", "no customer"))
    settle()
    assert sorted(FailureGroup.objects.values_list("fingerprint", "failures")) == sorted(
        (fingerprint(Failure("E", words)), 1) for words in ("no customer", "no total")
    )
    assert counted() == counters()


def test_with_spark_in_small_ranges(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regrouping, "RANGE_MESSAGES", 7)
    monkeypatch.setattr(regrouping, "MOVED_RANGE_MESSAGES", 7)
    monkeypatch.setattr(regroup_moves, "MESSAGES_A_PIECE", 5)
    with grouped(by_class):
        most, few = died(40), died(20, words="no total")
    with grouped(by_words):
        many = died(6, exception_class="KeyError")
    is_right()
    run = regrouped(SparkFailureReader(spark))
    assert run.result == {"read": 66, "changed": 66}
    assert [len(set(groups_of(ids))) for ids in (most, few, many)] == [1, 1, 1]
    is_over()
    assert {(one.kind, one.state) for one in LongRun.objects.all()} == {("regroup", "succeeded")}


def test_deliveries_go_on_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regroup_moves, "MESSAGES_A_PIECE", 3)
    make_destination(redelivery_delay=0, max_delivery_attempts=4)
    with grouped(by_class):
        died(30), died(15, words="no total")
    waiting = enqueue(40)
    told = {
        "error_class": "TimeoutError",
        "error_message": "order 9: no customer",
        "fingerprint": fingerprint(Failure("TimeoutError", "order 9: no customer")),
        "title": title(Failure("TimeoutError", "order 9: no customer")),
    }
    problems: list[BaseException] = []

    def deliver() -> None:
        try:
            while Message.objects.filter(id__in=waiting, state="TBDL").exists():
                # A claim leaves what the regrouping has locked at the moment to the next one.
                if (taken := claim_due(tasks=1, limit=100)) is None:
                    continue
                answer(Message.objects.filter(claim_id=taken.id).values_list("id", flat=True), "failed", **told)
                end_nodes(taken)
                settle()
                died(2)
        except BaseException as error:
            problems.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=deliver)
    thread.start()
    regrouped()
    thread.join()
    assert problems == []
    regrouped()
    is_over()
    assert len(set(groups_of(waiting))) == 1


_KILLED = """
import json, os, random, signal, sys
import django
django.setup()
from django.db import connection
from poisonadmin.groups.commands import regroup_moves, regrouping
from poisonadmin.messages.queries.counts import wrong_counters
from poisonadmin.store.models.run import LongRun
from tests.messages.former_rules import Here, regroup_with
from workers.spark.jobs import regroup
regroup_moves.MESSAGES_A_PIECE, regrouping.RANGE_MESSAGES = 4, 6
regrouping.MOVED_RANGE_MESSAGES = 6
as_now = regroup.as_now
deaths = 0
for turn in range(1, 400):
    if LongRun.objects.filter(ended_at=None).count() == 0:
        break
    connection.close()
    pid = os.fork()
    if pid == 0:
        left = [turn]
        def step(*_):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
        def count(execute, sql, parameters, many, context):
            step()
            try:
                return execute(sql, parameters, many, context)
            finally:
                step()
        regroup.as_now = lambda stored: (step(), as_now(stored))[1]
        with connection.execute_wrapper(count):
            regroup_with(Here())
        os._exit(0)
    deaths += os.waitpid(pid, 0)[1] == signal.SIGKILL
    assert wrong_counters() == [], turn
print(deaths)
"""


def test_killed_at_any_line_it_goes_on_and_every_count_is_right_meanwhile(test_database_url: str) -> None:
    with grouped(by_class):
        most, few = died(9), died(5, words="no total")
    with grouped(by_words):
        many = died(3, exception_class="KeyError")
    [group, *_] = groups_of(most)
    call_command("regroup")
    environment = os.environ | {"DATABASE_URL": test_database_url}
    done = subprocess.run([sys.executable, "-c", _KILLED], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 40
    assert LongRun.objects.get().state == "succeeded"
    assert set(groups_of(most)) == {group}
    assert [len(set(groups_of(ids))) for ids in (most, few, many)] == [1, 1, 1]
    is_over()


def test_an_error_makes_it_wait_and_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with grouped(renamed):
        died(2)

    class Failing(Here):
        def survey(self, *_: Any, **__: Any) -> list[FailureMove]:
            raise OSError("no space left")

    run = regrouping.request_regrouping(actor="test")
    with pytest.raises(OSError, match="no space"):
        regroup_with(Failing())
    regroup_with(Failing())  # it waits
    assert [one.error for one in LongRun.objects.all()] == ["OSError: no space left"]
    LongRun.objects.update(resumes_at=timezone.now())
    assert regrouped().id == run.run_id
    is_over()


def test_the_command_asks_once_and_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    died(1)
    for _ in range(2):
        call_command("regroup")
    assert LongRun.objects.filter(kind="regroup").count() == 1
    assert "read up to message 0 of" in capsys.readouterr().out
    assert Audit.objects.filter(action="regrouping.requested", actor="command line").count() == 1
