"""What is proposed: stars around the group that stays, without what is merged or dismissed."""

from itertools import combinations

from poisonadmin.groups.alike.domain.proposals import MAX_PROPOSALS, AlikeAnswer, ComparedGroup, Proposal, propose
from poisonadmin.groups.alike.domain.similarity import ComparedFailure

# Each has one frame more than the one before, so neighbours are alike and those far apart are not.
CHAIN = [ComparedFailure("E", "no <text>", tuple(f"a.py:f{n}" for n in range(-more, 5))) for more in (0, 1, 2, 3, 4, 5)]
ELSEWHERE = ComparedFailure("F", "gone", ("b.py:g", "b.py:h"))


def group(number: int, seen_as: int | None = None) -> ComparedGroup:
    return ComparedGroup(number, seen_as or number, f"f{number}", number, 1)


def proposed(
    failures: dict[int, ComparedFailure], *groups: ComparedGroup, dismissed: set[str] = frozenset()
) -> list[Proposal]:  # type: ignore[assignment]
    pairs = list(combinations(failures, 2))
    return propose(groups, AlikeAnswer(len(groups), pairs, failures), dismissed=dismissed)


def merges(proposals: list[Proposal]) -> list[tuple[int, int]]:
    return [(one.group.seen_as, one.into.seen_as) for one in proposals]


def test_each_goes_once_and_what_stays_does_not_go() -> None:
    failures = dict(enumerate(CHAIN, 1)) | {9: ELSEWHERE}
    found = proposed(failures, *(group(number) for number in failures))
    goes, stays = zip(*merges(found), strict=True)
    assert len({*goes}) == len(goes)
    assert {*goes}.isdisjoint(stays)
    assert 9 not in {*goes, *stays}
    assert (2, 1) in merges(found)


def test_those_named_first_stay() -> None:
    failures = {1: CHAIN[0], 2: CHAIN[1]}
    assert merges(proposed(failures, group(1), group(2))) == [(2, 1)]
    assert merges(proposed(failures, group(2), group(1))) == [(1, 2)]


def test_each_goes_where_it_is_most_like() -> None:
    failures = {1: CHAIN[0], 2: CHAIN[3], 3: CHAIN[1]}
    (only,) = proposed(failures, group(1), group(2), group(3))
    assert (only.group.id, only.into.id) == (3, 1)
    failures = {1: CHAIN[0], 2: CHAIN[3], 3: CHAIN[2]}
    (only,) = proposed(failures, group(1), group(2), group(3))
    assert (only.group.id, only.into.id) == (3, 2)


def test_the_best_star_comes_first_and_in_it_the_best_pair() -> None:
    other = [ComparedFailure("G", "x y", tuple(f"c.py:{n}" for n in range(-more, 30))) for more in (0, 1)]
    found = proposed({1: CHAIN[0], 2: CHAIN[1], 3: other[0], 4: other[1]}, *map(group, range(1, 5)))
    assert merges(found) == [(4, 3), (2, 1)]
    assert [one.place for one in found] == [0, 1]
    assert found[0].similarity > found[1].similarity


def test_what_is_merged_is_compared_as_one_and_not_proposed() -> None:
    failures = {1: ELSEWHERE, 2: CHAIN[0], 3: CHAIN[1], 4: CHAIN[2]}
    found = proposed(failures, group(1), group(2, 1), group(3, 1), group(4))
    assert merges(found) == [(4, 1)]
    assert (found[0].into.id, found[0].group.id) == (3, 4)


def test_what_is_dismissed_is_proposed_again_when_a_group_has_another_fingerprint() -> None:
    failures = {1: CHAIN[0], 2: CHAIN[1]}
    (one,) = proposed(failures, group(1), group(2))
    assert proposed(failures, group(2), group(1), dismissed={one.digest}) == []
    grown = proposed(failures | {3: ELSEWHERE}, group(1), group(2), group(3, 2), dismissed={one.digest})
    assert merges(grown) == [(2, 1)]
    # Another group, which is like both, goes to the one that it is most like.
    failures |= {3: CHAIN[2]}
    assert merges(proposed(failures, group(1), group(3), group(2), dismissed={one.digest})) == [(3, 2)]


def test_of_many_the_best_are_proposed() -> None:
    failures = {number: CHAIN[number % 2] for number in range(1, MAX_PROPOSALS + 50)}
    groups = [group(number) for number in failures]
    pairs = [(1, number) for number in failures if number > 1]
    found = propose(groups, AlikeAnswer(len(groups), pairs, failures), dismissed=())
    assert len(found) == MAX_PROPOSALS
    assert {one.into.id for one in found} == {1}
