"""What a benchmark came to, and how pairs of runs are compared."""

import math
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Measure = Callable[[], float]


@dataclass(frozen=True)
class Line:
    """One line of the table at the end. `is_met` None: there is no aim, the figure is only said."""

    benchmark: str
    work: str
    figure: str
    aim: str = ""
    is_met: bool | None = None
    limit: str = ""


@dataclass(frozen=True)
class Pair:
    """Two rates that were measured one right after the other, in things a second."""

    ours: float
    peer: float

    @property
    def ratio(self) -> float:
        """How many times as fast as the peer we were."""
        return self.ours / self.peer


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def alternate(measures: Sequence[tuple[str, Measure]], *, rounds: int, unit: str) -> dict[str, list[float]]:
    """Run the measures in turn, `rounds` times each, and return the rates of each, in things a second.

    Whatever else the machine does meanwhile disturbs neighbours alike, which is why only their ratios are solid.
    """
    rates: dict[str, list[float]] = {name: [] for name, _ in measures}
    for number in range(1, rounds + 1):
        for name, measure in measures:
            rate = measure()
            rates[name].append(rate)
            load = os.getloadavg()[0]
            say(f"    round {number}: {name:<44} {rate:>12,.0f} {unit}/s   (load {load:.1f})")
    return rates


def pairs_of(rates: dict[str, list[float]], ours: str, peer: str) -> list[Pair]:
    """Return the runs of two measures as pairs, in the order in which they ran."""
    return [Pair(*rates_of_both) for rates_of_both in zip(rates[ours], rates[peer], strict=True)]


def compared(
    benchmark: str, work: str, pairs: Sequence[Pair], *, unit: str, aim: float | None = None, limit: str = ""
) -> Line:
    """Return the line of a comparison: the median ratio decides, the worst pair is said too."""
    median = statistics.median(pair.ratio for pair in pairs)
    worst = min(pair.ratio for pair in pairs)
    ours = statistics.median(pair.ours for pair in pairs)
    peer = statistics.median(pair.peer for pair in pairs)
    figure = f"{ratio_text(median)} (worst {ratio_text(worst)}); {ours:,.0f} against {peer:,.0f} {unit}/s"
    if aim is None:
        return Line(benchmark, work, figure, limit=limit)
    return Line(benchmark, work, figure, f">= {ratio_text(aim)}", median >= aim, limit)


def at_most(benchmark: str, work: str, value: float, *, aim: float, unit: str, note: str = "", limit: str = "") -> Line:
    """Return the line of a figure that must not exceed its aim."""
    figure = f"{value:,.2f} {unit}" + (f"; {note}" if note else "")
    return Line(benchmark, work, figure, f"<= {aim:g} {unit}", value <= aim, limit)


def ratio_text(ratio: float) -> str:
    """Return a ratio with the digits that mean something.

    >>> ratio_text(0.8234), ratio_text(57.31), ratio_text(1)
    ('0.82x', '57x', '1.00x')
    """
    return f"{ratio:.0f}x" if ratio >= 10 else f"{ratio:.2f}x"


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of the values do not exceed.

    >>> quantile([3, 1, 2, 4], 0.5), quantile([3, 1, 2, 4], 0.95)
    (2, 4)
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
