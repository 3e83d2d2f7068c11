"""The name of a destination and the limit of its rate, checked."""

from poisonadmin.core.domain.names import mistake_in
from poisonadmin.destinations.domain.http_config import InvalidDestination

MAX_NAME_CHARS = 100
RATES_PER_SECOND = (0.001, 100_000.0)


def validate_name(name: str) -> str:
    """Return the name when a destination may be called so; raise InvalidDestination.

    >>> validate_name("shop")
    'shop'
    """
    if (mistake := mistake_in(name, MAX_NAME_CHARS, is_in_path=True)) is not None:
        raise InvalidDestination("name", mistake)
    return name


def validate_rate(rate: float | None) -> float | None:
    """Return the limit in deliveries a second, None for none; raise InvalidDestination."""
    low, high = RATES_PER_SECOND
    if rate is not None and not low <= rate <= high:
        raise InvalidDestination("max_rate_per_second", f"must be a number from {low:g} to {high:g}")
    return rate
