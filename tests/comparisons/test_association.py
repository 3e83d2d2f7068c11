"""The test of one condition, to the digit, and the correction for many."""

from fractions import Fraction
from math import comb, isclose, log

import pytest

from poisonadmin.comparisons.domain.association import Association, holm


@pytest.mark.parametrize(
    ("counts", "g", "p"),
    [
        # Worked out by hand: twice the sum of O ln(O / E) over the four fields of the table.
        (Association(10, 30, 30, 55), 3.5588669, 0.0592330),
        (Association(98, 100, 30, 1000), 502.0644, 3.4e-111),
        (Association(50, 100, 500, 1000), 0.0, 1.0),
    ],
)
def test_the_g_test_gives_its_statistic_and_chance(counts: Association, g: float, p: float) -> None:
    assert isclose(counts.g, g, rel_tol=1e-6, abs_tol=1e-9)
    assert isclose(counts.p, p, rel_tol=0.02)


def test_the_statistic_is_twice_the_gain_in_likelihood() -> None:
    counts = Association(30, 40, 20, 160)

    def likelihood(hits: int, of: int, share: float) -> float:
        return hits * log(share) + (of - hits) * log(1 - share)

    apart = likelihood(30, 40, 30 / 40) + likelihood(20, 160, 20 / 160)
    together = likelihood(50, 200, 50 / 200)
    assert isclose(counts.g, 2 * (apart - together), rel_tol=1e-12)


@pytest.mark.parametrize(("hits", "failing", "other_hits", "others"), [(4, 5, 1, 20), (3, 10, 0, 200), (6, 6, 2, 50)])
def test_few_are_tested_exactly(hits: int, failing: int, other_hits: int, others: int) -> None:
    all_hits = hits + other_hits
    ways = sum(Fraction(comb(failing, n) * comb(others, all_hits - n)) for n in range(hits, min(failing, all_hits) + 1))
    exact = 2 * ways / comb(failing + others, all_hits)
    assert isclose(Association(hits, failing, other_hits, others).p, float(exact), rel_tol=1e-9)


def test_what_all_or_none_have_tells_nothing() -> None:
    assert Association(10, 10, 90, 90).p == Association(0, 10, 0, 90).p == Association(0, 0, 0, 0).p == 1.0
    assert not Association(10, 10, 90, 90).is_more


def test_the_lift_of_what_no_other_has_counts_half_a_message() -> None:
    assert Association(10, 10, 0, 100).lift == 200


def test_corrected_chances_never_fall_and_never_exceed_one() -> None:
    assert holm([0.5, 0.001, 0.001, 0.04], 4) == [0.5, 0.004, 0.004, 0.08]
    assert holm([0.3], 100) == [1.0]
    assert holm([], 5) == []
