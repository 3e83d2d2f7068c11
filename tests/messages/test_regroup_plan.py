"""Which groups stay, whatever a new rule makes of their failures and whatever people have merged."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.groups.domain.regroup_plan import KnownGroup, RegroupPlan, plan_regrouping

MARKS = [f"f{number}" for number in range(6)]


def after(groups: list[KnownGroup], plan: RegroupPlan) -> dict[str, int]:
    """Return which group has each fingerprint from then on; 0 for one that is made."""
    held = {group.id: group.fingerprint for group in groups}
    held |= {group_id: one for one, group_id in plan.staying.items()} | plan.others
    found = (
        {one: group_id for group_id, one in held.items()} | dict.fromkeys(plan.new, 0) | dict.fromkeys(plan.former, 0)
    )
    assert len(found) == len(held) + len(plan.new) + len(plan.former), "no fingerprint has two groups"
    return found


def seen_as(groups: list[KnownGroup], plan: RegroupPlan) -> dict[int, int | None]:
    """Return what each group is merged into from then on."""
    return {group.id: plan.merged_into.get(group.id, group.merged_into) for group in groups}


def test_a_group_that_splits_stays_where_most_of_its_failures_go() -> None:
    plan = plan_regrouping([KnownGroup(7, "a", 90)], {("a", "x"): 30, ("a", "y"): 60}, [])
    assert (plan.staying, plan.new, plan.former, plan.dissolved) == ({"y": 7}, ["x"], {"a": 7}, {})


def test_a_group_of_which_a_failure_stays_keeps_its_fingerprint() -> None:
    plan = plan_regrouping([KnownGroup(7, "a", 90)], {("a", "x"): 89}, ["a"])
    assert (plan.staying, plan.new, plan.former) == ({}, ["x"], {})


def test_of_groups_that_become_one_that_which_people_know_stays() -> None:
    known, large = KnownGroup(9, "b", 3, is_noted=True), KnownGroup(7, "a", 90)
    plan = plan_regrouping([known, large], {("a", "x"): 90, ("b", "x"): 3}, [])
    assert (plan.staying, plan.dissolved, plan.merged_into) == ({"x": 9}, {7: 9}, {7: 9})


def test_a_group_that_failed_by_the_new_rule_already_gives_way_to_the_one_with_a_past() -> None:
    plan = plan_regrouping([KnownGroup(7, "a", 90), KnownGroup(9, "x", 2)], {("a", "x"): 90}, [])
    assert (plan.staying, plan.others, plan.merged_into) == ({"x": 7}, {9: "a"}, {9: 7})
    assert plan.former == {}, "the other one stands for the former fingerprint"


def test_what_was_merged_stays_merged() -> None:
    groups = [KnownGroup(1, "a", 5, is_noted=True), KnownGroup(2, "b", 9, merged_into=1)]
    plan = plan_regrouping(groups, {("a", "x"): 5, ("b", "y"): 9}, [])
    assert (plan.staying, seen_as(groups, plan)) == ({"x": 1, "y": 2}, {1: None, 2: 1})
    assert plan.former == {"a": 1, "b": 1}


def test_what_was_merged_into_a_group_that_gives_way_follows_it() -> None:
    groups = [
        KnownGroup(1, "a", 5, is_noted=True),
        KnownGroup(2, "b", 9, merged_into=1),
        KnownGroup(3, "c", 99, None, True),
    ]
    plan = plan_regrouping(groups, {("a", "x"): 5, ("c", "x"): 99}, ["b"])
    assert (plan.dissolved, seen_as(groups, plan)) == ({1: 3}, {1: 3, 2: 3, 3: None})


def test_fingerprints_may_change_places() -> None:
    groups = [KnownGroup(1, "a", 5), KnownGroup(2, "b", 9)]
    plan = plan_regrouping(groups, {("a", "b"): 5, ("b", "a"): 9}, [])
    assert (plan.staying, plan.former, plan.dissolved) == ({"b": 1, "a": 2}, {}, {})


def test_what_belongs_to_no_group_gets_none() -> None:
    assert plan_regrouping([], {("a", "x"): 5}, []) == RegroupPlan(main={"a": "x"})


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 6), st.booleans()), max_size=6),
    st.dictionaries(st.tuples(st.sampled_from(MARKS), st.sampled_from([*MARKS, "x", "y", "z"])), st.integers(1, 9)),
    st.sets(st.sampled_from(MARKS)),
)
def test_after_any_change_each_fingerprint_has_one_group_that_is_seen_as_one_that_is_not_merged(
    drawn: list[tuple[int, int, bool]], moved: Mapping[tuple[str, str], int], kept: set[str]
) -> None:
    places = range(1, len(drawn) + 1)
    roots = {number for number, (_, into, _) in enumerate(drawn, 1) if into not in places or into == number}
    groups = [
        KnownGroup(number, MARKS[number - 1], failures, into if number not in roots and into in roots else None, noted)
        for number, (failures, into, noted) in enumerate(drawn, 1)
    ]
    moved = {pair: count for pair, count in moved.items() if pair[0] != pair[1]}
    plan = plan_regrouping(groups, moved, kept)
    held = after(groups, plan)
    known = {group.fingerprint for group in groups}
    assert {now for was, now in moved if was in known} | known <= set(held), "none is left without a group"
    seen = seen_as(groups, plan)
    for group_id, into in seen.items():
        assert into != group_id
        assert into is None or seen[into] is None, "a group is merged into one that is not merged"
    for gone, stays in plan.dissolved.items():
        assert stays not in plan.dissolved
        assert seen[gone] == (seen[stays] or stays) or seen[stays] == gone
