"""Conformance ART-7: the sample configuration, with its jitter, by the pure rules; the vectors stand beside it."""

import pytest

from poisonadmin.policies.domain.policy import Policy
from poisonadmin.policies.domain.retry_schedule import Sign, delay_ms

SAMPLE = Policy(
    redelivery_delay=5000,
    redelivery_delay_multiplier=1.5,
    redelivery_collision_avoidance_factor=0.15,
    max_redelivery_delay=50_000,
)


@pytest.mark.conformance("ART-7", "ART-5", "ART-c")
def test_the_sample_configuration_gives_its_waits_without_jitter() -> None:
    delays = tuple(delay_ms(SAMPLE, failure) for failure in range(1, 8))
    assert delays == (5000, 7500, 11_250, 16_875, 25_312, 37_968, 50_000)


@pytest.mark.conformance("ART-7", "ART-5", "ART-19", "R1")
@pytest.mark.parametrize(
    ("failure", "sign", "wait"),
    [(1, 1, 5375), (1, -1, 4625), (4, 1, 18_140), (4, -1, 15_609), (6, 1, 40_815), (7, 1, 50_000), (7, -1, 50_000)],
)
def test_half_of_the_jitter_is_seven_and_a_half_percent_and_never_passes_the_cap(
    failure: int, sign: Sign, wait: int
) -> None:
    assert delay_ms(SAMPLE, failure, sign=sign, fraction=0.5) == wait
