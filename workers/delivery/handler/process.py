"""One sandbox as its parent sees it: a child process, its journal, and the messages that it has been given.

Its end is seen by pidfd, never by the end of a pipe, which a process that it left behind may hold. Start it from a
thread that outlives it: the kernel ends it with the thread that started it.
"""

import asyncio
import contextlib
import json
import marshal
import os
import signal
import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from poisonadmin.delivery.domain.journal import (
    OUTPUT_BYTES,
    HeaderField,
    Kind,
    Phase,
    Result,
    Turn,
    Why,
)
from workers.delivery.deliveries import Delivery
from workers.delivery.handler.children import end_sandbox, mark_of, start_child
from workers.delivery.handler.destination import HandlerDestination
from workers.delivery.handler.journals import JournalDamaged, JournalFile
from workers.delivery.handler.outcomes import CPU_LIMIT, JOURNAL_DAMAGED, TIME_LIMIT, SandboxEnd

# How often a sandbox is looked at that says nothing: the limits of a message are kept to within this.
CHECK_SECONDS = 0.02
# How long a handler's module may take to import.
LOAD_SECONDS = 60.0
_PIPE_BYTES = 1 << 20


@dataclass(frozen=True)
class JournalPlace:
    """The directory of the journals of a node's sandboxes, and the head of each.

    `offset`: what added to the monotonic clock gives the database's Unix time.
    """

    directory: Path
    node_id: int
    claim_id: int
    shard: int
    offset: float


class Sandbox:
    """A child process and the deliveries that it has been fed and has not answered, in order."""

    def __init__(self, destination: HandlerDestination, place: JournalPlace, number: int) -> None:
        self.fed: deque[Delivery] = deque()
        self._destination = destination
        self._number = number
        self._answered = 0  # the turn of the last result
        self._begun = 0  # messages
        self._taken = self._given_back = 0  # bytes of the ring
        self._unwritten: deque[tuple[int, int, int]] = deque()  # outcomes recorded by then, bytes of the ring, turn
        self._limit: str | None = None
        self._tail = b""  # the last that was written past Python: of the message in turn, or of those shortly before
        self._out = bytearray()
        self._started = time.monotonic()
        self._stirred = asyncio.Event()
        self._is_dead = False
        self.path = place.directory / f"{place.node_id}-{number}.journal"
        words = {HeaderField.NODE: place.node_id, HeaderField.CLAIM: place.claim_id, HeaderField.SHARD: place.shard}
        self.journal = JournalFile(self.path, words)
        self.journal.set_float(HeaderField.CLOCK_OFFSET, place.offset)
        self._counter = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._socket, theirs = socket.socketpair()
        self._printed, their_output = os.pipe()
        self._mark = mark_of(place.directory, place.node_id, number)
        given = {"journal": self.journal.fileno(), "input": theirs.fileno(), "begun": self._counter}
        try:
            self._child = start_child(destination, given, their_output, self._mark)
        finally:
            theirs.close()
            os.close(their_output)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _PIPE_BYTES)
        os.set_blocking(self._printed, False)
        self._pidfd = os.pidfd_open(self._child.pid)
        # The processor-time clock of another process, as clock_getcpuclockid(3) makes it.
        self._cpu_clock = (~self._child.pid << 3) | 2
        loop = asyncio.get_running_loop()
        loop.add_reader(self._pidfd, self._on_end)
        loop.add_reader(self._socket, self._on_ring)
        loop.add_reader(self._printed, self._on_output)

    @property
    def is_dead(self) -> bool:
        """Return whether the child has ended."""
        return self._is_dead

    @property
    def is_loading(self) -> bool:
        """Return whether the handler's module is not imported yet."""
        return self._word(HeaderField.PHASE) != Phase.READY

    @property
    def turn(self) -> Turn | None:
        """The message that it has begun and not answered, as its journal says; as the kernel says of a damaged one."""
        with contextlib.suppress(JournalDamaged):
            turn = self.journal.turn(self._answered)
            if turn is None and self._is_dead:
                return self._counted_turn()
            is_ours = turn is None or not self.fed or turn.message_id == self.fed[0].message_id
            if self._limit != JOURNAL_DAMAGED and (is_ours or not self._is_dead):
                return turn
        self._condemn()
        return self._counted_turn()

    @property
    def in_turn(self) -> Delivery | None:
        """The delivery of that message."""
        turn = self.turn
        return next((one for one in self.fed if turn is not None and one.message_id == turn.message_id), None)

    def _counted_turn(self) -> Turn | None:
        """Return the message that was begun last: they are begun in the order in which they were fed."""
        place = self._count_begun() - self._answered - 1
        if not 0 <= place < len(self.fed):
            return None
        delivery = self.fed[place]
        return Turn(self._begun, delivery.message_id, delivery.attempt_number, time.monotonic(), 0.0)

    def feed(self, deliveries: Iterable[Delivery]) -> None:
        """Send more messages; never blocks."""
        for delivery in deliveries:
            self.fed.append(delivery)
            self._out += frame_of(delivery)
        self._send()

    def begin_until(self, deadline: float) -> None:
        """Set the monotonic time from which the child begins nothing more."""
        self.journal.set_float(HeaderField.DEADLINE, deadline)

    async def stir(self) -> None:
        """Return when the child has run out of work or has ended, or after a moment."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stirred.wait(), CHECK_SECONDS)
        self._stirred.clear()

    def results(self) -> Iterator[tuple[Delivery | None, Result]]:
        """Yield what has been answered, each with its delivery; None for a handler that was not loaded."""
        if not self._is_sound():
            self._condemn()
            return
        until = self._word(HeaderField.WRITTEN)
        with contextlib.suppress(JournalDamaged):
            for position, result in self.journal.results(self._taken):
                if result.kind is Kind.NOT_LOADED:
                    self._taken = position
                    yield None, result
                elif self.fed:
                    expected = (self._answered + 1, self.fed[0].message_id, self.fed[0].attempt_number)
                    if (result.turn, result.message_id, result.attempt_number) != expected:
                        break
                    self._taken, self._answered = position, result.turn
                    yield self.fed.popleft(), result
                else:  # its messages were taken from it
                    self._taken = position
        if self._taken < until:
            self._condemn()

    def keep_until(self, recorded: int) -> None:
        """Note that what was taken so far is in the database once `recorded` outcomes are."""
        last = self._unwritten[-1][1] if self._unwritten else self._given_back
        if last != self._taken:
            self._unwritten.append((recorded, self._taken, self._answered))

    def give_back(self, written: int) -> None:
        """Let the child use the ring again up to what the first `written` outcomes came from."""
        while self._unwritten and self._unwritten[0][0] <= written:
            _, taken, answered = self._unwritten.popleft()
            self.journal.set(HeaderField.ANSWERED, answered)
            self.journal.set(HeaderField.READ, taken)
            self._given_back = taken

    def keep_limits(self) -> None:
        """End the child when the message in turn has taken too long, or loading has."""
        turn = self.turn
        now = time.monotonic()
        if turn is None:
            if self.is_loading and now - self._started > LOAD_SECONDS:
                self._end_for(TIME_LIMIT)
            return
        if now - turn.began > self._destination.timeout_ms / 1000:
            self._end_for(TIME_LIMIT)
        elif self._cpu_seconds() - turn.cpu_seconds > self._destination.cpu_seconds:
            self._end_for(CPU_LIMIT)

    def crash(self) -> SandboxEnd:
        """Return how it ended; only when it is dead."""
        self._on_output()
        status = self._child.wait()
        why = self._word(HeaderField.WHY)
        printed = b""
        with contextlib.suppress(JournalDamaged):
            printed = self.journal.output()
        return SandboxEnd(
            status=status,
            why=Why(why) if why in set(Why) else Why.NONE,
            exit_code=self._word(HeaderField.EXIT_CODE),
            limit=self._limit,
            output=(printed + self._tail)[-OUTPUT_BYTES:],
        )

    def end(self) -> None:
        """Kill the child and what it has forked; its end is noticed like any other."""
        if not self._is_dead:
            self._kill_group()

    def close(self) -> None:
        """End the child and all it has started, and let go of everything but the journal's file."""
        loop = asyncio.get_running_loop()
        for descriptor in (self._pidfd, self._socket, self._printed):
            loop.remove_reader(descriptor)
        loop.remove_writer(self._socket)
        if self._child.returncode is None:
            self._kill_group()
            self._child.wait()
        self._socket.close()
        os.close(self._pidfd)
        os.close(self._printed)
        os.close(self._counter)
        self.journal.release()

    def _end_for(self, limit: str) -> None:
        if self._limit is None and not self._is_dead:
            self._limit = limit
            self.end()

    def _condemn(self) -> None:
        """End the child for what its journal has become."""
        self._limit = JOURNAL_DAMAGED
        self.end()

    def _is_sound(self) -> bool:
        return self._limit != JOURNAL_DAMAGED and self.journal.is_sound(taken=self._taken, begun=self._count_begun)

    def _count_begun(self) -> int:
        with contextlib.suppress(BlockingIOError):
            self._begun += os.eventfd_read(self._counter)
        return self._begun

    def _word(self, word: HeaderField) -> int:
        try:
            return self.journal.get(word)
        except JournalDamaged:
            return 0

    def _kill_group(self) -> None:
        """Kill the child and all that it has started. It is not reaped yet, so the number is still its own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        end_sandbox(self._mark, but=self._child.pid)

    def _cpu_seconds(self) -> float:
        try:
            return time.clock_gettime(self._cpu_clock)
        except OSError:
            return 0.0

    def _send(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._out:
                sent = self._socket.send(self._out)
                del self._out[:sent]
        except BlockingIOError:
            loop.add_writer(self._socket, self._send)
            return
        except OSError:  # it has closed its end; how it ends tells what it does next
            self._out.clear()
        loop.remove_writer(self._socket)

    def _on_ring(self) -> None:
        try:
            if not self._socket.recv(4096):
                asyncio.get_running_loop().remove_reader(self._socket)
        except BlockingIOError:
            return
        except OSError:
            asyncio.get_running_loop().remove_reader(self._socket)
        self._stirred.set()

    def _on_output(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._printed, 65536):
                self._tail = (self._tail + piece)[-OUTPUT_BYTES:]
            asyncio.get_running_loop().remove_reader(self._printed)

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        self._is_dead = True
        self._kill_group()
        self._stirred.set()


HEAD = struct.Struct("=IqI")  # bytes of the rest, message, attempt; the child reads the same


def frame_of(delivery: Delivery) -> bytes:
    """Return a message as the child reads it: the head says whose it is, also where there is no room for the rest."""
    fields = (
        delivery.payload,
        delivery.message_id,
        delivery.producer_message_id,
        delivery.address,
        delivery.attempt_number,
        delivery.content_type,
        delivery.conversation_id,
        delivery.bookmark,
        delivery.delivery_count,
        delivery.is_redelivered,
        delivery.original_address,
    )
    body = marshal.dumps((fields, json.dumps(delivery.headers).encode()))
    return HEAD.pack(len(body), delivery.message_id, delivery.attempt_number) + body
