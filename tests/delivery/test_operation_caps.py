"""How much a claim takes from the lanes of operations: what others leave, and no more than a rate has slots for."""

from typing import NamedTuple

from poisonadmin.delivery.domain.claim_plan import Allowance, LaneCap, operation_caps, run_lengths


class DueLane(NamedTuple):
    """A lane of an operation."""

    id: int
    destination_id: int
    operation_id: int
    slots: int | None = None


def room(destination_id: int, take: int = 100) -> Allowance:
    return Allowance(destination_id, take, at_once=8, shards=(0,), overlapped=4)


A, B = 1, 2
RATED, OTHER, FREE = 7, 9, 8


def test_without_a_rate_it_takes_a_quarter_and_a_few_at_least() -> None:
    """What comes in meanwhile waits until it has been begun."""
    lanes = [DueLane(1, A, FREE), DueLane(2, B, FREE)]
    assert operation_caps(lanes, [room(A), room(B, 5)], {}) == (LaneCap(1, A, 25), LaneCap(2, B, 5))
    assert operation_caps(lanes, [room(B, 20)], {}) == (LaneCap(2, B, 16),)


def test_its_lanes_on_a_destination_share_that() -> None:
    lanes = [DueLane(1, A, FREE), DueLane(2, A, FREE)]
    assert operation_caps(lanes, [room(A)], {}) == (LaneCap(1, A, 13), LaneCap(2, A, 12))


def test_with_a_rate_the_lanes_of_one_destination_share_the_slots_and_get_no_more() -> None:
    lanes = [DueLane(1, A, RATED, 5), DueLane(2, B, RATED, 5), DueLane(3, A, RATED, 5)]
    assert operation_caps(lanes, [room(A), room(B)], {}) == (LaneCap(1, A, 3), LaneCap(3, A, 2))
    many = [DueLane(n, A, RATED, 5) for n in range(60)]
    assert sum(one.cap for one in operation_caps(many, [room(A)], {})) == 5


def test_what_a_short_run_leaves_of_the_slots_the_next_lanes_get() -> None:
    lanes = [DueLane(1, A, RATED, 6), DueLane(2, A, RATED, 6)]
    assert operation_caps(lanes, [room(A)], {1: [11], 2: [21, 22, 23, 24, 25, 26]}) == (
        LaneCap(1, A, 1),
        LaneCap(2, A, 5),
    )


def test_its_runs_fit_into_the_allowance_with_those_before_them() -> None:
    runs = {1: list(range(8)), 2: list(range(100, 108))}
    caps = operation_caps([DueLane(2, A, FREE)], [room(A, 10)], runs, before=[LaneCap(1, A, 8)])
    assert caps == (LaneCap(2, A, 2),)


def test_a_destination_without_room_keeps_nothing_from_the_others() -> None:
    """Else what waits longest, at an endpoint that hangs, would hold the whole operation."""
    lanes = [DueLane(1, A, RATED, 5), DueLane(2, B, RATED, 5)]
    assert operation_caps(lanes, [room(B)], {}) == (LaneCap(2, B, 5),)


def test_nor_does_one_whose_own_rate_others_use() -> None:
    lanes = [DueLane(1, A, RATED, 5), DueLane(2, B, RATED, 5)]
    caps = operation_caps(lanes, [room(A), room(B)], {}, before=[LaneCap(9, A, 1)], rated={A})
    assert caps == (LaneCap(2, B, 5),)


def test_a_destination_gives_slots_of_its_own_rate_to_one_operation_at_a_time() -> None:
    """Those of two would begin at the same moments, twice as many as it takes."""
    lanes = [DueLane(1, A, RATED, 5), DueLane(2, A, OTHER, 5), DueLane(3, A, FREE)]
    assert operation_caps(lanes, [room(A)], {}, rated={A}) == (LaneCap(1, A, 5),)
    assert len(operation_caps(lanes, [room(A)], {})) == 3


def test_a_rate_whose_slots_are_used_up_takes_nothing() -> None:
    assert operation_caps([DueLane(1, A, RATED, 0)], [room(A)], {}) == ()


def test_of_each_conversation_twice_its_even_share_is_read() -> None:
    """Of a hundred conversations and few slots, hundreds of messages would be read for each that begins."""
    paced = [DueLane(n, A, RATED, 30) for n in range(10)]
    free = [DueLane(20, A, 0), DueLane(21, B, FREE)]
    lengths = run_lengths([*paced, *free], [room(A), room(B)], longest=50)
    assert lengths == {lane.id: 6 for lane in paced} | {20: 50, 21: 50}
    assert run_lengths([DueLane(1, A, RATED, 0)], [room(A)], longest=50) == {1: 0}
