"""`make bench`: measures PoisonAdmin against its peers in one run and prints a table with the aims.

`python -m benchmarks [B4 B6 …] [--scale 0.1] [--pairs 3]`
"""

import argparse
import contextlib
import itertools
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from benchmarks import machine, memory
from benchmarks.report import print_table
from benchmarks.results import Line, say
from benchmarks.suite import BENCHMARKS, Benchmark
from benchmarks.world import World, make_world


def main() -> int:
    """Run what was asked for; return 1 when a benchmark could not be carried out, whatever it came to otherwise."""
    arguments = _arguments()
    chosen = [one for one in BENCHMARKS if not arguments.ids or one.name in arguments.ids]
    with make_world(scale=arguments.scale, rounds=arguments.pairs) as world:
        for line in machine.description(world.services.database_url):
            say(line)
        say(f"scale {arguments.scale:g}, {arguments.pairs} pairs, bodies of 1 KB unless said")
        lines, failed = _measure_all(chosen, world)
    print_table(lines)
    for name in failed:
        say(f"{name} could not be carried out.")
    return 1 if failed else 0


def _measure_all(chosen: Sequence[Benchmark], world: World) -> tuple[list[Line], list[str]]:
    """Return what was measured, and which benchmarks could not be carried out."""
    lines: list[Line] = []
    failed: list[str] = []
    for on_live_system, group in itertools.groupby(chosen, key=lambda benchmark: benchmark.on_live_system):
        with contextlib.ExitStack() as stack:
            place = _with_live_system(world, stack) if on_live_system else world
            for benchmark in group:
                _measure(benchmark, place, lines, failed)
            if place.running:
                lines += memory.lines("MEMORY", "peak while all of this ran", place.running.memory.peaks)
    return lines, failed


def _measure(benchmark: Benchmark, world: World, lines: list[Line], failed: list[str]) -> None:
    began = time.monotonic()
    say(f"\n{benchmark.name}: {benchmark.title}")
    try:
        lines += benchmark.load()(world)
    except Exception as error:
        failed.append(benchmark.name)
        say(f"  could not be carried out: {type(error).__name__}: {error}")
    say(f"  took {time.monotonic() - began:.0f} s")


def _with_live_system(world: World, stack: contextlib.ExitStack) -> World:
    from benchmarks.live import live_system  # needs Django, which is set up by now
    from poisonadmin.store.models.intake import Source

    Source.objects.update(is_enabled=False)  # those of benchmarks before it: nobody else is to take from them
    return replace(world, running=stack.enter_context(live_system(world.directory)))


def _arguments() -> argparse.Namespace:
    names = [benchmark.name for benchmark in BENCHMARKS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID", help=f"which ones, of {', '.join(names)}; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full sizes (default 1)")
    parser.add_argument("--pairs", type=int, default=3, help="how often each comparison is run (default 3)")
    arguments = parser.parse_args()
    arguments.ids = [text.upper() for text in arguments.ids]
    if unknown := [text for text in arguments.ids if text not in names]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(names)}")
    if not 0 < arguments.scale <= 1 or arguments.pairs < 1:
        parser.error("the scale lies in 0..1, and there is at least one pair")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
