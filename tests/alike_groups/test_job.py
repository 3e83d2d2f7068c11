"""The job over stored failures: it finds what comparing every pair finds, also where all are of one kind."""

import time

import pytest
from django.conf import settings
from pyspark.sql import SparkSession

from poisonadmin.alike_groups.commands.carry_out import search_due
from poisonadmin.alike_groups.commands.requests import request_search
from poisonadmin.alike_groups.domain.proposals import ComparedGroup, propose
from poisonadmin.alike_groups.queries.compared_groups import compared_groups
from poisonadmin.alike_groups.queries.proposals import list_proposals
from poisonadmin.archive.commands.erasing import erase_due, request_erasure
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.intake.domain.dead_letter import DeadLetter
from poisonadmin.store.models.alike_groups import AlikeSearch, GroupProposal
from poisonadmin.store.models.attempt import FailureGroup
from tests.alike_groups.planted import figures, plant
from tests.alike_groups.proposals import every_pair, take_in
from tests.archive.fixtures import place  # noqa: F401  (a fixture)
from workers.spark.archive_store import SparkArchiveStore
from workers.spark.jobs.alike import _MOST_PAIRS, _NEIGHBOURS, alike_pairs, find_alike

pytestmark = pytest.mark.django_db(transaction=True)


def test_planted_near_duplicates_are_proposed_and_few_others(spark: SparkSession) -> None:
    planted = plant(300, 60, seed=7)
    messages = take_in(planted.failures)
    at = {message: number for number, message in enumerate(messages)}
    groups = compared_groups().groups
    assert len(groups) == len(planted.failures)
    begun = time.monotonic()
    answer = find_alike(spark, groups)
    proposals = propose(groups, answer, dismissed=())
    found = figures(planted, proposals, lambda group: at[group.message_id])
    print(f"{found}; {len(answer.pairs)} pairs compared of {len(groups) ** 2 // 2}, {time.monotonic() - begun:.1f} s")
    assert answer.compared == len(groups)
    assert proposals == propose(groups, every_pair(groups), dismissed=())
    assert found.recall >= 0.95
    assert found.precision >= 0.9
    assert len(answer.pairs) < len(groups) * 5


def test_what_is_stored_is_compared_as_what_came_in(spark: SparkSession) -> None:
    planted = plant(20, 15, seed=3)
    take_in(planted.failures)
    groups = compared_groups().groups
    answer = find_alike(spark, groups)
    whole = every_pair(groups)
    assert answer.failures
    assert answer.failures == {number: whole.failures[number] for number in answer.failures}


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
    search_due(lambda groups: find_alike(spark, groups), worker="tests")
    row = AlikeSearch.objects.get(id=made)
    assert (row.state, row.error, row.groups, row.proposals) == ("done", None, 4, 1)
    (found,) = list_proposals(principal=SYSTEM).results
    assert found.text == (
        "The same: all frames, the message. Different: the class of the cause is"
        f" `{found.into.error_class}` in #{found.into.id}, `{found.group.error_class}` in #{found.group.id}."
    )
    request_erasure({"message_id": ["orders.eu 1"]}, reason="asked for", principal=SYSTEM)
    erase_due(SparkArchiveStore(spark, settings.ARCHIVE), worker="tests", seconds=60)
    assert not GroupProposal.objects.exists()


def test_without_groups_nothing_is_compared(spark: SparkSession) -> None:
    assert find_alike(spark, []).compared == 0
    gone = ComparedGroup(1, 1, "f", 10**12, 1)
    assert find_alike(spark, [gone]).compared == 0
    assert not FailureGroup.objects.exists()
