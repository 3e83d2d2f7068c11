"""Delays against the vectors of ART, and against a second implementation in exact fractions."""

import random
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.policies.domain.policy import BUILT_IN, Policy
from poisonadmin.policies.domain.retry_schedule import delay_ms, explain, jitter

VECTORS = [
    pytest.param(
        Policy(redelivery_delay=5000, redelivery_delay_multiplier=2, max_redelivery_delay=15000),
        (5000, 10000, 15000, 15000, 15000),
        id="ART-a",
    ),
    pytest.param(
        Policy(redelivery_delay=5000, redelivery_delay_multiplier=1.5, max_redelivery_delay=50000),
        (5000, 7500, 11250, 16875, 25312, 37968, 50000),
        id="ART-c",
    ),
    pytest.param(
        Policy(redelivery_delay=5000, redelivery_delay_multiplier=2),
        (5000, 10000, 20000, 40000, 50000, 50000),
        id="ART-d",
    ),
    pytest.param(Policy(), (0, 0, 0), id="no delay"),
    pytest.param(Policy(redelivery_delay=1000), (1000, 1000, 1000), id="multiplier 1"),
    pytest.param(
        Policy(redelivery_delay=1000, redelivery_delay_multiplier=0.5),
        (1000, 500, 250, 125, 62),
        id="multiplier below 1",
    ),
    pytest.param(Policy(redelivery_delay=1000, redelivery_delay_multiplier=0), (1000, 0, 0), id="multiplier 0"),
    pytest.param(Policy(redelivery_delay=5000, max_redelivery_delay=3000), (3000, 3000), id="cap below delay"),
    pytest.param(Policy(redelivery_delay=5000, max_redelivery_delay=0), (0, 0), id="cap 0"),
    pytest.param(
        Policy(redelivery_delay=100, redelivery_delay_multiplier=1.15), (100, 114, 132), id="a double's product"
    ),
    pytest.param(BUILT_IN, (5000, 10000, 20000, 40000, 50000, 50000, 50000, 50000, 50000), id="R10"),
]


@pytest.mark.parametrize(("policy", "waits"), VECTORS)
def test_the_delays_are_what_artemis_does(policy: Policy, waits: tuple[int, ...]) -> None:
    assert tuple(delay_ms(policy, failure) for failure in range(1, len(waits) + 1)) == waits


@pytest.mark.conformance("ART-b", "ART-5")
@pytest.mark.parametrize(("sign", "fraction", "wait"), [(-1, 0.25, 875), (1, 0.75, 1375), (-1, 0.05, 975)])
def test_jitter_is_added_with_its_sign(sign: int, fraction: float, wait: int) -> None:
    """ART-b."""
    policy = Policy(redelivery_delay=1000, redelivery_collision_avoidance_factor=0.5)
    assert delay_ms(policy, 1, sign=1 if sign > 0 else -1, fraction=fraction) == wait


@pytest.mark.conformance("ART-e", "ART-19")
def test_jitter_multiplies_the_compounded_delay() -> None:
    """ART-e."""
    policy = Policy(redelivery_delay=1000, redelivery_delay_multiplier=2, redelivery_collision_avoidance_factor=0.5)
    assert delay_ms(policy, 3, sign=1, fraction=0.75) == 5500


@pytest.mark.conformance("ART-19", "R1")
def test_the_cap_comes_after_the_jitter() -> None:
    """ART-19."""
    policy = Policy(redelivery_delay=1000, redelivery_collision_avoidance_factor=0.5, max_redelivery_delay=1200)
    assert delay_ms(policy, 1, sign=1, fraction=0.75) == 1200
    assert delay_ms(policy, 1, sign=-1, fraction=0.75) == 625


def test_the_sum_is_cut_to_whole_milliseconds_not_the_jitter() -> None:
    policy = Policy(redelivery_delay=1001, redelivery_collision_avoidance_factor=0.5)
    assert delay_ms(policy, 1, sign=-1, fraction=0.5) == 750


@pytest.mark.conformance("ART-19", "R1")
def test_no_failure_counts_as_the_first() -> None:
    """ART-19."""
    assert delay_ms(BUILT_IN, 0) == delay_ms(BUILT_IN, 1) == 5000


@pytest.mark.parametrize("failures", [1000, 1_000_000, 10**18])
@pytest.mark.parametrize("multiplier", [1.0000001, 1.5, 2, 1000.0, 1_000_000.0])
def test_the_millionth_failure_does_not_overflow(failures: int, multiplier: float) -> None:
    policy = Policy(redelivery_delay=5000, redelivery_delay_multiplier=multiplier, max_redelivery_delay=50_000)
    assert 5000 <= delay_ms(policy, failures) <= 50_000
    assert 0 <= delay_ms(policy, failures, sign=1, fraction=0.999) <= 50_000


POLICIES = st.builds(
    Policy,
    redelivery_delay=st.integers(0, 10**7),
    redelivery_delay_multiplier=st.floats(0, 10, allow_nan=False),
    redelivery_collision_avoidance_factor=st.floats(0, 1, allow_nan=False),
    max_redelivery_delay=st.one_of(st.none(), st.integers(0, 10**8)),
)
FRACTIONS = st.floats(0, 1, exclude_max=True, allow_nan=False)


@given(POLICIES, st.integers(0, 2000), st.sampled_from([1, -1]), FRACTIONS)
def test_a_delay_is_never_negative_and_never_above_the_cap(
    policy: Policy, failures: int, sign: int, fraction: float
) -> None:
    assert 0 <= delay_ms(policy, failures, sign=1 if sign > 0 else -1, fraction=fraction) <= policy.delay_cap


@given(POLICIES.filter(lambda policy: policy.redelivery_delay_multiplier >= 1), st.integers(1, 60))
def test_delays_never_fall(policy: Policy, failures: int) -> None:
    delays = [delay_ms(policy, failure) for failure in range(1, failures + 1)]
    assert all(earlier <= later for earlier, later in pairwise(delays))


def _exact_delay(policy: Policy, failures: int, sign: int, fraction: Fraction) -> Fraction:
    """Return the delay before it is cut to whole milliseconds and capped, however large, without any rounding."""
    power = Fraction(policy.redelivery_delay_multiplier) ** (max(failures, 1) - 1)
    compounded = Fraction((policy.redelivery_delay * power).__floor__())
    return compounded * (1 + sign * Fraction(policy.redelivery_collision_avoidance_factor) * fraction)


def test_delays_agree_with_exact_fractions_over_ten_thousand_random_policies() -> None:
    dice = random.Random(19)
    for _ in range(10_000):
        policy = Policy(
            redelivery_delay=dice.choice([0, 1, 1000, 5000, dice.randrange(10**6)]),
            redelivery_delay_multiplier=dice.choice([1.0, 1.25, 1.5, 2.0, 3.0, 10.0, 0.5]),
            redelivery_collision_avoidance_factor=dice.choice([0.0, 0.25, 0.5]),
            max_redelivery_delay=dice.choice([None, 0, 100, 50_000, dice.randrange(10**7)]),
        )
        failures = dice.choice([0, 1, 2, 3, 5, 9, 17, 1000])
        sign, eighths = dice.choice([1, -1]), dice.randrange(8)
        exact = _exact_delay(policy, failures, sign, Fraction(eighths, 8))
        found = delay_ms(policy, failures, sign=1 if sign > 0 else -1, fraction=eighths / 8)
        assert found == min(exact.__floor__(), policy.delay_cap), (policy, failures, sign, eighths)


@pytest.mark.conformance("R8")
def test_jitter_is_the_same_each_time_it_is_computed() -> None:
    """R8: these very numbers, since a schedule is computed again by later releases."""
    assert jitter(17, 4) == (-1, 0.8206364455186644)
    assert jitter(17, 4) == jitter(17, 4)
    assert jitter(17, 4) != jitter(17, 5)
    assert jitter(1, 23) != jitter(12, 3)


@pytest.mark.conformance("R8")
def test_the_sign_is_independent_of_the_fraction_and_both_are_even() -> None:
    """R8: 8 cells of 4,000 draws, each expected to hold 500; the bound is five standard deviations."""
    cells = Counter((sign, int(fraction * 4)) for sign, fraction in (jitter(number, 1) for number in range(4000)))
    assert len(cells) == 8
    assert all(abs(count - 500) < 105 for count in cells.values())


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1))
def test_a_fraction_is_at_least_zero_and_below_one(message_id: int, attempt_number: int) -> None:
    sign, fraction = jitter(message_id, attempt_number)
    assert sign in (1, -1)
    assert 0 <= fraction < 1


@given(POLICIES, st.integers(1, 30), st.integers(1, 10**12), st.integers(1, 100))
def test_an_explanation_ends_in_the_delay_it_explains(
    policy: Policy, failures: int, message_id: int, attempt_number: int
) -> None:
    explained = explain(policy, failures, message_id, attempt_number)
    sign, fraction = jitter(message_id, attempt_number)
    assert explained.delay == delay_ms(policy, failures, sign=sign, fraction=fraction)
    assert explained.compounded + explained.jitter_ms == explained.uncapped
    assert explained.delay == min(explained.uncapped, explained.cap)
    assert f"= {explained.compounded}" in explained.formula()


@pytest.mark.parametrize(
    ("policy", "failures", "formula"),
    [
        (Policy(redelivery_delay=1000, redelivery_delay_multiplier=2), 3, "1000 ms x 2^2 = 4000, cap 10000"),
        (Policy(redelivery_delay=1000, redelivery_delay_multiplier=2), 5, "1000 ms x 2^4 = 16000, capped at 10000"),
        (
            Policy(redelivery_delay=5000, redelivery_delay_multiplier=1.5, redelivery_collision_avoidance_factor=0.15),
            4,
            "5000 ms x 1.5^3 = 16875, jitter -2078 -> 14797, cap 50000",
        ),
    ],
)
def test_a_formula_shows_every_term_that_counts(policy: Policy, failures: int, formula: str) -> None:
    assert explain(policy, failures, message_id=17, attempt_number=4).formula() == formula
