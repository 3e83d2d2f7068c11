"""The association of a condition with failing messages: how much more often it occurs, and by what chance alone.

The G-test (likelihood ratio) for one degree of freedom; where fewer than 5 are expected in any field of the table, the
exact test of Fisher. Many conditions are tested, so each p value is corrected by the method of Holm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, exp, lgamma, log, sqrt

_FEW = 5.0


@dataclass(frozen=True)
class Association:
    """Of `failing` messages `hits` fulfil a condition, of `others` `other_hits`."""

    hits: int
    failing: int
    other_hits: int
    others: int

    @property
    def share(self) -> float:
        """Which part of the failing ones fulfils it, 0..1."""
        return self.hits / self.failing if self.failing else 0.0

    @property
    def share_of_others(self) -> float:
        """Which part of the others fulfils it, 0..1."""
        return self.other_hits / self.others if self.others else 0.0

    @property
    def lift(self) -> float:
        """The factor by which it occurs more often; where no other has it, as if half a message had.

        >>> Association(98, 100, 30, 1000).lift
        32.666666666666664
        """
        return self.share / (max(self.other_hits, 0.5) / self.others) if self.others else 0.0

    @property
    def is_more(self) -> bool:
        """True when it occurs more often among the failing ones."""
        return self.hits * self.others > self.other_hits * self.failing

    @property
    def g(self) -> float:
        """The statistic of the G-test: 0 where both have it equally often.

        >>> round(Association(98, 100, 30, 1000).g, 4)
        502.0644
        """
        hits, all_of_them = self.hits + self.other_hits, self.failing + self.others
        table = (
            (self.hits, self.failing, hits),
            (self.failing - self.hits, self.failing, all_of_them - hits),
            (self.other_hits, self.others, hits),
            (self.others - self.other_hits, self.others, all_of_them - hits),
        )
        found = sum(seen * log(seen * all_of_them / (row * column)) for seen, row, column in table if seen)
        return max(0.0, 2 * found)

    @property
    def p(self) -> float:
        """The probability, 0..1, of at least such a difference by chance alone, of this one condition."""
        hits, all_of_them = self.hits + self.other_hits, self.failing + self.others
        if not all_of_them or not hits or hits == all_of_them:
            return 1.0
        if min(self.failing, self.others) * min(hits, all_of_them - hits) / all_of_them < _FEW:
            return min(1.0, 2 * _fisher(self.hits, self.failing, hits, all_of_them))
        return erfc(sqrt(self.g / 2))


def _fisher(seen: int, failing: int, hits: int, all_of_them: int) -> float:
    """Return the chance that at least `seen` of the `hits` are among the failing ones."""
    most = min(failing, hits)
    total, chance = 0.0, exp(_log_hypergeometric(seen, failing, hits, all_of_them))
    for one in range(seen, most + 1):
        total += chance
        chance *= (failing - one) * (hits - one) / ((one + 1) * (all_of_them - failing - hits + one + 1))
        if chance < total * 1e-16:
            break
    return min(1.0, total)


def _log_hypergeometric(seen: int, failing: int, hits: int, all_of_them: int) -> float:
    return _log_choose(failing, seen) + _log_choose(all_of_them - failing, hits - seen) - _log_choose(all_of_them, hits)


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def holm(chances: Sequence[float], tested: int) -> list[float]:
    """Return the p values corrected for `tested` comparisons, of which these are the smallest, in the same order.

    Shape: as given, each within 0..1. With those of at most `a`, the chance of any wrong one is at most `a`.
    Source: S. Holm, A simple sequentially rejective multiple test procedure (1979).

    >>> holm([0.01, 0.0001, 0.004], 10)
    [0.08, 0.001, 0.036000000000000004]
    """
    corrected = [1.0] * len(chances)
    so_far = 0.0
    for place, number in enumerate(sorted(range(len(chances)), key=lambda one: chances[one])):
        so_far = min(1.0, max(so_far, chances[number] * max(1, tested - place)))
        corrected[number] = so_far
    return corrected
