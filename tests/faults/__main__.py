"""The fault campaign: `python -m tests.faults [--seed N] [--runs K] [F5 "F9 read-only" …]`.

Each run strikes a running PoisonAdmin under load and checks the invariants of docs/operate/reliability.md afterwards. A
run is named by its fault and its seed; the same seed makes the same plan. Ends with 1 when an invariant was broken.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import django

from tests.faults import (
    f05_archive,
    f05_operation,
    f05_processes,
    f07_ingest,
    f07_lost_nodes,
    f07_spark,
    f09_database,
    f14_locks,
    f18_stopped,
    f23_destinations,
    f25_everything,
    f27_migrations,
    f29_slow_work,
    f30_operation,
)
from tests.faults.handler_run import run_handlers
from tests.faults.moments import STATEMENTS, statement_of
from tests.faults.run import Fault, Result, run
from tests.faults.stages import CannotStage, staged
from tests.faults.table import line, rule
from tests.whole_system.installation import Installation

FAULTS: tuple[Fault, ...] = (
    *f05_processes.FAULTS,
    *f07_ingest.FAULTS,
    *f07_lost_nodes.FAULTS,
    *f07_spark.FAULTS,
    *f09_database.FAULTS,
    *f14_locks.FAULTS,
    *f18_stopped.FAULTS,
    *f23_destinations.FAULTS,
    *f25_everything.FAULTS,
)


def main() -> int:
    """Run the campaign and print its table; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--runs", type=int, default=1, help="how many seeds each fault is run with")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a family or the beginning of a fault's name; all")
    wishes = parser.parse_args()
    _find_statements()
    # Ends the installations too, which live in sessions of their own.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    seeds = range(wishes.seed, wishes.seed + wishes.runs)
    broken = 0
    print(rule())
    for result in campaign(wishes.names, seeds):
        broken += bool(result.wrong)
        print(line(result), flush=True)
    print(rule())
    print(f"{broken} runs broke an invariant" if broken else "every invariant held in every run")
    return 1 if broken else 0


def _find_statements() -> None:
    """Load the product, so that its statements can be had by their names; the installations get nothing of it.

    Errors: `NoSuchStatement`.
    """
    with mock.patch.dict(os.environ, DJANGO_SETTINGS_MODULE="tests.typing_settings"):
        django.setup()
    for moment in STATEMENTS:
        statement_of(moment)


def campaign(names: Sequence[str], seeds: Sequence[int]) -> Iterator[Result]:
    """Yield the results of the chosen faults, all seeds of one before the next, one installation a stage."""
    chosen = [fault for fault in FAULTS if _is_chosen(f"{fault.family} {fault.name}", names)]
    for stage in dict.fromkeys(fault.stage for fault in chosen):
        try:
            with staged(stage) as installation:
                for fault in chosen:
                    if fault.stage == stage:
                        yield from (_logged(installation, _run(installation, fault, seed)) for seed in seeds)
        except CannotStage as error:
            yield Result(f"({stage})", "not run", 0, str(error), 0, 0, 0, 0, 0, 0.0, (str(error),))
    alone = f27_migrations.RUNS | f05_operation.RUNS | f05_archive.RUNS | f29_slow_work.RUNS | f30_operation.RUNS
    for name, run_alone in alone.items():
        if _is_chosen(name, names):
            yield from (run_alone(seed) for seed in seeds)


def _run(installation: Installation, fault: Fault, seed: int) -> Result:
    """Carry out a run; one that breaks off counts as broken, and the next one goes on."""
    try:
        return (run_handlers if fault.to_handlers else run)(installation, fault, seed)
    except Exception:
        told = traceback.format_exc(limit=-3)
        return Result(fault.family, fault.name, seed, "broke off", 0, 0, 0, 0, 0, 0.0, (told,))


def _logged(installation: Installation, result: Result) -> Result:
    """Keep what the processes have printed up to now where an invariant was broken, and say where."""
    if not result.wrong:
        return result
    name = f"{result.family} {result.fault} {result.seed}".replace(" ", "-").replace(",", "")
    kept = Path(tempfile.gettempdir()) / f"poisonadmin-{name}.log"
    kept.write_text(installation.output)
    return replace(result, wrong=(*result.wrong, f"log: {kept}"))


def _is_chosen(name: str, names: Sequence[str]) -> bool:
    return not names or any(name == wanted or name.startswith(f"{wanted} ") for wanted in names)


if __name__ == "__main__":
    os.environ.setdefault("POISONADMIN_ALLOW_LOOPBACK", "1")
    print(f"machine: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d %H:%M')}")
    sys.exit(main())
