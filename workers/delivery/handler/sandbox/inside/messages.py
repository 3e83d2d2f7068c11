"""What a sandbox reads: messages, one frame after the other."""

import contextlib
import os
import socket

INPUT_BYTES = 256 * 1024


class InputLost(Exception):
    """Raised when the descriptor with the messages is no longer ours."""


class Input:
    """The messages from the parent. A handler may have closed the descriptor, or opened another under its number."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._identity = self._who()
        self._buffer = b""
        self._position = 0

    def take(self, size: int) -> bytes | None:
        """Return the next bytes, None at the end of the input."""
        while len(self._buffer) - self._position < size:
            piece = self._read(max(INPUT_BYTES, size))
            if not piece:
                return None
            self._buffer = self._buffer[self._position :] + piece
            self._position = 0
        start = self._position
        self._position = start + size
        return self._buffer[start : self._position]

    def _read(self, size: int) -> bytes:
        try:
            if self._who() != self._identity:
                raise InputLost
            self._ring()
            return self._socket.recv(size)
        except OSError as error:
            raise InputLost from error

    def _ring(self) -> None:
        """Tell the parent that there is nothing left to do; it looks by itself too, only later."""
        with contextlib.suppress(BlockingIOError):  # it has not heard the last one yet
            self._socket.send(b"\0", socket.MSG_DONTWAIT)

    def _who(self) -> tuple[int, int]:
        status = os.fstat(self._socket.fileno())
        return status.st_dev, status.st_ino
