"""The table at the end."""

from collections.abc import Iterable, Sequence

from benchmarks.results import Line, say

_HEAD = ("id", "work", "measured", "aim", "", "limited by")


def print_table(lines: Sequence[Line]) -> None:
    """Print the lines as a table in Markdown."""
    say("")
    for row in table(lines):
        say(row)


def table(lines: Sequence[Line]) -> list[str]:
    """Return the rows of the table, columns aligned."""
    rows = [_HEAD, *(_cells(line) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    shown = [_row(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return [shown[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *shown[1:]]


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(line: Line) -> tuple[str, ...]:
    verdict = "" if line.is_met is None else "met" if line.is_met else "MISSED"
    return line.benchmark, line.work, line.figure, line.aim, verdict, line.limit
