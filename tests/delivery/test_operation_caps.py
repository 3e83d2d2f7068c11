"""How much a claim takes from the lanes of operations: what others leave, and no more than a rate has slots for."""

from typing import NamedTuple

from poisonadmin.delivery.domain.claim_plan import Allowance, LaneCap, operation_caps


class DueLane(NamedTuple):
    """A lane of an operation."""

    id: int
    destination_id: int
    operation_id: int


def room(destination_id: int, take: int = 100) -> Allowance:
    return Allowance(destination_id, take, at_once=8, shards=(0,), overlapped=4)


A, B = 1, 2
RATED, FREE = 7, 8


def test_without_a_rate_it_takes_a_quarter_and_at_least_what_is_under_way_at_once() -> None:
    """What comes in meanwhile waits until it has been begun."""
    lanes = [DueLane(1, A, FREE), DueLane(2, B, FREE)]
    assert operation_caps(lanes, [room(A), room(B, 5)], {}, spaced=()) == (LaneCap(1, A, 25), LaneCap(2, B, 5))
    assert operation_caps(lanes, [room(B, 20)], {}, spaced=()) == (LaneCap(2, B, 8),)


def test_its_lanes_on_a_destination_share_that() -> None:
    lanes = [DueLane(1, A, FREE), DueLane(2, A, FREE)]
    assert operation_caps(lanes, [room(A)], {}, spaced=()) == (LaneCap(1, A, 13), LaneCap(2, A, 13))


def test_with_a_rate_the_lanes_of_one_destination_share_the_slots() -> None:
    lanes = [DueLane(1, A, RATED), DueLane(2, B, RATED), DueLane(3, A, RATED)]
    assert operation_caps(lanes, [room(A), room(B)], {RATED: 5}, spaced=()) == (LaneCap(1, A, 3), LaneCap(3, A, 3))


def test_a_destination_without_room_keeps_nothing_from_the_others() -> None:
    """Else what waits longest, at an endpoint that hangs, would hold the whole operation."""
    lanes = [DueLane(1, A, RATED), DueLane(2, B, RATED)]
    assert operation_caps(lanes, [room(B)], {RATED: 5}, spaced=()) == (LaneCap(2, B, 5),)


def test_nor_does_one_whose_own_rate_others_use() -> None:
    lanes = [DueLane(1, A, RATED), DueLane(2, B, RATED)]
    assert operation_caps(lanes, [room(A), room(B)], {RATED: 5}, spaced={A}) == (LaneCap(2, B, 5),)


def test_a_rate_whose_slots_are_used_up_takes_nothing() -> None:
    assert operation_caps([DueLane(1, A, RATED)], [room(A)], {RATED: 0}, spaced=()) == ()
