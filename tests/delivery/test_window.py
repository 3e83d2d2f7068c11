"""The claim's window: it follows what a destination can do, and says why it was cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.delivery.domain.window import GROWTH, MAX_WINDOW, START_BUDGET_SECONDS, DestinationTally, next_window


@st.composite
def claims(draw: st.DrawFn) -> tuple[int, int, int, int, int]:
    """Return window, claimed, begun, transport failures, delivered, consistent with each other."""
    window = draw(st.integers(1, MAX_WINDOW))
    claimed = draw(st.integers(0, window))
    begun = draw(st.integers(0, claimed))
    transport_failures = draw(st.integers(0, begun))
    return window, claimed, begun, transport_failures, draw(st.integers(0, begun - transport_failures))


def after(claim: tuple[int, int, int, int, int], **more: float) -> tuple[int, str | None]:
    window, claimed, begun, transport_failures, delivered = claim
    return next_window(
        window,
        DestinationTally(
            1, claimed=claimed, begun=begun, transport_failures=transport_failures, delivered=delivered, **more
        ),
    )


@given(claims())
def test_a_window_stays_within_its_bounds(claim):
    assert 1 <= after(claim)[0] <= MAX_WINDOW


@given(claims())
def test_a_window_grows_by_no_more_than_its_factor(claim):
    assert after(claim)[0] <= GROWTH * claim[0]


@given(claims())
def test_a_reason_is_given_exactly_when_every_delivery_failed_in_transport(claim):
    window, _, begun, transport_failures, _ = claim
    silent = begun >= min(5, window) and transport_failures == begun
    assert (after(claim)[1] is not None) == silent


@given(claims())
def test_a_claim_that_was_not_begun_whole_never_grows_the_window(claim):
    window, claimed, begun, *_ = claim
    if begun < claimed:
        assert after(claim)[0] <= window


@given(st.integers(1, MAX_WINDOW))
def test_a_full_claim_that_was_delivered_makes_the_window_larger(window):
    expected = (min(MAX_WINDOW, GROWTH * window), None)
    assert after((window, window, window, 0, window)) == expected


@given(st.integers(2, MAX_WINDOW), st.data())
def test_a_claim_that_began_some_shrinks_the_window_to_what_was_begun(window, data):
    begun = data.draw(st.integers(1, window - 1))
    assert after((window, window, begun, 0, 0)) == (begun, None)


@pytest.mark.parametrize(
    ("window", "claimed", "begun", "transport_failures", "delivered", "expected"),
    [
        (256, 256, 0, 0, 0, 128),
        (256, 20, 20, 0, 20, 1024),
        (256, 4, 4, 4, 0, 256),
        (256, 128, 128, 0, 128, 1024),
        (8192, 8192, 8192, 0, 8192, 8192),
        (256, 256, 256, 256, 0, 128),
        (256, 256, 64, 64, 0, 64),
        (1, 1, 1, 1, 0, 1),
        (1, 1, 1, 0, 0, 4),
        (4, 3, 3, 3, 0, 4),
        (256, 256, 256, 255, 1, 1024),
        (256, 0, 0, 0, 0, 256),
    ],
)
def test_the_window_after_a_claim(window, claimed, begun, transport_failures, delivered, expected):
    assert after((window, claimed, begun, transport_failures, delivered))[0] == expected


@given(claims(), st.integers(1, MAX_WINDOW), st.floats(0.001, 600))
def test_a_window_grows_to_no_more_than_can_begin_in_time(claim, slots, latency):
    """Work that takes seconds has not shown that more could begin soon (R14)."""
    window, _, begun, *_ = claim
    grown, _ = after(claim, seconds=begun * latency, slots=slots)
    assert grown <= max(window, round(slots * START_BUDGET_SECONDS / latency))


def test_the_first_claim_for_a_destination_that_answers_at_once_multiplies_what_it_took():
    assert after((1, 65, 65, 0, 65), seconds=0.65, slots=64) == (260, None)


def test_a_claim_that_may_take_a_part_of_the_window_shows_as_well_how_fast_a_destination_is():
    """Operations may have a quarter of it, and a lane its share beside others: it grew no more for them."""
    window = 33
    for _ in range(4):
        claimed = max(window // 4, 32)
        window, _ = after((window, claimed, claimed, 0, claimed), seconds=claimed * 0.005, slots=32)
    assert window == MAX_WINDOW


def test_the_reason_counts_the_deliveries_and_names_the_cause():
    _, why = next_window(8, DestinationTally(1, claimed=8, begun=8, transport_failures=8, cause="connection refused"))
    assert why == "8 of 8 deliveries failed: connection refused"


def test_a_destination_that_answers_again_is_back_at_full_speed_in_seven_claims():
    window = 8192
    for _ in range(14):
        window, _ = after((window, window, window, window, 0))
    assert window == 1
    for _ in range(7):
        window, why = after((window, window, window, 0, window))
        assert why is None
    assert window == 8192
