"""Cuts the values of a numeric field: from a number on, or below one, messages fail."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from math import inf

from poisonadmin.comparisons.domain.association import Association
from poisonadmin.comparisons.domain.conditions import Operator


@dataclass(frozen=True)
class Bin:
    """Values from `low` to `high`, and how many messages have one of them."""

    low: float
    high: float
    failing: int
    others: int


@dataclass(frozen=True)
class Cut:
    """The values above or below a cut. `after`: the bin below the cut, `until`: the one above it, by their places."""

    operator: Operator
    value: float
    after: int
    until: int
    g: float


def best_cut(bins: Sequence[Bin], failing: int, others: int) -> Cut | None:
    """Return the cut between two bins, by rising values, that tells failing messages from the others best.

    None where none has more of the failing ones on either side. `failing`, `others`: all messages, also those that
    have no such number.

    >>> best_cut([Bin(1, 5, 0, 60), Bin(6, 9, 1, 30), Bin(11, 20, 9, 10)], 10, 100).value
    10.0
    """
    best: Cut | None = None
    all_failing, all_others = sum(one.failing for one in bins), sum(one.others for one in bins)
    failing_below = others_below = 0
    for place, (below, above) in enumerate(pairwise(bins)):
        failing_below += below.failing
        others_below += below.others
        sides = (
            (Operator.BELOW, Association(failing_below, failing, others_below, others)),
            (Operator.AT_LEAST, Association(all_failing - failing_below, failing, all_others - others_below, others)),
        )
        for operator, counts in sides:
            if counts.is_more and (best is None or counts.g > best.g):
                best = Cut(operator, round_between(below.high, above.low), place, place + 1, counts.g)
    return best


def round_between(low: float, high: float) -> float:
    """Return the roundest number above `low`, up to `high`.

    >>> round_between(998.7, 1003.2), round_between(0.31, 0.38), round_between(-7, -2), round_between(3, 4)
    (1000.0, 0.35, -5.0, 4.0)
    """
    above, until = Decimal(repr(float(low))), Decimal(repr(float(high)))
    for exponent in range(15, -10, -1):
        for step in (Decimal(10) ** exponent, Decimal(5) * Decimal(10) ** (exponent - 1)):
            number = (until / step).to_integral_value(rounding="ROUND_FLOOR") * step
            if number > above:
                return float(number)
    return float(high)


def bounds(points: Sequence[float]) -> list[tuple[float, float]]:
    """Return the ranges [from, to) that the points cut all numbers into.

    >>> bounds([1.0, 2.0])
    [(-inf, 1.0), (1.0, 2.0), (2.0, inf)]
    """
    return list(zip([-inf, *points], [*points, inf], strict=True))
