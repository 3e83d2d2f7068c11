"""Which failure groups keep their identity when their failures get other fingerprints.

A group stays what it is, with its id, where most of its failures go. What else it held goes to other groups, or to new
ones. Where several groups become one, one of them stays, and the others are shown in its place: they are merged into
it.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple


class FailureMove(NamedTuple):
    """Failures that go from a fingerprint to another, or keep theirs: their number, the first, and the last time."""

    was: str
    fingerprint: str
    n: int
    title: str
    error_class: str
    message_id: int
    attempt_number: int
    finished_at: datetime
    last_at: datetime


class RegroupedFailure(NamedTuple):
    """A failure with its fingerprints and title. `former`: as it is stored; `was`: as it is seen so far."""

    message_id: int
    attempt_number: int
    former: str
    was: str
    fingerprint: str
    title: str


@dataclass(frozen=True)
class KnownGroup:
    """A group as it is. `is_noted`: people have said something of it, or merged others into it."""

    id: int
    fingerprint: str
    failures: int = 0
    merged_into: int | None = None
    is_noted: bool = False


@dataclass
class RegroupPlan:
    """`main`: where most failures of a fingerprint go, by that fingerprint, where it is another one.

    `staying`: group id by the fingerprint that it has from now on, where that is another one. `others`: the groups
    that give theirs up, and the fingerprint that they have instead.

    `dissolved`: groups whose failures another one has from now on. `merged_into`: what changes of that. `new`: the
    fingerprints that need a group; `former`: those that no group has any more, and the group that is shown for them.
    """

    main: dict[str, str] = field(default_factory=dict)
    staying: dict[str, int] = field(default_factory=dict)
    others: dict[int, str] = field(default_factory=dict)
    dissolved: dict[int, int] = field(default_factory=dict)
    merged_into: dict[int, int | None] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)
    former: dict[str, int] = field(default_factory=dict)


def plan_regrouping(
    groups: Sequence[KnownGroup], moved: Mapping[tuple[str, str], int], kept: Collection[str]
) -> RegroupPlan:
    """Return what becomes of the groups. `groups`: all there are. `moved`: how many failures go from a fingerprint to
    another; `kept`: fingerprints that some failure keeps. A group of such a one goes nowhere, though it may give way.

    >>> seven, nine = KnownGroup(7, "a", failures=90), KnownGroup(9, "b", failures=10)
    >>> one = plan_regrouping([seven], {("a", "A"): 60, ("a", "B"): 30}, [])
    >>> (one.staying, one.new, one.former)
    ({'A': 7}, ['B'], {'a': 7})
    >>> both = plan_regrouping([seven, nine], {("a", "A"): 90, ("b", "A"): 10}, [])
    >>> (both.staying, both.dissolved, both.merged_into)
    ({'A': 7}, {9: 7}, {9: 7})
    """
    by_id = {group.id: group for group in groups}
    held = {group.fingerprint for group in groups}  # what no policy counts as a failure has none, and gets none
    going: dict[str, dict[str, int]] = defaultdict(dict)
    for (was, now), count in moved.items():
        going[was][now] = count
    main = {
        was: min(some.items(), key=lambda item: (-item[1], item[0]))[0]
        for was, some in going.items()
        if was not in kept
    }
    claimants: dict[str, list[KnownGroup]] = defaultdict(list)
    for group in groups:
        claimants[main.get(group.fingerprint, group.fingerprint)].append(group)
    holder = {fingerprint: min(some, key=_rank) for fingerprint, some in claimants.items()}
    plan = RegroupPlan(
        main=main,
        staying={one: group.id for one, group in holder.items() if group.fingerprint != one},
        dissolved={
            group.id: holder[one].id for one, some in claimants.items() for group in some if group != holder[one]
        },
        new=sorted({now for was, now in moved if was in held} - set(holder)),
    )
    taken = {*holder, *plan.new}
    free = held - taken - {by_id[one].fingerprint for one in plan.dissolved}
    for one, stays in sorted(plan.dissolved.items()):
        if by_id[one].fingerprint in taken:
            former = by_id[stays].fingerprint
            plan.others[one] = former if former in free else _unused(one)
            free.discard(former)
    roots = _Roots(by_id, plan.dissolved)
    plan.former = {group.fingerprint: roots.of(group.id) for group in groups if group.fingerprint in free}
    for group in groups:
        into = roots.of(group.id)
        seen = None if into == group.id else into
        if seen != group.merged_into:
            plan.merged_into[group.id] = seen
    return plan


def _rank(group: KnownGroup) -> tuple[bool, bool, int, int]:
    """Return what says which of several groups stays: the lowest does."""
    return group.merged_into is not None, not group.is_noted, -group.failures, group.id


def _unused(group_id: int) -> str:
    """Return a fingerprint that no failure has."""
    return hashlib.sha256(f"dissolved {group_id}".encode()).hexdigest()[:16]


class _Roots:
    """The group that people see in a group's place, where some are dissolved."""

    def __init__(self, groups: Mapping[int, KnownGroup], dissolved: Mapping[int, int]) -> None:
        self._groups, self._dissolved = groups, dissolved

    def of(self, group_id: int) -> int:
        """Return the id; the lowest of a ring that merges and a new rule have made together."""
        way: list[int] = []
        while group_id not in way:
            way.append(group_id)
            into = self._dissolved.get(group_id, self._groups[group_id].merged_into)
            if into is None or into not in self._groups:
                return group_id
            group_id = into
        return min(way[way.index(group_id) :])
