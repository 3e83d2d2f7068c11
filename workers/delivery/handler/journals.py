"""The files of journals, and the attempts that are read in those of a lost node.

The parent reads and writes the file of a sandbox: a map of a file that a handler cuts off would kill whoever looks into
it.
"""

import contextlib
import os
import signal
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from poisonadmin.delivery.domain.journal import (
    HEAD_BYTES,
    JOURNAL_BYTES,
    MAGIC,
    OUTPUT_BYTES,
    RING_BYTES,
    HeaderField,
    Journal,
    Kind,
)
from poisonadmin.delivery.domain.lease import NOWHERE, HeldFor
from poisonadmin.groups.domain.failures import Failure
from poisonadmin.messages.domain.attempt import AttemptRecord
from poisonadmin.messages.domain.outcomes import Outcome
from workers.delivery.deliveries import Delivery, RunIdentity, attempt_row, fail
from workers.delivery.handler.outcomes import result_row
from workers.delivery.run import instant

_INTEGER, _FLOAT = struct.Struct("=q"), struct.Struct("=d")


class JournalDamaged(Exception):
    """Raised when the file is not what both sides have written: a handler has changed it."""


class JournalFile(Journal):
    """The file of a sandbox, made under its name when its head is complete. Errors: `FileExistsError`.

    `words`: what stands at its head. What only we write must stay as we wrote it.
    """

    def __init__(self, path: Path, words: Mapping[HeaderField, int]) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        self._file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        self._ours: dict[HeaderField, bytes] = {}
        os.ftruncate(self._file, JOURNAL_BYTES)
        for word in (HeaderField.READ, HeaderField.ANSWERED):
            self.set(word, 0)
        for word, value in {HeaderField.MAGIC: MAGIC, **words}.items():
            self.set(word, value)
        try:
            os.link(draft, path)  # what bears the name is whole, wherever we are killed
        finally:
            self.release()
            draft.unlink()
        self._file = os.open(path, os.O_RDWR)  # by its name, by which a process that maps it is found

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._file

    def get(self, word: HeaderField) -> int:
        """Return a word as an integer. Errors: `JournalDamaged`."""
        return int(_INTEGER.unpack(self._at(word * 8, 8))[0])

    def get_float(self, word: HeaderField) -> float:
        """Return a word as a float. Errors: `JournalDamaged`."""
        return float(_FLOAT.unpack(self._at(word * 8, 8))[0])

    def set(self, word: HeaderField, value: int) -> None:
        """Write a word, whole."""
        self._put_word(word, _INTEGER.pack(value))

    def set_float(self, word: HeaderField, value: float) -> None:
        """Write a word, whole."""
        self._put_word(word, _FLOAT.pack(value))

    def is_sound(self, *, taken: int, begun: Callable[[], int]) -> bool:
        """Return whether nobody but the two sides has written there, as far as the head shows.

        `taken`: bytes of the ring that we have read. `begun`: how many messages the child has begun, as the kernel
        counts; the child counts a message before it writes down that it has begun it.
        """
        at_least = begun() - 1
        head = os.pread(self._file, HEAD_BYTES, 0)
        if len(head) < HEAD_BYTES or os.fstat(self._file).st_size != JOURNAL_BYTES:
            return False
        if any(head[word * 8 : word * 8 + 8] != value for word, value in self._ours.items()):
            return False
        words: tuple[int, ...] = struct.unpack_from(f"={len(HeaderField)}q", head)
        return 0 <= words[HeaderField.WRITTEN] - taken <= RING_BYTES and at_least <= words[HeaderField.TURN] <= begun()

    def release(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _printed(self) -> bytes:
        return self._at(HEAD_BYTES, OUTPUT_BYTES)

    def _in_ring(self, start: int, size: int) -> bytes:
        return self._at(HEAD_BYTES + OUTPUT_BYTES + start, size)

    def _at(self, start: int, size: int) -> bytes:
        found = os.pread(self._file, size, start)
        if len(found) != size:
            raise JournalDamaged
        return found

    def _put_word(self, word: HeaderField, value: bytes) -> None:
        self._ours[word] = value
        os.pwrite(self._file, value, word * 8)


NODE_LOST_CLASS = "NodeLost"


def journal_directory() -> Path:
    """Return where this machine's journals are: `nodes` in POISONADMIN_HOME."""
    home = os.environ.get("POISONADMIN_HOME") or Path(__file__).resolve().parents[3] / ".poisonadmin"
    return Path(home).resolve() / "nodes"


def remove_journals(node_id: int, directory: Path | None = None) -> None:
    """Remove the journals of a node that has ended and written everything."""
    for path in (directory or journal_directory()).glob(f"{node_id}-*"):
        path.unlink(missing_ok=True)


def node_ids(directory: Path) -> set[int]:
    """Return the nodes that have journals there."""
    return {int(number) for path in directory.glob("*-*") if (number := path.name.partition("-")[0]).isdigit()}


def attempts_left_behind(
    directory: Path, *, node_id: int, name: str, claim_id: int, shard: int, destinations: Mapping[int, HeldFor]
) -> list[AttemptRecord] | None:
    """Return the attempts that a lost node made and may not have written; None where its journals are lost or damaged.

    A result is what the handler answered; the message in turn had begun when the node was lost. `destinations`:
    message id -> where it was delivered. Ends a sandbox that outlived its node.
    """
    if not directory.is_dir():
        return None
    rows: list[AttemptRecord] = []
    try:
        for path in sorted(directory.glob(f"{node_id}-*.journal")):
            _end_its_sandbox(path)
            rows += _attempts_in(path, claim_id, shard, name, destinations)
    except JournalDamaged:
        return None
    return rows


def _attempts_in(
    path: Path, claim_id: int, shard: int, name: str, destinations: Mapping[int, HeldFor]
) -> Iterator[AttemptRecord]:
    data = path.read_bytes()
    if len(data) != JOURNAL_BYTES or (journal := Journal(data)).get(HeaderField.MAGIC) != MAGIC:
        raise JournalDamaged
    origin = RunIdentity(claim_id, shard, journal.get_float(HeaderField.CLOCK_OFFSET))
    answered = journal.get(HeaderField.ANSWERED)
    for _, result in journal.results(journal.get(HeaderField.READ)):
        answered = max(answered, result.turn)
        if result.kind is not Kind.NOT_LOADED:
            delivery = _bare(result.message_id, result.attempt_number, destinations)
            yield result_row(origin, delivery, result, owner=destinations.get(result.message_id, NOWHERE).owner)
    if (turn := journal.turn(answered)) is not None:
        began = instant(turn.began + origin.offset)
        delivery = _bare(turn.message_id, turn.attempt_number, destinations)
        attempt = attempt_row(origin, delivery, Outcome.NODE_LOST, (began, began), output=journal.output() or None)
        failure = Failure(NODE_LOST_CLASS, f"The node {name} was lost while it handled this message.")
        yield fail(attempt, failure, Outcome.NODE_LOST)


def _bare(message_id: int, attempt_number: int, destinations: Mapping[int, HeldFor]) -> Delivery:
    destination = destinations.get(message_id, NOWHERE).destination_id
    return Delivery(message_id, attempt_number, destination, "", "", "")


def _end_its_sandbox(path: Path) -> None:
    """Kill the process that has this journal mapped, should it still run: its node is gone, or past its lease."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(path) in (process / "maps").read_text() and int(process.name) != os.getpid():
                os.kill(int(process.name), signal.SIGKILL)
