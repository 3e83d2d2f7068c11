"""The claim's window: it follows what a destination can do, and says why it was cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.delivery.domain.window import MAX_WINDOW, next_window


@st.composite
def claims(draw: st.DrawFn) -> tuple[int, int, int, int, int]:
    """Return window, claimed, begun, transport failures, delivered, consistent with each other."""
    window = draw(st.integers(1, MAX_WINDOW))
    claimed = draw(st.integers(0, window))
    begun = draw(st.integers(0, claimed))
    transport_failures = draw(st.integers(0, begun))
    return window, claimed, begun, transport_failures, draw(st.integers(0, begun - transport_failures))


def after(claim: tuple[int, int, int, int, int]) -> tuple[int, str | None]:
    window, claimed, begun, transport_failures, delivered = claim
    return next_window(window, claimed=claimed, begun=begun, transport_failures=transport_failures, delivered=delivered)


@given(claims())
def test_a_window_stays_within_its_bounds(claim):
    assert 1 <= after(claim)[0] <= MAX_WINDOW


@given(claims())
def test_a_window_never_more_than_doubles(claim):
    assert after(claim)[0] <= 2 * claim[0]


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
def test_a_full_claim_that_was_delivered_doubles_the_window(window):
    expected = (min(MAX_WINDOW, 2 * window), None)
    assert next_window(window, claimed=window, begun=window, transport_failures=0, delivered=window) == expected


@given(st.integers(2, MAX_WINDOW), st.data())
def test_a_claim_that_began_some_shrinks_the_window_to_what_was_begun(window, data):
    begun = data.draw(st.integers(1, window - 1))
    assert next_window(window, claimed=window, begun=begun, transport_failures=0, delivered=0) == (begun, None)


@pytest.mark.parametrize(
    ("window", "claimed", "begun", "transport_failures", "delivered", "expected"),
    [
        (256, 256, 0, 0, 0, 128),
        (256, 20, 20, 0, 20, 256),
        (256, 4, 4, 4, 0, 256),
        (256, 128, 128, 0, 128, 512),
        (8192, 8192, 8192, 0, 8192, 8192),
        (256, 256, 256, 256, 0, 128),
        (256, 256, 64, 64, 0, 64),
        (1, 1, 1, 1, 0, 1),
        (1, 1, 1, 0, 0, 2),
        (4, 3, 3, 3, 0, 4),
        (256, 256, 256, 255, 1, 512),
        (256, 0, 0, 0, 0, 256),
    ],
)
def test_the_window_after_a_claim(window, claimed, begun, transport_failures, delivered, expected):
    got, _ = next_window(
        window, claimed=claimed, begun=begun, transport_failures=transport_failures, delivered=delivered
    )
    assert got == expected


@given(claims(), st.integers(1, MAX_WINDOW))
def test_a_claim_that_began_no_more_than_one_in_each_slot_never_grows_the_window(claim, slots):
    """Work that takes seconds fills every slot of a claim once, and has not shown that more could begin soon (R14)."""
    window, claimed, begun, transport_failures, delivered = claim
    counts = {"begun": min(begun, slots), "transport_failures": min(transport_failures, slots), "delivered": delivered}
    assert next_window(window, claimed=claimed, slots=slots, **counts)[0] <= window


def test_the_first_claim_for_a_destination_that_answers_at_once_doubles_what_it_took():
    counts = {"claimed": 65, "begun": 65, "transport_failures": 0, "delivered": 65}
    assert next_window(1, slots=64, **counts) == (130, None)


def test_the_reason_counts_the_deliveries_and_names_the_cause():
    _, why = next_window(8, claimed=8, begun=8, transport_failures=8, delivered=0, cause="connection refused")
    assert why == "8 of 8 deliveries failed: connection refused"


def test_a_destination_that_answers_again_is_back_at_full_speed_in_fourteen_claims():
    window = 8192
    for _ in range(14):
        window, _ = next_window(window, claimed=window, begun=window, transport_failures=window, delivered=0)
    assert window == 1
    for _ in range(13):
        window, why = next_window(window, claimed=window, begun=window, transport_failures=0, delivered=window)
        assert why is None
    assert window == 8192
