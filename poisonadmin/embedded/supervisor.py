"""Starts children, passes on what they print, starts again those that die, and ends them all."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

from poisonadmin.embedded.logs import Log
from poisonadmin.embedded.processes import (
    ChildSpec,
    EmbeddedError,
    NotReady,
    RestartRule,
    adopt_orphans,
    descendants,
    ending,
    in_session,
    kill,
    reap_adopted,
    spawn,
)

FIRST_DELAY_SECONDS = 0.2
LONGEST_DELAY_SECONDS = 15.0
# A child that ran this long was well, and its next end counts as the first one.
WELL_AFTER_SECONDS = 30.0
_TICK_SECONDS = 0.25
_PROBE_SECONDS = 0.1
# A stop that takes longer says for what it waits.
_QUIET_STOP_SECONDS = 10.0
NAME = "supervisor"


def _delay_before_restart(failures: int) -> float:
    """Return the seconds to wait before the start that follows `failures` early ends in a row.

    >>> [_delay_before_restart(failures) for failures in (1, 2, 3, 8, 1000)]
    [0.2, 0.4, 0.8, 15.0, 15.0]
    """
    return min(FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, 30), LONGEST_DELAY_SECONDS)


class StopRequested(Exception):
    """Raised when a signal asks for the end while something is being started."""


@dataclass
class _Child:
    spec: ChildSpec
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    failures: int = 0
    start_at: float | None = None


class Supervisor:
    """One thread: children are tied to the life of the thread that started them."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.stop_requested_at: float | None = None
        self._children: list[_Child] = []
        self._kept_away: set[int] = set()
        self._running_to_end: set[int] = set()
        adopt_orphans()
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        # A signal, also that a child has ended, ends the wait for output at once.
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        log.wake_on(reader)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for wish in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(wish, self.request_stop)

    def request_stop(self, *_: object) -> None:
        """Note that everything is to end; safe in a signal handler."""
        self.stop_requested_at = self.stop_requested_at or time.monotonic()

    def start(self, spec: ChildSpec) -> None:
        """Start `spec`, now or after the time it names, and keep it running."""
        child = _Child(spec)
        self._children.append(child)
        if spec.start_after_seconds:
            child.start_at = time.monotonic() + spec.start_after_seconds
            return
        try:
            self._start(child)
        except OSError as error:
            raise EmbeddedError(f"{spec.name} cannot be started: {error}") from None

    def wait_until_ready(self, name: str, is_ready: Callable[[], bool], *, seconds: float) -> None:
        """Return when `is_ready()`. A child that ends meanwhile is started again, up to three times.

        Raises `NotReady` when the time or the restarts are used up, `StopRequested` when a signal came.
        """
        deadline = time.monotonic() + seconds
        while not is_ready():
            child = next((child for child in self._children if child.spec.name == name), None)
            if child and child.failures > 3:
                raise NotReady(f"{name} does not start; its last lines above say why.")
            if time.monotonic() > deadline:
                raise NotReady(f"{name} did not answer within {seconds:.0f} s.")
            self._tick_for(_PROBE_SECONDS)

    def run(self, *specs: ChildSpec) -> None:
        """Run `specs` side by side to their ends; raise `EmbeddedError` when one of them fails."""
        self._run_to_end([(spec, self._spawn(spec)) for spec in specs])

    def run_for_output(self, spec: ChildSpec) -> str:
        """Run `spec` to its end and return what it printed; raise `EmbeddedError`, with that, when it fails."""
        with tempfile.TemporaryFile() as file:
            try:
                self._run_to_end([(spec, spawn(spec, file))])
            except EmbeddedError:
                self.log.say(spec.name, _whole_text(file))
                raise
            return _whole_text(file)

    def _run_to_end(self, running: Sequence[tuple[ChildSpec, subprocess.Popen[bytes]]]) -> None:
        self._running_to_end = {process.pid for _, process in running}
        try:
            while any(process.poll() is None for _, process in running):
                self._tick(0.1)
        finally:
            self._running_to_end = set()
            kill(process for _, child in running for process in in_session(child.pid))
        for spec, process in running:
            if process.returncode:
                self.log.forward(0.1)
                raise EmbeddedError(f"{spec.name} failed with {ending(process.returncode)}; its lines above say why.")

    def keep_away_from(self, process: subprocess.Popen[bytes]) -> None:
        """Leave `process`, a child of ours that is none of the services, out of everything but the reaping."""
        self._kept_away.add(process.pid)

    def supervise(self, also: Sequence[Callable[[], None]] = ()) -> None:
        """Keep every child running until a signal asks for the end; call each of `also` several times a second."""
        while self.stop_requested_at is None:
            for step in also:
                step()
            try:
                self._tick(_TICK_SECONDS)
            except StopRequested:
                return

    def stop_all(self, groups: Sequence[tuple[Callable[[ChildSpec], bool], float]]) -> None:
        """End the children, group after group, and last whatever descends from us.

        Shape: each group is a choice of children and the seconds, counted from the wish to stop, after which those
        that are still there are killed with all their descendants. Within a group the last started is told first.
        """
        began = self.stop_requested_at = self.stop_requested_at or time.monotonic()
        for chosen, seconds in groups:
            self._stop([child for child in reversed(self._children) if chosen(child.spec)], began, seconds)
        for _ in range(20):
            left = descendants(except_for=self._kept_away)
            kill(left)
            self.log.forward(0.05)
            reap_adopted(self._own_pids())
            if not left:
                return

    def _stop(self, children: Sequence[_Child], began: float, seconds: float) -> None:
        is_quiet = True
        for child in children:
            child.start_at = None
            if child.process and child.process.poll() is None:
                child.process.send_signal(child.spec.stop_signal)
        while left := [child for child in children if child.process and child.process.poll() is None]:
            names, waited = ", ".join(child.spec.name for child in left), time.monotonic() - began
            if waited > seconds:
                self.log.say(NAME, f"{names}: did not end in time, killed")
                break
            if is_quiet and waited > _QUIET_STOP_SECONDS:
                is_quiet = False
                self.log.say(NAME, f"{names}: has not ended yet, killed after {seconds:.0f} s")
            self.log.forward(0.05)
        for child in children:
            if child.process:
                kill(in_session(child.process.pid))
                child.process.wait()

    def _tick(self, seconds: float) -> None:
        if self.stop_requested_at is not None:
            raise StopRequested
        self.log.forward(seconds)
        for child in self._children:
            if child.process and child.process.poll() is not None:
                self._take_note_of_end(child)
            if child.start_at is not None and time.monotonic() >= child.start_at:
                self._try_to_start(child)
        reap_adopted(self._own_pids())

    def _tick_for(self, seconds: float) -> None:
        """Go on for the whole of `seconds`, where a tick ends as soon as somebody prints a line."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._tick(left)

    def _take_note_of_end(self, child: _Child) -> None:
        assert child.process is not None
        process, child.process = child.process, None
        # What the dead one had started would go on working for nobody, and hold its ports and locks.
        kill(in_session(process.pid))
        is_over = child.spec.restart is RestartRule.NEVER
        if is_over or (process.returncode == 0 and child.spec.restart is RestartRule.ON_FAILURE):
            return
        if time.monotonic() - child.started_at >= WELL_AFTER_SECONDS:
            child.failures = 0
        end = f"(process {process.pid}) ended with {ending(process.returncode)}"
        self._start_later(child, f"{end}; starting it again")

    def _try_to_start(self, child: _Child) -> None:
        try:
            self._start(child)
        except OSError as error:  # a full or read-only disk: everything else goes on
            self._start_later(child, f"cannot be started: {error}; trying again")

    def _start_later(self, child: _Child, what: str) -> None:
        child.failures += 1
        delay = _delay_before_restart(child.failures)
        child.start_at = time.monotonic() + delay
        self.log.say(NAME, f"{child.spec.name} {what} in {delay:.1f} s")

    def _start(self, child: _Child) -> None:
        child.start_at = None
        if child.spec.clear_the_way:
            child.spec.clear_the_way()
        child.process = self._spawn(child.spec)
        child.started_at = time.monotonic()

    def _spawn(self, spec: ChildSpec) -> subprocess.Popen[bytes]:
        process = spawn(spec, subprocess.PIPE)
        assert process.stdout is not None
        self.log.follow(spec.name, process.stdout, spec.unsaid)  # type: ignore[arg-type]
        self.log.say(NAME, f"started {spec.name} (process {process.pid})")
        return process

    def _own_pids(self) -> set[int]:
        """Return the children whose exit status somebody here waits for."""
        return self._kept_away | self._running_to_end | {child.process.pid for child in self._children if child.process}


def _whole_text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
