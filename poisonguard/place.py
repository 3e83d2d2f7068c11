"""A process's own directory in `journal_dir`: its journals, and the reports it has yet to send.

The process holds a record lock (fcntl) on a file in it. The kernel gives the lock back when the process ends, however
it ends, so whoever can take it knows that the owner is dead: no process number has to be compared, which another
process may have by now, or which means nothing in another container. Whoever takes it has also taken over what is
left, and nobody else will.

A journal is the file that is on disk while a message is being handled, so that a crash in the middle of it is not
forgotten. A record is one `pwrite` when the handling begins and one byte when it ends. Nothing is synced to the disk:
SIGKILL, a segmentation fault or `os._exit` end the process, and what it wrote is in the kernel's page cache, which
outlives it. Only the machine's own end loses it, and that is no message's doing.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import struct
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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


_LOCK = "lock"
_NEWBORN = ".new-"
_NEWBORN_SECONDS = 3600
# The locks that this process holds, by device and inode. It must not even open one of them again: closing any of a
# process's descriptors of a file gives back its record locks on it.
_held: set[tuple[int, int]] = set()


class LocksMissing(OSError):
    """Raised when the file system of `journal_dir` has no record locks."""


class Place:
    """A directory whose lock this process holds; `name` is unique for ever."""

    def __init__(self, path: Path, lock_fd: int, *, is_taken_over: bool = False) -> None:
        self.path = path
        self.name = path.name
        self._is_taken_over = is_taken_over
        self._lock_fd = lock_fd
        self._lock_inode = _inode(os.fstat(lock_fd))
        _held.add(self._lock_inode)
        self._is_open = True
        self._numbers = itertools.count()
        self._idle: list[CrashJournal] = []
        self._all: list[CrashJournal] = []

    # --- journals ---

    def journal(self) -> CrashJournal:
        """Return a journal that nobody uses."""
        try:
            return self._idle.pop()
        except IndexError:
            number = next(self._numbers)
            journal = CrashJournal(self.path / f"journal-{number}", number)
            self._all.append(journal)
            return journal

    def give_back(self, journal: CrashJournal) -> None:
        """Return a journal to be used again."""
        self._idle.append(journal)

    def current(self) -> str | None:
        """Return a bookmark that is being handled; None: there is none."""
        return next((journal.bookmark for journal in list(self._all) if journal.bookmark is not None), None)

    def clear(self) -> None:
        """Clear every journal: the end is deliberate (AMPS-10)."""
        for journal in list(self._all):
            journal.clear()

    def abandon(self) -> None:
        """Let go of everything in a forked child: it all belongs to the parent."""
        for journal in self._all:
            journal.abandon()
        self._is_open = False
        os.close(self._lock_fd)

    # --- reports ---

    def write_report(self, number: int, sequence: int, body: dict[str, Any]) -> Path:
        """Put a report down, whole or not at all; written again it is the same one."""
        path = self._report_path(number, sequence)
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(body))
        draft.replace(path)
        return path

    def report_once(self, number: int, sequence: int, body: dict[str, Any]) -> None:
        """Put down the report of a handling that never ended, and that it is reported.

        Where its owner has written one already, it died after its report and before it could clear the journal.
        """
        if not self._report_path(number, sequence).exists():
            self.write_report(number, sequence, body)
        journal = CrashJournal(self.path / f"journal-{number}", number)
        journal.clear()
        journal.abandon()

    def reports(self) -> list[Path]:
        """Return the reports that wait here, oldest first."""
        return sorted(self.path.glob("report-*.json"), key=lambda path: path.stat().st_mtime_ns)

    def key_of(self, report: Path) -> str:
        """Return what makes the report known as one and the same wherever and whenever it is sent."""
        return f"{self.name}.{report.stem}"

    def _report_path(self, number: int, sequence: int) -> Path:
        return self.path / f"report-{number}-{sequence}.json"

    def close_if_taken_over(self) -> None:
        """Remove a dead process's directory, of which everything has been sent."""
        if self._is_taken_over:
            self.close()

    def close(self) -> None:
        """Give the directory back; it is removed unless reports are left, which the next guard will find."""
        if not self._is_open:
            return
        self._is_open = False
        if not self.reports():
            shutil.rmtree(self.path, ignore_errors=True)
        # One that another thread still uses stays open: its number must not come to stand for another file meanwhile.
        while self._idle:
            self._idle.pop().abandon()
        _held.discard(self._lock_inode)
        os.close(self._lock_fd)


def make_place(root: Path) -> Place:
    """Return a new directory of this process in `root`; raise OSError, LocksMissing."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = uuid.uuid4().hex
    draft = root / f"{_NEWBORN}{name}"
    draft.mkdir(mode=0o700)
    lock_fd = os.open(draft / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock_fd)
        shutil.rmtree(draft, ignore_errors=True)
        raise LocksMissing(f"{root} is on a file system without record locks: {error}") from error
    os.write(lock_fd, f"{os.getpid()}\n".encode())
    place = Place(root / name, lock_fd)
    # Only now can it be found, and by now its lock is held.
    draft.rename(place.path)
    return place


def dead_places(root: Path) -> Iterator[tuple[Place, list[tuple[int, Record]]]]:
    """Take over and yield each directory in `root` whose process is dead, with what it was handling, by journal."""
    for path in sorted(root.iterdir()):
        if path.name.startswith(_NEWBORN):
            _remove_stillborn(path)
        elif (lock_fd := _take_lock(path)) is not None:
            yield Place(path, lock_fd, is_taken_over=True), list(_unfinished_in(path))


def forget_held() -> None:
    """Forget what the parent holds, in a forked child."""
    _held.clear()


def _take_lock(path: Path) -> int | None:
    """Return the lock of a directory, None where its process lives or the directory is gone."""
    try:
        if _inode((path / _LOCK).stat()) in _held:
            return None
        lock_fd = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.lockf(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever held it before us may have dealt with it, and removed it, between the two calls.
        if _inode((path / _LOCK).stat()) == _inode(os.fstat(lock_fd)):
            return lock_fd
    except OSError:
        pass
    os.close(lock_fd)
    return None


def _inode(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _unfinished_in(path: Path) -> Iterator[tuple[int, Record]]:
    for journal in sorted(path.glob("journal-*")):
        number = int(journal.name.rpartition("-")[2])
        if record := unfinished(journal):
            yield number, record


def _remove_stillborn(path: Path) -> None:
    """Remove the directory of a process that died while it made it, long ago."""
    try:
        if time.time() - path.stat().st_mtime > _NEWBORN_SECONDS:
            shutil.rmtree(path, ignore_errors=True)
    except OSError:
        pass
