"""The campaign's own arithmetic: a fault that heals late must not look as if it had healed at once."""

from tests.faults.run import seconds_until_back
from tests.whole_system.consumer import Arrival


def arrivals(*times: float) -> list[Arrival]:
    """Return arrivals at these seconds."""
    return [Arrival(n, 1, "a", at, 200, b"", "") for n, at in enumerate(times)]


def steadily(first: int, last: int) -> list[float]:
    """Return ten times a second."""
    return [first + n / 10 for n in range((last - first) * 10)]


def test_what_still_comes_just_after_the_fault_does_not_hide_the_silence_that_follows() -> None:
    came = arrivals(*steadily(0, 10), *steadily(10, 11), *steadily(19, 30))
    assert abs(seconds_until_back(came, 10, 10) - 9) < 0.2


def test_no_silence_means_back_at_once() -> None:
    assert seconds_until_back(arrivals(*steadily(0, 30)), 10, 10) < 0.2


def test_a_trickle_is_not_the_rate_from_before() -> None:
    came = arrivals(*steadily(0, 10), *(10 + n / 2 for n in range(20)), *steadily(20, 30))
    assert abs(seconds_until_back(came, 10, 10) - 10) < 1


def test_the_end_of_what_is_left_counts_when_it_is_less_than_a_second_of_before() -> None:
    assert seconds_until_back(arrivals(*steadily(0, 10), 12.0), 10, 10) == 2.0
    assert seconds_until_back(arrivals(*steadily(0, 10)), 10, 10) == 0.0
