"""One stream of log lines from many processes, each line under the name of its process."""

import contextlib
import os
import select
import selectors
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

NAME_WIDTH = 16
# A reader that has stopped reading must not stop the supervisor: what does not fit is dropped, and said to be.
_KEPT_BYTES = 1 << 20
# A pipe that select reports as writable takes this much without blocking.
_PIPE_WRITE = 4096
_READ = 1 << 16
_COLOURS = (36, 32, 33, 35, 34, 96, 92, 93, 95, 94)


@dataclass(frozen=True)
class _Source:
    name: str
    unsaid: Sequence[bytes]


class Log:
    """Collects the output of children and writes it line by line; it never blocks, be it on them or on its reader."""

    def __init__(self, sink: int, *, colour: bool) -> None:
        self._sink = sink
        self._colour = colour
        self._selector = selectors.DefaultSelector()
        self._partial: dict[int, bytes] = {}
        self._colours: dict[str, int] = {}
        self._pending: deque[bytes] = deque()
        self._pending_bytes = 0
        self._dropped = 0

    def say(self, name: str, text: str) -> None:
        """Add `text`, of one line or more, under `name`."""
        for line in text.splitlines():
            self._add(f"{self._prefix(name)}{line}\n".encode(errors="replace"))
        self._write()

    def say_plainly(self, text: str) -> None:
        """Add `text` as it is, for what a person is meant to read."""
        self._add(f"{text}\n".encode())
        self._write()

    def follow(self, name: str, output: BinaryIO, unsaid: Sequence[str] = ()) -> None:
        """Take lines from `output` as they come, until it ends, but for those that hold one of `unsaid`."""
        os.set_blocking(output.fileno(), False)
        self._partial[output.fileno()] = b""
        self._selector.register(output, selectors.EVENT_READ, _Source(name, [part.encode() for part in unsaid]))

    def wake_on(self, descriptor: int) -> None:
        """Return early from `pump` when `descriptor` can be read; what it holds is thrown away."""
        os.set_blocking(descriptor, False)
        self._selector.register(descriptor, selectors.EVENT_READ, None)

    def forward(self, seconds: float) -> None:
        """Move lines for at most `seconds`, returning as soon as something has moved."""
        for key, _ in self._selector.select(seconds):
            read = b""
            with contextlib.suppress(BlockingIOError):
                read = os.read(key.fd, _READ)
            if key.data is None:
                continue
            if read:
                self._take(key.data, key.fd, read)
            else:
                self._take(key.data, key.fd, b"\n" if self._partial[key.fd] else b"")
                self._selector.unregister(key.fileobj)
                del self._partial[key.fd]
                key.fileobj.close()  # type: ignore[union-attr]
        self._write()

    def flush(self, seconds: float) -> None:
        """Write what is left, as far as the reader takes it within `seconds`."""
        deadline = time.monotonic() + seconds
        while self._pending and time.monotonic() < deadline:
            select.select([], [self._sink], [], 0.05)
            self._write()

    def _take(self, source: _Source, descriptor: int, read: bytes) -> None:
        *lines, rest = (self._partial[descriptor] + read).split(b"\n")
        self._partial[descriptor] = rest
        prefix = self._prefix(source.name).encode()
        for line in lines:
            if not any(part in line for part in source.unsaid):
                self._add(prefix + line + b"\n")

    def _prefix(self, name: str) -> str:
        text = f"{name:<{NAME_WIDTH}} | "
        if not self._colour:
            return text
        colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
        return f"\x1b[{colour}m{text}\x1b[0m"

    def _add(self, line: bytes) -> None:
        if self._pending_bytes + len(line) > _KEPT_BYTES:
            self._dropped += 1
            return
        if self._dropped:
            line = f"{self._prefix('supervisor')}{self._dropped} lines were dropped: nobody read them\n".encode() + line
            self._dropped = 0
        self._pending.append(line)
        self._pending_bytes += len(line)

    def _write(self) -> None:
        while self._pending and select.select([], [self._sink], [], 0)[1]:
            line = self._pending[0]
            try:
                written = os.write(self._sink, line[:_PIPE_WRITE])
            except OSError:
                # The reader has gone (`make demo | head`); the services have not.
                self._sink = os.open(os.devnull, os.O_WRONLY)
                continue
            self._pending_bytes -= written
            if written == len(line):
                self._pending.popleft()
            else:
                self._pending[0] = line[written:]


def wants_colour(sink: int, environment: Mapping[str, str]) -> bool:
    """Return whether `sink` shows colours and its user has not declined them (NO_COLOR)."""
    return os.isatty(sink) and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
