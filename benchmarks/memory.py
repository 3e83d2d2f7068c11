"""How much memory each process takes: PSS, in which what several share is divided among them."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import psutil

from benchmarks.results import Line

KIB = 1024
MIB = 1024 * KIB
# Reading the maps of sixty processes takes a tenth of a second of processor time.
SAMPLE_SECONDS = 5.0


def pss_bytes(pid: int) -> int:
    """Return the process's proportional set size; 0 when it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * KIB
    return 0


def resident_bytes(pid: int, field: str = "VmRSS") -> int:
    """Return the resident set (`VmRSS`) or its peak (`VmHWM`)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * KIB
    return 0


def forget_peak(pid: int) -> None:
    """Begin anew with the kernel's peak of the resident set."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def labelled(top: int, *, own: str = "supervisor") -> dict[str, list[int]]:
    """Return the processes under `top` by what they are, itself as `own`."""
    found: dict[str, list[int]] = {own: [top]}
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(top).children():
            with contextlib.suppress(psutil.Error):
                add_tree(found, child, name_of(child.cmdline()))
    return found


def add_tree(found: dict[str, list[int]], top: psutil.Process, name: str) -> None:
    """File a process and all below it under `name`, a JVM and Spark's Python processes apart."""
    found.setdefault(name, []).append(top.pid)
    for process in top.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found.setdefault(_part(name, process), []).append(process.pid)


def _part(name: str, process: psutil.Process) -> str:
    if Path(process.exe()).name == "java":
        return f"{name}: JVM"
    if "pyspark.worker" in process.cmdline():
        return f"{name}: Python tasks"
    return name


def name_of(command: Iterable[str]) -> str:
    """Return what a child of the supervisor is, from its command line.

    >>> name_of(["python", "-m", "celery", "-A", "workers.celery_app", "worker", "-Q", "io", "-n", "io@%h"])
    'io'
    >>> name_of(["python", "-m", "poisonadmin.serve"])
    'web'
    """
    words = list(command)
    if "-Q" in words:
        return words[words.index("-Q") + 1]
    for word, name in {
        "poisonadmin.serve": "web",
        "beat": "beat",
        "poisonadmin.embedded.processes": "supervisor",
        "poisonadmin.embedded.spark": "class archive",
        "sample.consumers": "consumers",
    }.items():
        if word in words:
            return name
    program = Path(words[0]).name if words else "?"
    return "valkey" if program.startswith("valkey") else "spark" if program == "java" else program


def footprint(processes: Mapping[str, Iterable[int]]) -> dict[str, int]:
    """Return the PSS of each label's processes together, in bytes."""
    return {name: sum(map(pss_bytes, pids)) for name, pids in processes.items()}


def lines(benchmark: str, when: str, sizes: Mapping[str, int]) -> list[Line]:
    """Return one line a label, and one for all together."""
    shown = [
        Line(benchmark, f"memory, {when}: {name}", f"{size / MIB:,.0f} MiB")
        for name, size in sorted(sizes.items(), key=lambda one: -one[1])
    ]
    return [*shown, Line(benchmark, f"memory, {when}: sum", f"{sum(sizes.values()) / MIB:,.0f} MiB")]


class Watch:
    """Notes the greatest PSS of each label's processes until it is stopped."""

    def __init__(self, processes: Callable[[], Mapping[str, Iterable[int]]]) -> None:
        self.peaks: dict[str, int] = {}
        self._processes = processes
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)
        self._thread.start()

    def stop(self) -> dict[str, int]:
        """Return the peaks."""
        self._over.set()
        self._thread.join()
        return self.peaks

    def _run(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            for name, size in footprint(self._processes()).items():
                self.peaks[name] = max(size, self.peaks.get(name, 0))
