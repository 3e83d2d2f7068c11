"""What a benchmark came to, and how pairs of runs are compared."""

import math
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.stopwatch import Rate

Measure = Callable[[], Rate]


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
    """Two measures that were taken one right after the other."""

    ours: Rate
    peer: Rate

    @property
    def ratio(self) -> float:
        """How many times as fast as the peer we were."""
        return self.ours.per_second / self.peer.per_second

    @property
    def cpu_ratio(self) -> float:
        """The same in processor time: how many times our cost the peer's is."""
        return self.peer.cpu_us / self.ours.cpu_us


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def alternate(measures: Sequence[tuple[str, Measure]], *, rounds: int, unit: str) -> dict[str, list[Rate]]:
    """Run the measures in turn, `rounds` times each, and return the rates of each.

    Whatever else the machine does meanwhile disturbs neighbours alike, which is why only their ratios are solid.
    """
    rates: dict[str, list[Rate]] = {name: [] for name, _ in measures}
    for number in range(1, rounds + 1):
        for name, measure in measures:
            rate = measure()
            rates[name].append(rate)
            wall = f"{rate.per_second:>10,.0f} {unit}/s"
            load = os.getloadavg()[0]
            say(f"    round {number}: {name:<34} {wall}  {rate.cpu_us:>8,.1f} us of processor time  (load {load:.1f})")
    return rates


def pairs_of(rates: dict[str, list[Rate]], ours: str, peer: str) -> list[Pair]:
    """Return the runs of two measures as pairs, in the order in which they ran."""
    return [Pair(*rates_of_both) for rates_of_both in zip(rates[ours], rates[peer], strict=True)]


def compared(
    benchmark: str, work: str, pairs: Sequence[Pair], *, unit: str, aim: float | None = None, limit: str = ""
) -> Line:
    """Return the line of a comparison: the median ratio decides, the worst pair is said too."""
    median = statistics.median(pair.ratio for pair in pairs)
    worst = min(pair.ratio for pair in pairs)
    ours = statistics.median(pair.ours.per_second for pair in pairs)
    peer = statistics.median(pair.peer.per_second for pair in pairs)
    cpu = statistics.median(pair.cpu_ratio for pair in pairs)
    figure = (
        f"{ratio_text(median)} (worst {ratio_text(worst)}); {ours:,.0f} against {peer:,.0f} {unit}/s; "
        f"{ratio_text(cpu)} in processor time"
    )
    if aim is None:
        return Line(benchmark, work, figure, limit=limit)
    return Line(benchmark, work, figure, f">= {ratio_text(aim)}", median >= aim, limit)


def at_most(benchmark: str, work: str, value: float, *, aim: float, unit: str, note: str = "", limit: str = "") -> Line:
    """Return the line of a figure that must not exceed its aim."""
    shown = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
    figure = f"{shown} {unit}" + (f"; {note}" if note else "")
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
