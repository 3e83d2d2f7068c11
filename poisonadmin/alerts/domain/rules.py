"""An alert rule as a person writes it, and the checks of its fields."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from poisonadmin.alerts.domain.kinds import KINDS, MOST_MINUTES, AlertKind, ChannelKind
from poisonadmin.alerts.domain.quiet_hours import QuietHours, parse_clock, zones
from poisonadmin.core.domain.addresses import ANY_WORDS, InvalidAddress, validate_pattern
from poisonadmin.core.domain.errors import InvalidField, all_checked
from poisonadmin.core.domain.names import mistake_in

MAX_NAME_CHARS = 100
MAX_PATTERNS = 50
MAX_REPEAT_MINUTES = 7 * 24 * 60
MAX_SEARCH_CHARS = 1000


class InvalidAlertRule(InvalidField):
    """Raised when a field of an alert rule is invalid; `field` names what is wrong."""

    code = "invalid_alert_rule"


@dataclass(frozen=True)
class AlertRuleFields:
    """`limits`: minutes by kind, for kinds that have a limit. `to`: a URL, or mail addresses. `search`: words of the
    search box, empty for every message.

    `quiet_from`, `quiet_until`: `HH:MM` in `time_zone`, or both None. An alert on the same thing is sent at most once
    in `repeat_minutes`. `send_resolved`: its end is sent, too.
    """

    name: str
    kinds: Sequence[str]
    channel: str
    to: Sequence[str]
    addresses: Sequence[str] = (ANY_WORDS,)
    limits: Mapping[str, int] = field(default_factory=dict)
    search: str = ""
    quiet_from: str | None = None
    quiet_until: str | None = None
    time_zone: str = "UTC"
    repeat_minutes: int = 60
    send_resolved: bool = True
    is_enabled: bool = True


def checked_fields(fields: AlertRuleFields) -> AlertRuleFields:
    """Return the fields with every limit filled in; raise InvalidAlertRule.

    `to` is for the channel to check, and the words of `search` for who searches.
    """
    found = all_checked(
        {
            "name": lambda: _name(fields.name),
            "kinds": lambda: _kinds(fields.kinds),
            "addresses": lambda: _addresses(fields.addresses),
            "limits": lambda: _limits(fields.limits, fields.kinds),
            "search": lambda: _search(fields.search, fields.kinds),
            "channel": lambda: _channel(fields.channel),
            "quiet_from": lambda: quiet_hours(fields.quiet_from, fields.quiet_until, "UTC"),
            "time_zone": lambda: _zone(fields.time_zone),
            "repeat_minutes": lambda: _within("repeat_minutes", fields.repeat_minutes, 1, MAX_REPEAT_MINUTES),
        }
    )
    names = ("kinds", "addresses", "limits", "search")
    return replace(fields, **{name: found[name] for name in names})


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


def _name(name: str) -> str:
    if (mistake := mistake_in(name, MAX_NAME_CHARS)) is not None:
        raise InvalidAlertRule("name", mistake)
    return name


def _kinds(kinds: Sequence[str]) -> list[str]:
    for kind in kinds:
        if kind not in KINDS:
            raise InvalidAlertRule("kinds", f"{kind[:40]!r} is none of {', '.join(KINDS)}.")
    if not kinds:
        raise InvalidAlertRule("kinds", "must name at least one kind.")
    return [str(kind) for kind in KINDS if kind in kinds]


def _addresses(patterns: Sequence[str]) -> list[str]:
    if not 1 <= len(patterns) <= MAX_PATTERNS:
        raise InvalidAlertRule("addresses", f"must be 1 to {MAX_PATTERNS} patterns; # is every address.")
    try:
        return list(dict.fromkeys(validate_pattern(pattern) for pattern in patterns))
    except InvalidAddress as error:
        raise InvalidAlertRule("addresses", error.detail) from None


def _limits(limits: Mapping[str, int], kinds: Sequence[str]) -> dict[str, int]:
    with_limit = {kind: info.limit for kind, info in KINDS.items() if info.limit is not None}
    for kind in limits:
        if kind not in with_limit:
            raise InvalidAlertRule("limits", f"{kind[:40]!r} has no limit; {', '.join(with_limit)} have one.")
    found: dict[str, int] = {}
    for kind, limit in with_limit.items():
        if kind in kinds:
            minutes = limits.get(kind, limit.default)
            found[str(kind)] = _within("limits", minutes, limit.least, MOST_MINUTES, f"{kind}: ")
    return found


def _search(search: str, kinds: Sequence[str]) -> str:
    if len(search) > MAX_SEARCH_CHARS:
        raise InvalidAlertRule("search", f"has at most {MAX_SEARCH_CHARS} characters.")
    searched = [str(kind) for kind, info in KINDS.items() if info.has_search]
    if search.strip() and (others := [kind for kind in kinds if kind not in searched]):
        raise InvalidAlertRule(
            "search", f"narrows {', '.join(searched)} only, not {others[0][:40]}; make another rule for other kinds."
        )
    return search.strip()


def _within(name: str, value: Any, least: int, most: int, of: str = "") -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidAlertRule(name, f"{of}must be a whole number of minutes from {least} to {most}.")
    return value


def _channel(channel: str) -> str:
    if channel not in list(ChannelKind):
        raise InvalidAlertRule("channel", f"must be one of {', '.join(ChannelKind)}.")
    return channel


def _zone(zone: str) -> str:
    if zone not in zones():
        raise InvalidAlertRule("time_zone", "must be a time zone such as Europe/Berlin or UTC.")
    return zone


def belongs_to_addresses(kinds: Sequence[str]) -> bool:
    """Return whether every kind belongs to addresses; otherwise the rule is for who sees all of them."""
    return all(KINDS[AlertKind(kind)].has_address for kind in kinds)
