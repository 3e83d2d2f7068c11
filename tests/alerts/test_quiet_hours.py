"""Quiet hours by the clock of a place: over midnight, and when clocks change."""

from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.alerts.domain.rules import QuietHours, parse_clock, zones

BERLIN = "Europe/Berlin"
NIGHT = QuietHours(time(22), time(6), BERLIN)


def at(text: str) -> datetime:
    """Return a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("hours", "now", "end"),
    [
        (NIGHT, "2026-01-10T20:59:59", None),
        (NIGHT, "2026-01-10T21:00:00", "2026-01-11T05:00:00"),
        (NIGHT, "2026-01-10T23:59:59", "2026-01-11T05:00:00"),
        (NIGHT, "2026-01-11T04:59:59", "2026-01-11T05:00:00"),
        (NIGHT, "2026-01-11T05:00:00", None),
        # Summer: an hour earlier in UTC.
        (NIGHT, "2026-07-10T20:00:00", "2026-07-11T04:00:00"),
        # The night of the change to summer is an hour shorter, that of the change to winter an hour longer.
        (NIGHT, "2026-03-28T21:00:00", "2026-03-29T04:00:00"),
        (NIGHT, "2026-10-24T20:00:00", "2026-10-25T05:00:00"),
        # 02:30 does not exist on that day, and on this one it exists twice.
        (QuietHours(time(22), time(2, 30), BERLIN), "2026-03-29T01:15:00", "2026-03-29T01:30:00"),
        (QuietHours(time(22), time(2, 30), BERLIN), "2026-03-29T01:30:00", None),
        (QuietHours(time(22), time(2, 30), BERLIN), "2026-10-25T00:15:00", "2026-10-25T00:30:00"),
        (QuietHours(time(22), time(2, 30), BERLIN), "2026-10-25T01:15:00", None),
        # By day, and where the date is another one than in UTC.
        (QuietHours(time(12), time(13), "UTC"), "2026-01-10T12:30:00", "2026-01-10T13:00:00"),
        (QuietHours(time(12), time(13), "UTC"), "2026-01-10T23:30:00", None),
        (QuietHours(time(8), time(18), "Pacific/Kiritimati"), "2026-01-09T18:00:00", "2026-01-10T04:00:00"),
    ],
)
def test_quiet_hours_end_when_the_place_says(hours: QuietHours, now: str, end: str | None) -> None:
    assert hours.ends_at(at(now)) == (None if end is None else at(end))


@given(
    st.times(timezones=st.none()).map(lambda one: one.replace(second=0, microsecond=0)),
    st.times(timezones=st.none()).map(lambda one: one.replace(second=0, microsecond=0)),
    st.sampled_from([BERLIN, "America/St_Johns", "Australia/Lord_Howe", "UTC"]),
    st.integers(0, 366 * 24 * 60).map(lambda minutes: at("2026-01-01") + timedelta(minutes=minutes)),
)
def test_the_end_lies_ahead_and_within_a_day_and_is_no_quiet_time(
    begin: time, end: time, zone: str, now: datetime
) -> None:
    hours = QuietHours(begin, end, zone)
    if begin == end or (ends := hours.ends_at(now)) is None:
        return
    assert now < ends <= now + timedelta(hours=26)
    again = hours.ends_at(ends)
    assert again is None or again - ends > timedelta(hours=20)


@pytest.mark.parametrize("text", ["", "24:00", "7:00", "07:60", "٠٧:٠٠", "07:00:00"])
def test_what_is_no_time_of_day_is_none(text: str) -> None:
    assert parse_clock(text) is None


def test_this_machine_knows_time_zones() -> None:
    assert {"UTC", BERLIN} <= zones()
