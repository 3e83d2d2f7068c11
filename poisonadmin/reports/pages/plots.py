"""Plots as SVG: bars, stacked or side by side, which need no script and print as they are shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

WIDTH, HEIGHT = 720, 200
LEFT, RIGHT, BOTTOM, TOP = 44, 18, 22, 8
# Colours that can be told apart; what is beyond is said together.
SERIES = 5
REST = "others"


@dataclass(frozen=True)
class Bar:
    """One box; `series` numbers its colour."""

    x: float
    y: float
    width: float
    height: float
    series: int
    title: str


@dataclass(frozen=True)
class Label:
    """A text below the bars, or of a line across them."""

    x: float
    text: str


@dataclass(frozen=True)
class Grid:
    """A line at a value."""

    y: float
    text: str


@dataclass(frozen=True)
class Plot:
    """A plot. `names`: of its series, in the order of their colours. `marks`: lines across, each with its title."""

    bars: tuple[Bar, ...]
    labels: tuple[Label, ...]
    grid: tuple[Grid, ...]
    names: tuple[str, ...]
    label: str
    marks: tuple[Label, ...] = ()
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT

    @property
    def right(self) -> int:
        """The right ends of the lines of the grid."""
        return self.width - RIGHT

    @property
    def baseline(self) -> int:
        """The baseline of the texts below the bars."""
        return self.height - 6


def largest(series: Mapping[str, Sequence[int]], most: int = SERIES) -> dict[str, tuple[int, ...]]:
    """Return the first series, and all others as one.

    >>> largest({"a": [3, 1], "b": [1, 0], "c": [0, 1]}, most=2)
    {'a': (3, 1), 'others': (1, 1)}
    """
    if len(series) <= most:
        return {name: tuple(counts) for name, counts in series.items()}
    names = list(series)
    first, rest = names[: most - 1], names[most - 1 :]
    together = tuple(sum(counts) for counts in zip(*(series[name] for name in rest), strict=True))
    return {name: tuple(series[name]) for name in first} | {REST: together}


def stacked(
    labels: Sequence[str],
    series: Mapping[str, Sequence[float]],
    *,
    label: str,
    unit: str = "",
    marks: Mapping[int, str] = MappingProxyType({}),
) -> Plot:
    """Return a bar for each label, of the values of all series on top of one another; `marks`: titles by the label's
    place."""
    totals = [sum(values[place] for values in series.values()) for place in range(len(labels))]
    peak = _round_up(max(totals, default=0))
    step = (WIDTH - LEFT - RIGHT) / max(len(labels), 1)
    bars: list[Bar] = []
    for place, name in enumerate(labels):
        height = 0.0
        for number, (of, values) in enumerate(series.items()):
            if value := values[place]:
                tall = (HEIGHT - BOTTOM - TOP) * value / peak
                height += tall
                words = f"{name}, {of}: {value:,}{unit}"
                x, y = LEFT + step * (place + 0.1), HEIGHT - BOTTOM - height
                bars.append(Bar(round(x, 1), round(y, 1), round(step * 0.8, 1), round(tall, 1), number, words))
    every = max(1, -(-len(labels) // 10))
    below = tuple(
        Label(round(LEFT + step * (place + 0.5), 1), name) for place, name in enumerate(labels) if place % every == 0
    )
    lines = tuple(
        Grid(round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * part / 2, 1), f"{_short(peak * part / 2)}{unit}")
        for part in (0, 1, 2)
    )
    marked = tuple(Label(round(LEFT + step * (place + 0.5), 1), words) for place, words in sorted(marks.items()))
    return Plot(tuple(bars), below, lines, tuple(series), label, marked)


def _round_up(value: float) -> float:
    """Return a round number that is not below the value.

    >>> _round_up(0), _round_up(7), _round_up(130), _round_up(2001)
    (1, 8.0, 200.0, 4000.0)
    """
    if value <= 1:
        return 1
    size = 10 ** (len(str(int(value))) - 1)
    return float(next(step * size for step in (1, 2, 4, 6, 8, 10) if step * size >= value))


def _short(value: float) -> str:
    """Return a number as an axis says it.

    >>> _short(0), _short(1.5), _short(2000), _short(3_500_000)
    ('0', '1.5', '2k', '3.5M')
    """
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
