"""Retry-After in its two forms, and what is not one."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.policies.domain.retry_schedule import MAX_RETRY_AFTER_MS, retry_after_ms

NOW = datetime(2026, 11, 20, 5, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", 0),
        ("120", 120_000),
        (" 7 ", 7_000),
        ("999999999999", MAX_RETRY_AFTER_MS),
        ("Fri, 20 Nov 2026 05:00:10 GMT", 10_000),
        ("Friday, 20-Nov-26 05:00:10 GMT", 10_000),
        ("Fri Nov 20 05:00:10 2026", 10_000),
        ("Fri, 20 Nov 2026 04:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_RETRY_AFTER_MS),
        ("Fri, 20 Nov 2026 05:00:10 +0100", 0),
    ],
)
def test_seconds_and_dates_are_read(value, expected):
    assert retry_after_ms(value, now=NOW) == expected


@pytest.mark.parametrize(
    "value", ["", "-1", "1.5", "soon", "٣", "1e3", "9" * 100, "Fri, 99 Nov 2026 05:00:10 GMT", "\0"]
)
def test_anything_else_asks_for_nothing(value):
    assert retry_after_ms(value, now=NOW) is None


@given(st.text())
def test_no_text_makes_it_fail_or_leave_its_bounds(value):
    wait = retry_after_ms(value, now=NOW)
    assert wait is None or 0 <= wait <= MAX_RETRY_AFTER_MS
