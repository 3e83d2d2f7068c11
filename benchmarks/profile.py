"""What work costs by process and by statement, in microseconds a message; B3, B4 and B5 print it.

The processor time of processes is measured in one run, the time of statements in another, as PostgreSQL logs it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import LiteralString

import psutil
import psycopg

from benchmarks.results import Line, say
from benchmarks.world import World

SHOWN = 30
SHOWN_CHARS = 150
_ENTRY = re.compile(r"^LOG:  duration: ([\d.]+) ms  (?:parse \S+|bind \S+|execute \S+|statement): ", re.MULTILINE)
_VALUE = re.compile(r"'[^']*'|\$?\b\d+\b")


Processes = Callable[[], Mapping[str, Sequence[int]]]
"""Returns process ids by what the processes are."""


def lines_of(
    name: str, world: World, processes: Processes, count: int, work: Callable[[AbstractContextManager[None]], object]
) -> list[Line]:
    """Return what `count` messages of `work` cost by process; print what they cost by statement.

    `work` is done twice, each time within the context that it is given.
    """
    us_a_message = 1e6 / count
    spent = Spent(processes)
    work(spent)
    log = Durations(world)
    work(log)
    for text, times, ms in log.statements()[:SHOWN]:
        say(f"  {ms / 1e3 * us_a_message:7.1f} us  {times:>6} times  {text}")
    return [Line(name, f"processor time: {kind}", f"{cost * us_a_message:.1f} us") for kind, cost in spent.ranked()]


class Spent(AbstractContextManager[None]):
    """The processor time that each kind of process spends while this is entered, in seconds."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._spent: dict[str, float] = {}

    def __enter__(self) -> None:
        self._began = self._now()

    def __exit__(self, *_: object) -> None:
        self._spent = {kind: seconds - self._began.get(kind, 0.0) for kind, seconds in self._now().items()}

    def ranked(self) -> list[tuple[str, float]]:
        """Return the kinds of processes, the most expensive first, and their sum."""
        by_cost = sorted(self._spent.items(), key=lambda one: -one[1])
        return [*by_cost, ("all of them", sum(self._spent.values()))]

    def _now(self) -> dict[str, float]:
        return {kind: sum(map(cpu_seconds, pids)) for kind, pids in self._processes().items()}


def tree(pid: int) -> list[int]:
    """Return the process and all below it."""
    return [pid, *(one.pid for one in psutil.Process(pid).children(recursive=True))]


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process, and of its ended children, until now."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


class Durations(AbstractContextManager[None]):
    """What PostgreSQL logs of statements that it runs while this is entered."""

    def __init__(self, world: World) -> None:
        self._url = world.services.superuser_url
        self._log = world.directory / "home" / "postgres.log"
        self._text = ""

    def __enter__(self) -> None:
        self._set("ALTER SYSTEM SET log_min_duration_statement = 0")
        self._began = self._log.stat().st_size

    def __exit__(self, *_: object) -> None:
        self._set("ALTER SYSTEM RESET log_min_duration_statement")
        self._text = self._log.read_bytes()[self._began :].decode("utf-8", "replace")

    def statements(self) -> list[tuple[str, int, float]]:
        """Return the statements, each with how often it ran and its milliseconds, the most expensive first."""
        return statements_of(self._text)

    def _set(self, statement: LiteralString) -> None:
        with psycopg.connect(self._url, autocommit=True) as session:
            session.execute(statement)
            session.execute("SELECT pg_reload_conf()")


def statements_of(log: str) -> list[tuple[str, int, float]]:
    r"""Return the statements that a log names, without their values.

    >>> entry = "LOG:  duration: {} ms  {}: SELECT\n\tname = '{}'\n"
    >>> statements_of(entry.format(2.5, "execute <unnamed>", "{1,2}") + entry.format(0.5, "statement", "{3}"))
    [('SELECT name = …', 2, 3.0)]
    """
    times, spent = Counter[str](), defaultdict[str, float](float)
    pieces = _ENTRY.split(log)[1:]
    for ms, rest in zip(pieces[::2], pieces[1::2], strict=True):
        text = _VALUE.sub("…", " ".join(rest.partition("\nDETAIL:")[0].split()))[:SHOWN_CHARS]
        times[text] += 1
        spent[text] += float(ms)
    return [(text, times[text], spent[text]) for text in sorted(spent, key=spent.__getitem__, reverse=True)]
