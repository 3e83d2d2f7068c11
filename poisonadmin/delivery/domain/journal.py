"""The journal that a sandbox shares with its parent: the message in turn, results before it, the deadline to begin.

A file mapped by both, so that it outlives either. The child writes the turn before a handler sees the message, and the
record of its result behind it; the message in turn that has no record is the one that the child crashed with.
The child loads this file by its path, without the package: it imports the standard library only.
"""

import json
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

MAGIC = 0x5041_5347_0000_0001
RING_BYTES = 1 << 20
OUTPUT_BYTES = 8192
HEAD_BYTES = 4096
JOURNAL_BYTES = HEAD_BYTES + OUTPUT_BYTES + RING_BYTES
# One record has to fit beside others; what a handler says of a failure is cut to this.
MAX_RECORD_BYTES = 192 * 1024

Buffer = bytes | bytearray | memoryview


class HeaderField(IntEnum):
    """The 8-byte words at the head of the journal. Each is written whole, by one side only."""

    MAGIC = 0
    NODE = 1  # parent: the node's id
    CLAIM = 2  # parent
    SHARD = 3  # parent
    CLOCK_OFFSET = 4  # parent, float: what added to the monotonic clock gives the database's Unix time
    DEADLINE = 5  # parent, float, monotonic seconds: the child begins nothing from then on
    READ = 6  # parent: bytes of the ring whose results are in the database, all in all
    ANSWERED = 7  # parent: the turn of the last of those
    PID = 8  # child
    PHASE = 9  # child
    TURN = 10  # child: the number of the message it has begun, from 1; 0 before the first
    MESSAGE = 11  # child: that message's id
    ATTEMPT = 12  # child: and attempt number
    BEGAN = 13  # child, float, monotonic seconds
    CPU = 14  # child, float: processor seconds that it had used by then
    WRITTEN = 15  # child: bytes that it has put into the ring, all in all
    OUTPUT = 16  # child: bytes that the message in turn has printed
    WHY = 17  # child: why it is about to exit
    EXIT_CODE = 18  # child: what was given to sys.exit


class Phase(IntEnum):
    """The phase of the child."""

    STARTING = 0
    LOADING = 1
    READY = 2


class Why(IntEnum):
    """Why a child ends by itself, where it could still say so."""

    NONE = 0
    NOTHING_MORE = 1
    DEADLINE = 2
    INPUT_LOST = 3
    NOT_LOADED = 4
    SYSTEM_EXIT = 5
    OUT_OF_MEMORY = 6
    INTERRUPTED = 7
    JOURNAL_DAMAGED = 8


class Kind(IntEnum):
    """The kind of a message's result."""

    DELIVERED = 0
    FAILED = 1
    DISCARDED = 2
    MOVED = 3
    ROLLED_BACK = 4
    CONVERSATION_ENDED = 5
    NOT_LOADED = 6


@dataclass(frozen=True)
class Result:
    """One message's result. `turn` is its number; times are monotonic seconds; `details`: the handler's answer."""

    turn: int
    message_id: int
    attempt_number: int
    kind: Kind
    started: float
    finished: float
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Turn:
    """The message whose turn it is: it was begun and has no result."""

    number: int
    message_id: int
    attempt_number: int
    began: float
    cpu_seconds: float


_RECORD = struct.Struct("=IQqIHxxdd")  # bytes of the details, turn, message, attempt, kind, started, finished


class Journal:
    """A view of the journal's bytes; `buffer` is the map, or a copy of what an ended process left."""

    def __init__(self, buffer: Buffer | mmap.mmap) -> None:
        self._bytes = memoryview(buffer)
        if len(self._bytes) != JOURNAL_BYTES:
            raise ValueError(f"a journal has {JOURNAL_BYTES} bytes, not {len(self._bytes)}")
        self._integers = self._bytes[:HEAD_BYTES].cast("q")
        self._floats = self._bytes[:HEAD_BYTES].cast("d")
        self._output = self._bytes[HEAD_BYTES : HEAD_BYTES + OUTPUT_BYTES]
        self._ring = self._bytes[HEAD_BYTES + OUTPUT_BYTES :]

    def get(self, word: HeaderField) -> int:
        """Return a word as an integer."""
        return int(self._integers[word])

    def get_float(self, word: HeaderField) -> float:
        """Return a word as a float."""
        return float(self._floats[word])

    def set(self, word: HeaderField, value: int) -> None:
        """Write a word, whole."""
        self._integers[word] = value

    def set_float(self, word: HeaderField, value: float) -> None:
        """Write a word, whole."""
        self._floats[word] = value

    def begin(self, message_id: int, attempt_number: int, *, now: float, cpu: float) -> None:
        """Make it this message's turn. The number goes last: until then it is nobody's."""
        self._integers[HeaderField.MESSAGE] = message_id
        self._integers[HeaderField.ATTEMPT] = attempt_number
        self._floats[HeaderField.BEGAN] = now
        self._floats[HeaderField.CPU] = cpu
        self._integers[HeaderField.OUTPUT] = 0
        self._integers[HeaderField.TURN] += 1

    def put(self, kind: Kind, details: dict[str, Any] | None, *, now: float) -> bool:
        """Write the result of the message in turn; False when the ring has no room for it yet."""
        text = b"" if details is None else json.dumps(details, ensure_ascii=True).encode("ascii")
        size = _RECORD.size + len(text)
        written = self.get(HeaderField.WRITTEN)
        if written + size - self.get(HeaderField.READ) > RING_BYTES:
            return False
        head = _RECORD.pack(
            len(text), self.get(HeaderField.TURN), self.get(HeaderField.MESSAGE), self.get(HeaderField.ATTEMPT), kind,
            self.get_float(HeaderField.BEGAN), now,
        )  # fmt: skip
        self._write(written, head + text)
        self.set(HeaderField.WRITTEN, written + size)  # from here on the result counts
        return True

    def results(self, since: int) -> Iterator[tuple[int, Result]]:
        """Yield each result after `since` bytes of the ring, with the position behind it.

        Ends early where the bytes are no record: whatever the child wrote there, nobody else is to suffer.
        """
        count = self.get(HeaderField.WRITTEN) - since
        if not 0 < count <= RING_BYTES:
            return
        records = self._read(since, count)
        position = 0
        while position + _RECORD.size <= count:
            size, turn, message, attempt, kind, started, finished = _RECORD.unpack_from(records, position)
            start, position = position + _RECORD.size, position + _RECORD.size + size
            if position > count or size > MAX_RECORD_BYTES or kind > max(Kind):
                return
            details = _details(records[start:position])
            yield since + position, Result(turn, message, attempt, Kind(kind), started, finished, details)

    def turn(self, answered: int) -> Turn | None:
        """Return the message in turn, None when its number is `answered`, that of the last result."""
        number = self.get(HeaderField.TURN)
        if number <= answered:
            return None
        return Turn(
            number,
            self.get(HeaderField.MESSAGE),
            self.get(HeaderField.ATTEMPT),
            self.get_float(HeaderField.BEGAN),
            self.get_float(HeaderField.CPU),
        )

    def fixed(self) -> bytes:
        """Return the words that nobody may change while a message is handled."""
        ours, theirs = HeaderField.DEADLINE * 8, HeaderField.PID * 8
        return bytes(self._bytes[:ours]) + bytes(self._bytes[theirs : HeaderField.OUTPUT * 8])

    def note_output(self, text: bytes) -> None:
        """Keep the last 8 kB of what the message in turn prints."""
        total = self.get(HeaderField.OUTPUT)
        kept = text[-OUTPUT_BYTES:]
        start = (total + len(text) - len(kept)) % OUTPUT_BYTES
        first = min(len(kept), OUTPUT_BYTES - start)
        self._output[start : start + first] = kept[:first]
        self._output[: len(kept) - first] = kept[first:]
        self.set(HeaderField.OUTPUT, total + len(text))

    def output(self) -> bytes:
        """Return the last 8 kB of what the message in turn has printed."""
        total = self.get(HeaderField.OUTPUT)
        printed = self._printed()
        if total <= OUTPUT_BYTES:
            return printed[: max(total, 0)]
        cut = total % OUTPUT_BYTES
        return printed[cut:] + printed[:cut]

    def release(self) -> None:
        """Let go of the buffer, so that a map can be closed."""
        for view in (self._integers, self._floats, self._output, self._ring, self._bytes):
            view.release()

    def _write(self, position: int, data: bytes) -> None:
        start = position % RING_BYTES
        first = min(len(data), RING_BYTES - start)
        self._ring[start : start + first] = data[:first]
        self._ring[: len(data) - first] = data[first:]

    def _read(self, position: int, size: int) -> bytes:
        start = position % RING_BYTES
        first = min(size, RING_BYTES - start)
        return self._in_ring(start, first) + self._in_ring(0, size - first)

    def _printed(self) -> bytes:
        return bytes(self._output)

    def _in_ring(self, start: int, size: int) -> bytes:
        return bytes(self._ring[start : start + size])


def _details(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
