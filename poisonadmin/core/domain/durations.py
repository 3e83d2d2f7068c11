"""Durations as people write them: `90s`, `5 min`, `1 h 30 min`."""

import re
from dataclasses import dataclass
from typing import Any

from poisonadmin.core.domain.settings import Bounds, InputKind, InvalidValue, setting

_UNITS = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "m": 60_000, "s": 1000, "ms": 1}
_PART = r"(\d{1,12}(?:\.\d{1,6})?) *(ms|min|[dhms])"
_WRITTEN = re.compile(rf" *(?:{_PART} *)+", re.ASCII)
_EACH = re.compile(_PART, re.ASCII)


def milliseconds_of(text: str) -> int:
    """Return the milliseconds of a duration, each of whose parts has a unit. Errors: `InvalidValue`.

    >>> [milliseconds_of(text) for text in ("90s", "5 min", "1h 30min", "1.5 s")]
    [90000, 300000, 5400000, 1500]
    """
    if _WRITTEN.fullmatch(text) is None:
        raise InvalidValue(f"must be a duration such as 90s, 5 min or 1 h 30 min, not {text[:40]!r}")
    return round(sum(float(count) * _UNITS[unit] for count, unit in _EACH.findall(text)))


def written(milliseconds: int) -> str:
    """Return a duration as people write it, to the millisecond.

    >>> [written(ms) for ms in (0, 250, 1500, 90_000, 5_400_000, 90_061_500)]
    ['0 s', '250 ms', '1.5 s', '1 min 30 s', '1 h 30 min', '1 d 1 h 1 min 1.5 s']
    """
    if 0 < milliseconds < 1000:
        return f"{milliseconds} ms"
    parts, rest = [], milliseconds
    for unit in ("d", "h", "min"):
        count, rest = divmod(rest, _UNITS[unit])
        parts += [f"{count} {unit}"] if count else []
    return " ".join([*parts, f"{rest / 1000:g} s"] if rest or not parts else parts)


@dataclass(frozen=True)
class DurationBounds(Bounds):
    """The check of a duration, given in milliseconds or as people write it; milliseconds are stored."""

    def __call__(self, value: Any) -> Any:
        """Return the milliseconds; raise InvalidValue."""
        return super().__call__(milliseconds_of(value) if isinstance(value, str) else value)


def between(least: int, most: int) -> DurationBounds:
    """Return the check of a duration; the bounds are in milliseconds."""
    bounds = f"must be a duration from {written(least)} to {written(most)}"
    return DurationBounds(least, most, bounds, of_type=f"{bounds}, in milliseconds or such as 90s")


def duration(label: str, least: int, most: int, **more: Any) -> Any:
    """Return the setting of a duration; the bounds are in milliseconds."""
    return setting(InputKind.DURATION, label, between(least, most), **more)
