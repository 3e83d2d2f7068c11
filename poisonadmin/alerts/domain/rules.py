"""An alert rule as a person writes it, the checks of its fields, and its quiet hours."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from poisonadmin.alerts.domain.kinds import KINDS, MOST_MINUTES, AlertKind, ChannelKind
from poisonadmin.core.domain import settings
from poisonadmin.core.domain.addresses import ANY_WORDS, MAX_ADDRESS_CHARS, validate_pattern
from poisonadmin.core.domain.errors import InvalidField
from poisonadmin.core.domain.settings import Checks, InvalidValue, checked, one_of, whole
from poisonadmin.groups.domain.annotations import growth_of

MAX_NAME_CHARS = 100
MAX_PATTERNS = 50
MAX_REPEAT_MINUTES = 7 * 24 * 60
MAX_SEARCH_CHARS = 1000
MAX_GROWTH_CHARS = 16
MAX_RECIPIENTS = 20
MAX_RECIPIENT_CHARS = 2048
_MINUTES = "must be a whole number of minutes from {} to {}."
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


class InvalidAlertRule(InvalidField):
    """Raised when a field of an alert rule is invalid; `field` names what is wrong."""

    code = "invalid_alert_rule"


def _kinds(kinds: Sequence[str]) -> list[str]:
    for kind in kinds:
        if kind not in KINDS:
            raise InvalidValue(f"{kind[:40]!r} is none of {', '.join(KINDS)}.")
    if not kinds:
        raise InvalidValue("must name at least one kind.")
    return [str(kind) for kind in KINDS if kind in kinds]


def _addresses(patterns: Sequence[str]) -> list[str]:
    if not 1 <= len(patterns) <= MAX_PATTERNS:
        raise InvalidValue(f"must be 1 to {MAX_PATTERNS} patterns; # is every address.")
    return list(dict.fromkeys(validate_pattern(pattern) for pattern in patterns))


def _zone(zone: str) -> str:
    if zone not in zones():
        raise InvalidValue("must be a time zone such as Europe/Berlin or UTC.")
    return zone


def _growth(text: str) -> str:
    ((kind, value),) = growth_of(text).items()
    return f"{value} %" if kind == "percent" else str(value)


@settings.configuration
class AlertRuleFields:
    """`limits`: minutes by kind, for kinds that have a limit. `growth`: by which a group grows in the minutes of
    `group_grows`. `to`: where the channel sends. `search`: words of the search box, empty for every message.

    `quiet_from`, `quiet_until`: `HH:MM` in `time_zone`, or both None. An alert on the same thing is sent at most once
    in `repeat_minutes`. `send_resolved`: its end is sent, too.
    """

    name: str = settings.name_of(MAX_NAME_CHARS)
    kinds: Sequence[str] = settings.lines("Reports", _kinds, least=1, most=len(AlertKind), each=32)
    addresses: Sequence[str] = settings.lines(
        "Address patterns, one a line",
        _addresses,
        default=[ANY_WORDS],
        most=MAX_PATTERNS,
        each=MAX_ADDRESS_CHARS,
        rows=2,
        note="# is every address.",
    )
    limits: Mapping[str, int] = settings.other(default={})
    growth: str = settings.text(
        "Growth of a group",
        _growth,
        default="100",
        api={"max_length": MAX_GROWTH_CHARS},
        hint="100 or 20 %",
        note="Failures in that time, or a share of those before.",
    )
    search: str = settings.text(
        "Search",
        default="",
        most=MAX_SEARCH_CHARS,
        hint='header.client-version:"4.2.0"',
        note="Words of the search box; with this, a rule reports old undecided messages that match, and nothing else.",
    )
    channel: str = settings.choice("Channel", one_of(ChannelKind, "."))
    repeat_minutes: int = settings.number(
        "At most once in minutes",
        whole(1, MAX_REPEAT_MINUTES, wrong=_MINUTES),
        default=60,
        note="For alerts of one kind on the same group, address or source.",
    )
    send_resolved: bool = settings.switch("Send also when an alert is resolved", default=True)
    quiet_from: str | None = settings.text(
        "Quiet from", default=None, api={"max_length": 5}, hint="22:00", note="Empty: never quiet."
    )
    quiet_until: str | None = settings.text(
        "Quiet until",
        default=None,
        api={"max_length": 5},
        hint="06:00",
        note="What is still open then is sent together.",
    )
    time_zone: str = settings.text(
        "Time zone", _zone, default="UTC", api={"max_length": 64}, note="Such as Europe/Berlin."
    )
    is_enabled: bool = settings.switch("Switched on", default=True)
    to: Sequence[str] = settings.lines(
        "Sends to",
        least=1,
        most=MAX_RECIPIENTS,
        each=MAX_RECIPIENT_CHARS,
        rows=2,
        hint="https://hooks.example.org/poisonadmin",
    )


def checked_fields(fields: AlertRuleFields, instead: Checks | None = None) -> AlertRuleFields:
    """Return the fields with every limit filled in; raise InvalidAlertRule.

    `instead`: the checks of `to`, which is for the channel, and of the words of `search`, which is for who searches.
    """
    own: Checks = {
        "limits": lambda: _limits(fields.limits, fields.kinds),
        "search": lambda: checked_search(fields.search, fields.kinds),
    }
    quiet = {"quiet_from": lambda: quiet_hours(fields.quiet_from, fields.quiet_until, "UTC")}
    return checked(fields, InvalidAlertRule, also=quiet, instead={**own, **(instead or {})})


def quiet_hours(begin: str | None, end: str | None, zone: str) -> QuietHours | None:
    """Return the quiet hours, None where there are none; raise InvalidAlertRule."""
    if begin is None and end is None:
        return None
    if begin is None or end is None:
        raise InvalidAlertRule("quiet_from" if begin is None else "quiet_until", "is required for quiet hours.")
    times = {"quiet_from": parse_clock(begin), "quiet_until": parse_clock(end)}
    for name, at in times.items():
        if at is None:
            raise InvalidAlertRule(name, "must be a time of day such as 22:00.")
    first, last = times.values()
    if first is None or last is None or first == last:
        raise InvalidAlertRule("quiet_until", "must differ from the beginning; to send nothing, switch the rule off.")
    return QuietHours(first, last, zone)


def _limits(limits: Mapping[str, int], kinds: Sequence[str]) -> dict[str, int]:
    with_limit = {kind: info.limit for kind, info in KINDS.items() if info.limit is not None}
    for kind in limits:
        if kind not in with_limit:
            raise InvalidValue(f"{kind[:40]!r} has no limit; {', '.join(with_limit)} have one.")
    found: dict[str, int] = {}
    for kind, limit in with_limit.items():
        if kind in kinds:
            check = whole(limit.least, MOST_MINUTES, wrong=f"{kind}: {_MINUTES}")
            found[str(kind)] = check(limits.get(kind, limit.default))
    return found


def checked_search(search: str, kinds: Sequence[str]) -> str:
    """Return the words of a search that may narrow such kinds; raise InvalidValue."""
    if len(search) > MAX_SEARCH_CHARS:
        raise InvalidValue(f"has at most {MAX_SEARCH_CHARS} characters.")
    searched = [str(kind) for kind, info in KINDS.items() if info.has_search]
    if search.strip() and (others := [kind for kind in kinds if kind not in searched]):
        raise InvalidValue(
            f"narrows {', '.join(searched)} only, not {others[0][:40]}; make another rule for other kinds."
        )
    return search.strip()


def belongs_to_addresses(kinds: Sequence[str]) -> bool:
    """Return whether every kind belongs to addresses; otherwise the rule is for who sees all of them."""
    return all(KINDS[AlertKind(kind)].has_address for kind in kinds)
