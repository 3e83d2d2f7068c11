"""The job over stored failures: it finds what comparing every pair finds, also where all are of one kind."""

import time
from functools import partial

import pytest
from django.conf import settings
from pyspark.sql import SparkSession

from poisonadmin.archive.commands.erasing import request_erasure
from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.groups.alike.commands import request_search
from poisonadmin.groups.alike.domain.proposals import AskedGroups, ComparedGroup, propose
from poisonadmin.groups.alike.queries import compared_groups, list_proposals
from poisonadmin.messages.domain.dead_letter import DeadLetter
from poisonadmin.store.models.archive import ArchivedMessage
from poisonadmin.store.models.attempt import FailureGroup
from poisonadmin.store.models.failure_group import GroupProposal
from poisonadmin.store.models.run import LongRun
from tests.alike_groups.planted import figures, plant
from tests.alike_groups.proposals import every_pair, search_due, take_in
from tests.archive.fixtures import age, archive, erase_with, place  # noqa: F401  (a fixture)
from tests.fixtures.decisions import mark_fail
from workers.spark.jobs.alike import _MOST_PAIRS, _NEIGHBOURS, alike_pairs, find_alike
from workers.spark.jobs.archive import SparkArchiveStore

pytestmark = pytest.mark.django_db(transaction=True)


def test_planted_near_duplicates_are_proposed_and_few_others(spark: SparkSession) -> None:
    planted = plant(300, 60, seed=7)
    messages = take_in(planted.failures)
    at = {message: number for number, message in enumerate(messages)}
    asked = compared_groups()
    groups = asked.groups
    assert len(groups) == len(planted.failures)
    begun = time.monotonic()
    answer = find_alike(spark, asked)
    proposals = propose(groups, answer, dismissed=())
    found = figures(planted, proposals, lambda group: at[group.message_id])
    print(f"{found}; {len(answer.pairs)} pairs compared of {len(groups) ** 2 // 2}, {time.monotonic() - begun:.1f} s")
    assert answer.compared == len(groups)
    assert proposals == propose(groups, every_pair(asked), dismissed=())
    assert found.recall >= 0.95
    assert found.precision >= 0.9
    assert len(answer.pairs) < len(groups) * 5


def test_what_is_stored_is_compared_as_what_came_in(spark: SparkSession) -> None:
    planted = plant(20, 15, seed=3)
    take_in(planted.failures)
    asked = compared_groups()
    answer = find_alike(spark, asked)
    assert len(answer.failures) == len(asked.groups)
    assert answer.failures == every_pair(asked).failures


def test_many_groups_of_one_kind_are_a_star(spark: SparkSession) -> None:
    common = [f"k{n}" for n in range(20)]
    rows = [(place_, [*common, f"own {place_}"]) for place_ in range(400)]
    failures = spark.createDataFrame(rows, "place int, tokens array<string>").persist()
    begun = time.monotonic()
    pairs = {(row["first"], row["second"]) for row in alike_pairs(failures).collect()}
    failures.unpersist()
    print(f"{len(pairs)} pairs of {len(rows)} in {time.monotonic() - begun:.1f} s")
    assert {(0, number) for number in range(1, len(rows))} <= pairs
    assert len(pairs) <= min(_MOST_PAIRS, len(rows) * (_NEIGHBOURS * 3))


def test_the_search_stores_what_the_job_finds_and_an_erased_message_takes_it_along(
    spark: SparkSession,
    place: str,  # noqa: F811
) -> None:
    stack = "E: no\n" + "\n".join(f"\tat com.shop.Orders{n}.apply(Orders.java:{n})" for n in range(6))
    text = "<script>{% x %} \N{RIGHT-TO-LEFT OVERRIDE}"
    hostile = DeadLetter(exception_class="E", exception_message=text, stack="\tat " * 9999)
    take_in(
        [
            DeadLetter(exception_class="E", exception_message="order 1 is closed", stack=stack),
            DeadLetter(exception_class="com.shop.E", exception_message="order 2 is closed", stack=stack),
            hostile,
            DeadLetter(reason="expired"),
        ]
    )
    made = request_search(principal=SYSTEM)
    search_due(partial(find_alike, spark))
    row = LongRun.objects.get(id=made)
    assert (row.state, row.error, row.result["groups"], row.result["proposals"]) == ("succeeded", None, 4, 1)
    (found,) = list_proposals(principal=SYSTEM).results
    assert found.text == (
        "The same: all frames, the message. Different: the class of the cause is"
        f" `{found.into.error_class}` in #{found.into.id}, `{found.group.error_class}` in #{found.group.id}."
    )
    request_erasure({"message_id": ["orders.eu 1"]}, reason="asked for", principal=SYSTEM)
    erase_with(SparkArchiveStore(spark, settings.ARCHIVE))
    assert not GroupProposal.objects.exists()


def test_groups_whose_failures_are_all_archived_are_compared(spark: SparkSession, place: str) -> None:  # noqa: F811
    planted = plant(40, 20, seed=5)
    messages = take_in(planted.failures)
    before = find_alike(spark, compared_groups())
    wanted = propose(compared_groups().groups, before, dismissed=())
    assert len(wanted) > 10
    # All of the first ones, and some of their near-duplicates.
    gone = [*messages[:45], *messages[50:]]
    assert len(mark_fail(gone, principal=SYSTEM, reason="given up").changed) == len(gone)
    age(gone, 500)
    request_archive_run(principal=SYSTEM)
    archive(spark)
    assert sorted(ArchivedMessage.objects.values_list("id", flat=True)) == sorted(gone)
    asked = compared_groups()
    assert (len(asked.groups), asked.left_out) == (len(messages), 0)
    assert sum(one.attempt_number is None for one in asked.groups) == len(gone)
    after = find_alike(spark, asked)
    assert (after.compared, after.failures, sorted(after.pairs)) == (
        before.compared, before.failures, sorted(before.pairs),
    )  # fmt: skip
    made = request_search(principal=SYSTEM)
    search_due(partial(find_alike, spark))
    assert LongRun.objects.get(id=made).result["proposals"] == len(wanted)
    # A group without a live message is in nobody's limited scope.
    assert len(list_proposals(principal=SYSTEM, limit=200).results) == len(wanted)
    elsewhere = principal("kim", Role.VIEWER, ["invoices.#"])
    assert list_proposals(principal=elsewhere).results == []
    # One that was erased is gone from the archive, and its group is left out.
    request_erasure({"message_id": ["orders.eu 0"]}, reason="asked for", principal=SYSTEM)
    erase_with(SparkArchiveStore(spark, settings.ARCHIVE))
    assert compared_groups().left_out == 1


def test_without_groups_nothing_is_compared(spark: SparkSession) -> None:
    assert find_alike(spark, AskedGroups([])).compared == 0
    gone = ComparedGroup(1, 1, "f", 10**12, 1)
    assert find_alike(spark, AskedGroups([gone])).compared == 0
    assert not FailureGroup.objects.exists()
