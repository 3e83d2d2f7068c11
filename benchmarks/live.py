"""The whole system and the consumer that it delivers to, shared by the benchmarks that need them."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks import loads
from benchmarks.consumer import Arrival, Sink, running_sink
from benchmarks.memory import Watch
from benchmarks.results import say
from benchmarks.stopwatch import Stopwatch
from benchmarks.system import System, running_system

POLL_SECONDS = 0.1
# The classes are archived a minute after the first start; nothing is measured beside it.
ARCHIVE_SECONDS = 180


@dataclass(frozen=True)
class Live:
    """What runs."""

    system: System
    sink: Sink
    memory: Watch


class TooSlow(Exception):
    """Raised when something that must happen has not happened in the time that it is given."""


@contextmanager
def live_system(directory: Path) -> Iterator[Live]:
    """Start the system on the benchmarks' own services, and yield it when all of its workers are ready."""
    with running_sink() as sink, running_system(directory / "system") as system:
        say(f"\nthe system is up after {system.ready_seconds:.0f} s")
        archives = system.home / "connect"
        wait_until(lambda: any(archives.glob("classes-*.jsa")), seconds=ARCHIVE_SECONDS, what="the archive of classes")
        watch = Watch(system.processes)
        try:
            yield Live(system, sink, watch)
        finally:
            watch.stop()


def wait_until(is_so: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Return as soon as `is_so`; raise `TooSlow` after `seconds`."""
    until = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > until:
            raise TooSlow(f"not within {seconds:.0f} s: {what}")
        time.sleep(POLL_SECONDS)


class Delivered(NamedTuple):
    """What it cost, how long it took from the first due time to the last settling, and which message was due when."""

    watch: Stopwatch
    seconds: float
    due: dict[int, float]


def deliver(
    address: str,
    count: int,
    *,
    over_seconds: float = 0.0,
    seconds: float = 600,
    meanwhile: AbstractContextManager[object] | None = None,
) -> Delivered:
    """Have `count` messages fall due in a moment and wait until all are delivered; `meanwhile` is entered for that."""
    loads.empty()
    begin = loads.database_now() + lead_seconds(count)
    loads.fill(address, count, begin=begin, over_seconds=over_seconds)
    loads.settle_down()
    due = loads.due_times()
    lead = begin - loads.database_now()
    assert lead > 0, "the messages fell due before all of them were there"
    time.sleep(max(0.0, lead - 0.2))
    watch = Stopwatch()
    with watch, meanwhile or nullcontext():
        wait_until(
            lambda: loads.database_now() > begin + over_seconds and loads.count_not("DLVD") == 0,
            seconds=over_seconds + seconds,
            what=f"{count:,} deliveries to {address}",
        )
    return Delivered(watch, loads.last_change() - begin, due)


def lead_seconds(count: int) -> float:
    """Return how long before they are due messages are filled in, so that all are there by then."""
    return 4 + count / 4_000


def lateness(arrivals: Sequence[Arrival], due: dict[int, float]) -> list[float]:
    """Return by how many seconds each first attempt came after it was due; negative would be too early."""
    return [arrival.at - due[arrival.message_id] for arrival in arrivals if arrival.attempt_number == 1]
