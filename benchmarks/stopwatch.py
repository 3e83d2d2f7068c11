"""Time as the wall shows it, and as the processors spent it: others who share the machine move only the first."""

import os
import time
from dataclasses import dataclass
from types import TracebackType

import psutil


@dataclass(frozen=True)
class Rate:
    """`per_second` by the wall clock; `cpu_us`: microseconds of processor time a thing, of all processes together."""

    per_second: float
    cpu_us: float


class Stopwatch:
    """Adds up the time inside its `with` blocks, of this process and all below it: services, system, sink."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cpu_seconds = 0.0

    def __enter__(self) -> None:
        # Looking at the others costs processor time of our own, which must not count.
        self._others_began = others_cpu_seconds()
        self._own_began = own_cpu_seconds()
        self._began = time.perf_counter()

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.seconds += time.perf_counter() - self._began
        self.cpu_seconds += own_cpu_seconds() - self._own_began
        self.cpu_seconds += others_cpu_seconds() - self._others_began

    def rate(self, count: int, *, seconds: float | None = None) -> Rate:
        """Return what `count` things in the time measured, or in `seconds` where the caller knows better, come to."""
        return Rate(count / (seconds or self.seconds), self.cpu_seconds / count * 1e6)


def own_cpu_seconds() -> float:
    """Return the processor time of this process and of what it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def others_cpu_seconds(top: int | None = None) -> float:
    """Return the processor time of all processes below `top` (default: this one), the ended ones included."""
    total = 0.0
    for process in psutil.Process(top or os.getpid()).children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        # A process that has ended is counted in the times that its parent has inherited.
        total += times.user + times.system + times.children_user + times.children_system
    return total
