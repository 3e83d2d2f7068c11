"""What every destination has beside its configuration: a name, and perhaps a limit of its rate."""

from poisonadmin.destinations.domain.http_config import InvalidDestination

MAX_NAME_CHARS = 100
NAME_RULE = "A name is printable and holds no slash: it is part of a path."
RATES_PER_SECOND = (0.001, 100_000.0)


def is_name(name: str) -> bool:
    """Return whether a destination may be called so.

    >>> is_name("shop"), is_name("shop/eu"), is_name("")
    (True, False, False)
    """
    return 0 < len(name) <= MAX_NAME_CHARS and name.isprintable() and "/" not in name


def validate_rate(rate: float | None) -> float | None:
    """Return the limit in deliveries a second, None for none; raise InvalidDestination."""
    low, high = RATES_PER_SECOND
    if rate is not None and not low <= rate <= high:
        raise InvalidDestination("max_rate_per_second", f"must be a number from {low:g} to {high:g}")
    return rate
