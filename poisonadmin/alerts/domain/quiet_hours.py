"""Hours of the day in which nothing is sent, in the time of a place."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

_CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


@dataclass(frozen=True)
class QuietHours:
    """From `begin` to `end` of each day; over midnight where `end` is the earlier one. `zone`: an IANA name."""

    begin: time
    end: time
    zone: str

    def ends_at(self, now: datetime) -> datetime | None:
        """Return when the quiet hours end in which `now` is, in UTC; None where it is in none.

        When the clocks change, hours that begin before and end after are an hour longer or shorter. A time that does
        not exist on a day is read by the offset before the change; one that exists twice is the first.

        >>> night = QuietHours(time(22), time(6), "Europe/Berlin")
        >>> str(night.ends_at(datetime(2026, 1, 10, 22, 30, tzinfo=UTC)))
        '2026-01-11 05:00:00+00:00'
        """
        today = now.astimezone(ZoneInfo(self.zone)).date()
        for day in (today - timedelta(days=1), today):
            last_day = day if self.begin < self.end else day + timedelta(days=1)
            end = self._moment(last_day, self.end)
            if self._moment(day, self.begin) <= now < end:
                return end
        return None

    def _moment(self, day: date, at: time) -> datetime:
        return datetime.combine(day, at, ZoneInfo(self.zone)).astimezone(UTC)


def parse_clock(text: str) -> time | None:
    """Return the time of day that `HH:MM` is; None for anything else.

    >>> parse_clock("06:30"), parse_clock("6:30")
    (datetime.time(6, 30), None)
    """
    found = _CLOCK.fullmatch(text)
    return time(int(found[1]), int(found[2])) if found else None


@lru_cache(maxsize=1)
def zones() -> frozenset[str]:
    """Return the names of the time zones that this machine knows."""
    return frozenset(available_timezones())
