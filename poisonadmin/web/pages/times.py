"""Times as people say them."""

from datetime import datetime

_STEPS = ((86_400 * 365, "y"), (86_400, "d"), (3600, "h"), (60, "min"))


def ago(then: datetime, now: datetime) -> str:
    """Return how far `then` is from `now`, in the largest unit that fits.

    >>> from datetime import UTC, timedelta
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> [ago(noon - timedelta(seconds=s), noon) for s in (0, 42, 3 * 60 + 5, 7300, -90)]
    ['now', '42 s ago', '3 min ago', '2 h ago', 'in 1 min']
    """
    seconds = int((now - then).total_seconds())
    if seconds == 0:
        return "now"
    span = length(abs(seconds))
    return f"{span} ago" if seconds > 0 else f"in {span}"


def length(seconds: float) -> str:
    """Return a span in its largest unit, rounded down; milliseconds below one second.

    >>> length(0.25), length(59), length(3700)
    ('250 ms', '59 s', '1 h')
    """
    if 0 < seconds < 1:
        return f"{int(seconds * 1000)} ms"
    for size, unit in _STEPS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def absolute(when: datetime) -> str:
    """Return the time in full, with its zone.

    >>> from datetime import UTC
    >>> absolute(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    '2026-01-02 03:04:05 UTC'
    """
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"
