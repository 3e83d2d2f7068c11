"""The file that is on disk while a message is being handled, so that a crash in the middle of it is not forgotten.

A record is one `pwrite` when the handling begins and one byte when it ends. Nothing is synced to the disk: SIGKILL, a
segmentation fault or `os._exit` end the process, and what it wrote is in the kernel's page cache, which outlives it.
Only the machine's own end loses it, and that is no message's doing.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

# state, sequence, length of the bookmark, length of the payload. The state comes first, so that one byte decides.
_HEAD = struct.Struct(">BQII")
_BUSY, _IDLE = b"\1", b"\0"
# A write within one page is not cut short by SIGKILL: the kernel looks for signals between pages.
_ONE_WRITE = 4096
NO_PAYLOAD = 0xFFFFFFFF


class Record(NamedTuple):
    """A handling that did not end. `payload` None: it was not kept."""

    sequence: int
    bookmark: str
    payload: bytes | None


class CrashJournal:
    """One file, for one handling at a time."""

    __slots__ = ("_fd", "bookmark", "number", "sequence")

    def __init__(self, path: Path, number: int) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not os.fstat(self._fd).st_size:
            # The room is taken now: a disk that fills up later does not keep messages from being handled.
            os.pwrite(self._fd, bytes(_ONE_WRITE), 0)
        self.number = number
        self.sequence = 0
        self.bookmark: str | None = None

    def begin(self, bookmark: str, payload: bytes | None = None) -> None:
        """Put down what is about to be handled; raise OSError when the disk takes no more."""
        self.sequence += 1
        raw = bookmark.encode()
        size = NO_PAYLOAD if payload is None else len(payload)
        record = _HEAD.pack(1, self.sequence, len(raw), size) + raw
        if payload is None:
            os.pwrite(self._fd, record, 0)
        else:
            _write_in_two_steps(self._fd, record + payload)
        self.bookmark = bookmark

    @property
    def is_busy(self) -> bool:
        """Return whether a handling stands in it, and it is this process's."""
        return self._fd >= 0 and self.bookmark is not None

    def clear(self) -> None:
        """Put down that the handling has ended."""
        self.bookmark = None
        if self._fd >= 0:
            os.pwrite(self._fd, _IDLE, 0)

    def abandon(self) -> None:
        """Let go of the file without a word. Only when no other thread can be about to write to it."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def _write_in_two_steps(fd: int, record: bytes) -> None:
    """Write a record of any length so that it counts only once all of it is there."""
    if len(record) <= _ONE_WRITE:
        os.pwrite(fd, record, 0)
        return
    at = 1
    while at < len(record):
        at += os.pwrite(fd, memoryview(record)[at:], at)
    os.pwrite(fd, _BUSY, 0)


def unfinished(path: Path) -> Record | None:
    """Return what the journal of a dead process was handling; None: nothing."""
    raw = path.read_bytes()
    if len(raw) < _HEAD.size or raw[:1] != _BUSY:
        return None
    _, sequence, bookmark_bytes, payload_bytes = _HEAD.unpack_from(raw)
    begin = _HEAD.size + bookmark_bytes
    bookmark = raw[_HEAD.size : begin].decode("utf-8", "replace")
    return Record(sequence, bookmark, None if payload_bytes == NO_PAYLOAD else raw[begin : begin + payload_bytes])
