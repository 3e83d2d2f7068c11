"""Durations as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.core.domain.durations import between, milliseconds_of, written
from poisonadmin.core.domain.settings import InvalidValue
from poisonadmin.policies.domain.settings import MAX_DELAY_MS


@given(st.integers(0, MAX_DELAY_MS))
def test_what_is_written_is_read_again(milliseconds: int) -> None:
    assert milliseconds_of(written(milliseconds)) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "5000", "soon", "5 weeks", "-5 s", "5 s later", "1e3 s", "٣ s", "s", "9" * 5000 + " s"]
)
def test_no_duration_is_guessed(text: str) -> None:
    with pytest.raises(InvalidValue, match="90s, 5 min or 1 h 30 min"):
        milliseconds_of(text)


def test_a_duration_is_stored_in_milliseconds_and_has_bounds() -> None:
    check = between(0, 300_000)
    assert (check("5 min"), check(5000)) == (300_000, 5000)
    for value in ("5 min 1 ms", 300_001, True, 1.5, None):
        with pytest.raises(InvalidValue, match="from 0 s to 5 min"):
            check(value)
