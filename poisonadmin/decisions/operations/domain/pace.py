"""The pace of an operation, and the least time that it takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from poisonadmin.decisions.operations.domain.actions import DELIVERING
from poisonadmin.decisions.operations.domain.lifecycle import STAGE_ENDS, STAGE_SIZES
from poisonadmin.decisions.operations.domain.params import InvalidOperation

MIN_RATE = 0.001
MAX_RATE = 100_000.0
# Each unit, how many seconds it has, and from how many seconds on it tells enough.
_UNITS = (("days", 86_400, 36 * 3600), ("h", 3600, 90 * 60), ("min", 60, 90), ("s", 1, 0))


class Pace(NamedTuple):
    """The pace of an operation: deliveries a second on all workers together, None for no limit; with a canary."""

    rate_per_second: float | None = None
    has_canary: bool = False

    def check(self, action: str) -> None:
        """Do nothing where the action may be carried out so; raise InvalidOperation."""
        for name, given in (("rate_per_second", self.rate_per_second), ("canary", self.has_canary or None)):
            if given is not None and action not in DELIVERING:
                raise InvalidOperation(name, f"has no meaning for {action}, which delivers nothing.")
        if self.rate_per_second is not None and not MIN_RATE <= self.rate_per_second <= MAX_RATE:
            raise InvalidOperation("rate_per_second", f"must be from {MIN_RATE:g} to {MAX_RATE:.0f}.")

    @property
    def words(self) -> str:
        """Return it in words, empty where nothing is limited.

        >>> Pace(4.0, has_canary=True).words
        'at most 4 deliveries a second; a canary of 1, then 10, then 100'
        """
        rate, tried = self.rate_per_second, ", then ".join(str(size) for size in STAGE_SIZES)
        limits = [] if rate is None else [f"at most {rate:g} deliver{'y' if rate == 1 else 'ies'} a second"]
        return "; ".join([*limits, *([f"a canary of {tried}"] if self.has_canary else [])])


UNLIMITED = Pace()


class Deliveries(NamedTuple):
    """The messages for a destination, and how many it takes a second; None where it has no limit."""

    messages: int
    max_rate_per_second: float | None


@dataclass(frozen=True)
class Duration:
    """The least time of an operation: `seconds` for `count` deliveries at `rate_per_second`.

    `destination`: the one whose limit that is, null where it is the operation's own. `stages`: how often the canary
    waits in between until what it has tried is answered; nobody knows how long that takes.
    """

    seconds: float
    count: int
    rate_per_second: float
    destination: str | None
    stages: int

    @property
    def sentence(self) -> str:
        """Return it in words.

        >>> Duration(8.5, 1700, 200.0, None, 0).sentence
        '1,700 at 200/s: about 9 s.'
        >>> Duration(72_000, 36_000, 0.5, "shop", 3).sentence
        '36,000 to shop, which takes at most 0.5/s: about 20 h, and 3 waits for the answers to the canary.'
        """
        whose = "at" if self.destination is None else f"to {self.destination}, which takes at most"
        waits = f", and {self.stages} wait{'' if self.stages == 1 else 's'} for the answers to the canary"
        known = f"{self.count:,} {whose} {self.rate_per_second:g}/s: {_about(self.seconds)}"
        return f"{known}{waits if self.stages else ''}."


def duration(deliveries: Mapping[str, Deliveries], pace: Pace) -> Duration | None:
    """Return how long an operation takes at least; None where nothing limits it. `deliveries`: by destination.

    The slowest limit counts: the operation's own for all, or that of a destination for what goes there.

    >>> duration({"shop": Deliveries(1500, 50.0), "mail": Deliveries(200, None)}, Pace(200.0))
    Duration(seconds=30.0, count=1500, rate_per_second=50.0, destination='shop', stages=0)
    >>> duration({"shop": Deliveries(12, None)}, Pace(has_canary=True)) is None
    True
    """
    total = sum(one.messages for one in deliveries.values())
    limited = [(total, pace.rate_per_second, None), *((*one, name) for name, one in deliveries.items())]
    stages = sum(end < total for end in STAGE_ENDS) if pace.has_canary else 0
    found = [
        Duration(count / rate, count, rate, name, stages) for count, rate, name in limited if count and rate is not None
    ]
    return max(found, key=lambda one: one.seconds, default=None)


def _about(seconds: float) -> str:
    """Return a span in words.

    >>> _about(0.4), _about(8.5), _about(89.6), _about(5000), _about(200_000)
    ('less than a second', 'about 9 s', 'about 90 s', 'about 83 min', 'about 2 days')
    """
    if seconds < 1:
        return "less than a second"
    name, size = next((name, size) for name, size, least in _UNITS if seconds >= least)
    return f"about {int(seconds / size + 0.5):,} {name}"
