"""The file in which a node notes what it is about to send to a consumer or broker; it outlives the process.

What handlers have begun is in the journals of their sandboxes.
"""

import fcntl
from array import array
from collections.abc import Collection
from pathlib import Path


class BegunFile:
    """The notes of a living node. The kernel frees their lock when the process ends, however it ends."""

    def __init__(self, directory: Path, node_id: int) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = _path(directory, node_id).open("ab", buffering=0)
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def note(self, message_ids: Collection[int]) -> None:
        """Write down that these begin. Errors: `OSError`; then they must not."""
        notes = array("q", message_ids).tobytes()
        if self._file.write(notes) != len(notes):
            raise OSError("the note of what begins could not be written")

    def close(self) -> None:
        """Note nothing more."""
        self._file.close()


def begun_of(directory: Path, node_id: int, *, may_begin: bool) -> list[int] | None:
    """Return the messages that a lost node has noted; None where its file is lost.

    `may_begin`: it has time left to begin more, should its process live on. Errors: `BlockingIOError` when it does.
    """
    try:
        with _path(directory, node_id).open("rb") as file:
            if may_begin:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            data = file.read()
    except FileNotFoundError:
        return None
    notes = array("q")
    notes.frombytes(data[: len(data) // notes.itemsize * notes.itemsize])
    return notes.tolist()


def _path(directory: Path, node_id: int) -> Path:
    return directory / f"{node_id}-begun"
