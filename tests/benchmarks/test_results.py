"""How pairs of runs become lines of the table."""

from itertools import count

import pytest

from benchmarks.report import table
from benchmarks.results import Line, Pair, alternate, at_most, compared, pairs_of, quantile
from benchmarks.stopwatch import Rate, Stopwatch


def pair(ours: float, peer: float) -> Pair:
    return Pair(Rate(ours, 4.0), Rate(peer, 1.0))


def test_the_median_ratio_decides_and_the_worst_pair_is_said() -> None:
    pairs = [pair(50, 100), pair(90, 100), pair(80, 100)]
    line = compared("B0", "ours / theirs", pairs, unit="rows", aim=0.8)
    assert line.figure == "0.80x (worst 0.50x); 80 against 100 rows/s; 0.25x in processor time"
    assert (line.aim, line.is_met) == (">= 0.80x", True)


def test_a_ratio_below_its_aim_is_missed_however_close() -> None:
    assert compared("B0", "", [pair(0.7999, 1)], unit="", aim=0.8).is_met is False


def test_a_comparison_without_an_aim_is_neither_met_nor_missed() -> None:
    line = compared("B0", "", [pair(1, 2)], unit="")
    assert (line.aim, line.is_met) == ("", None)


@pytest.mark.parametrize(("value", "is_met"), [(1.5, True), (1.51, False)])
def test_a_bound_is_kept_up_to_its_aim(value: float, is_met: bool) -> None:
    assert at_most("B0", "", value, aim=1.5, unit="s").is_met is is_met


def test_the_measures_take_turns(capsys: pytest.CaptureFixture[str]) -> None:
    turns = count(1)
    measure = lambda: Rate(next(turns), 1.0)  # noqa: E731
    rates = alternate([("ours", measure), ("theirs", measure)], rounds=2, unit="rows")
    assert [pair.ratio for pair in pairs_of(rates, "ours", "theirs")] == [1 / 2, 3 / 4]
    assert capsys.readouterr().out.count("round") == 4


def test_the_stopwatch_counts_only_what_happens_inside() -> None:
    watch = Stopwatch()
    with watch:
        sum(range(1_000_000))
    inside = watch.cpu_seconds
    sum(range(1_000_000))
    assert watch.cpu_seconds == inside
    assert watch.rate(10, seconds=2.0).per_second == 5.0


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 50), (0.95, 95), (0.99, 99), (1.0, 100)])
def test_a_quantile_is_a_value_that_was_measured(share: float, value: int) -> None:
    assert quantile(range(100, 0, -1), share) == value


def test_the_table_names_what_was_missed_and_why() -> None:
    lines = [
        Line("B1", "fast", "2x", ">= 1x", True),
        Line("B2", "slow", "0.5x", ">= 1x", False, "history"),
        Line("B3", "?", "7 MiB"),
    ]
    head, rule, *rows = table(lines)
    assert len({len(row) for row in (head, rule, *rows)}) == 1
    assert [row.split("|")[5].strip() for row in rows] == ["met", "MISSED", ""]
    assert "history" in rows[1]
