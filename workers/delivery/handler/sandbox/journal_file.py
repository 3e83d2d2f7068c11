"""The parent's side of a journal. It reads and writes the file: a map of a file that a handler cuts off would kill
whoever looks into it.
"""

import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

from poisonadmin.delivery.domain.journal import (
    HEAD_BYTES,
    JOURNAL_BYTES,
    MAGIC,
    OUTPUT_BYTES,
    RING_BYTES,
    HeaderField,
    Journal,
)

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
